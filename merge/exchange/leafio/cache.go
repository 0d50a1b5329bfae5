package leafio

import (
	"sync"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange/wire"
)

// CachedLeaves is how many leaves an owner keeps at least in memory after merging them: else two bundles. Receivers that are further
// behind read the slot.
const CachedLeaves = 8

// Cache holds the frames of the leaves that an owner merged last, so that it need not read a slot that does not lend its bytes once
// for each receiver.
type Cache struct {
	mu     sync.Mutex // guards all below and the frames' uses
	most   int        // how many frames are kept
	frames []*frame   // oldest first
	closed bool
}

// frame is a leaf as it is sent. Whoever uses it must not change it.
type frame struct {
	leaf int
	buf  *[]byte // from FrameRoom
	uses int     // by the list and by writers
}

// NewFrame returns a frame with its header and room for the payload, in use once.
func NewFrame(l *merge.Layout, h wire.Header) *frame {
	buf := FrameRoom(l)
	*buf = h.Append(*buf)[:wire.HeaderSize+int(h.Length)]
	return &frame{leaf: int(h.Arg), buf: buf, uses: 1}
}

// Bytes returns all of it.
func (f *frame) Bytes() []byte { return *f.buf }

// Payload returns what follows on the header.
func (f *frame) Payload() []byte { return (*f.buf)[wire.HeaderSize:] }

// NewCache returns one for some leaves; cachedLeaves at least.
func NewCache(leaves int) *Cache { return &Cache{most: max(leaves, CachedLeaves)} }

// Add takes over the caller's use of a frame.
func (c *Cache) Add(f *frame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		c.dropLocked(f)
		return
	}
	if len(c.frames) == c.most {
		c.dropLocked(c.frames[0])
		c.frames = append(c.frames[:0], c.frames[1:]...)
	}
	c.frames = append(c.frames, f)
}

// Take returns the frame of a leaf, nil if it is not there any more. The caller drops it.
func (c *Cache) Take(leaf int) *frame {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.frames {
		if f.leaf == leaf {
			f.uses++
			return f
		}
	}
	return nil
}

// Drop ends one use.
func (c *Cache) Drop(f *frame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropLocked(f)
}

func (c *Cache) dropLocked(f *frame) {
	if f.uses--; f.uses == 0 {
		FreeFrame(f.buf)
		f.buf = nil
	}
}

// Close frees what no writer uses.
func (c *Cache) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.frames {
		c.dropLocked(f)
	}
	c.frames, c.closed = nil, true
}
