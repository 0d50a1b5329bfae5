package exchange

import (
	"sync"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange/wire"
)

// recentLeaves is how many leaves an owner keeps at least in memory after merging them: else two bundles. Receivers that are further
// behind read the slot.
const recentLeaves = 8

// recent holds the frames of the leaves that an owner merged last, so that it need not read a slot that does not lend its bytes once
// for each receiver.
type recent struct {
	mu     sync.Mutex // guards all below and the frames' uses
	most   int        // how many frames are kept; 0: recentLeaves
	frames []*frame   // oldest first
	closed bool
}

// frame is a leaf as it is sent. Whoever uses it must not change it.
type frame struct {
	leaf int
	buf  *[]byte // from getFrame
	uses int     // by the list and by writers
}

// newFrame returns a frame with its header and room for the payload, in use once.
func newFrame(l *merge.Layout, h wire.Header) *frame {
	buf := getFrame(l)
	*buf = h.Append(*buf)[:wire.HeaderSize+int(h.Length)]
	return &frame{leaf: int(h.Arg), buf: buf, uses: 1}
}

func (f *frame) payload() []byte { return (*f.buf)[wire.HeaderSize:] }

// add takes over the caller's use of a frame.
func (r *recent) add(f *frame) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		r.dropLocked(f)
		return
	}
	if len(r.frames) == max(r.most, recentLeaves) {
		r.dropLocked(r.frames[0])
		r.frames = append(r.frames[:0], r.frames[1:]...)
	}
	r.frames = append(r.frames, f)
}

// take returns the frame of a leaf, nil if it is not there any more. The caller drops it.
func (r *recent) take(leaf int) *frame {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.frames {
		if f.leaf == leaf {
			f.uses++
			return f
		}
	}
	return nil
}

// drop ends one use.
func (r *recent) drop(f *frame) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropLocked(f)
}

func (r *recent) dropLocked(f *frame) {
	if f.uses--; f.uses == 0 {
		putFrame(f.buf)
		f.buf = nil
	}
}

// close frees what no writer uses.
func (r *recent) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.frames {
		r.dropLocked(f)
	}
	r.frames, r.closed = nil, true
}

// giveRecent writes a leaf from memory; done is false if it is not there.
func (r *run) giveRecent(c *wire.Conn, leaf int) (done bool, err error) {
	f := r.recent.take(leaf)
	if f == nil {
		return false, nil
	}
	defer r.recent.drop(f)
	return true, c.Write(*f.buf, true)
}

// keepRecent keeps what travels of a merged leaf for the receivers; before progress tells them of it.
func (r *run) keepRecent(leaf int, b []byte) {
	if len(r.Participants) > 1 {
		f := newFrame(r.Layout, r.leafHeader(leaf))
		copy(f.payload(), b)
		r.recent.add(f)
	}
}
