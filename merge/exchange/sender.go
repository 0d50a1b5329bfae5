package exchange

import (
	"fmt"
	"io"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange/wire"
)

// Lender is a slot whose bytes can be used where they lie. Lend calls use with the n bytes at off. It returns false, and has
// not called use, if the slot can't; else an error unless they were all there while use ran, which breaks off with a panic when
// they are not. Use touches them in its own goroutine only. Somebody else may change them at any time.
type Lender interface {
	Lend(off int64, n int, use func([]byte)) (bool, error)
}

// lend calls use with a leaf where it lies in a slot; false if the slot can't lend, or leaves do not travel as they lie.
func (r *run) lend(slot any, leaf int, use func([]byte)) (bool, error) {
	l, ok := slot.(Lender)
	if !ok || r.codec != nil {
		return false, nil
	}
	return l.Lend(r.Layout.LeafOffset(leaf), r.Layout.LeafLen(leaf), use)
}

// sender sends leaves from slots on one stream.
type sender struct {
	*run
	c       *wire.Conn
	bounded bool
	measure measure // what is sent; nil: it is not
}

// unreadError is that the slot could not be read.
type unreadError struct{ error }

// Unwrap returns the slot's error.
func (e unreadError) Unwrap() error { return e.error }

// leaf sends one that is read from a slot. It returns an unreadError if that is what failed.
func (s *sender) leaf(from io.ReaderAt, leaf int) error {
	var head [wire.HeaderSize]byte
	var wrote, measured error
	lent, err := s.lend(from, leaf, func(b []byte) {
		if s.measure != nil {
			measured = s.measure(leaf, b, nil)
		}
		if measured == nil {
			wrote = s.c.WriteFrame(s.leafHeader(leaf).Append(head[:0]), b, s.bounded)
		}
	})
	if err == nil {
		err = measured
	}
	if err != nil {
		return unreadError{err}
	}
	if lent {
		return wrote
	}
	return s.together([]int{leaf}, false, func(b []byte, leaf int) ([]byte, error) { return s.appendLeaf(b, from, leaf, s.measure) })
}

// whole is the shortest leaf that is sent from where it lies, if it travels alone. A shorter one is copied for less than a write costs.
const whole = 16 << 10

// together sends some leaves as one; the last ones go with what follows. Frame appends the frame of one; its error becomes an unreadError.
func (s *sender) together(leaves []int, last bool, frame func(b []byte, leaf int) ([]byte, error)) error {
	err := s.c.Hold(len(leaves)*(wire.HeaderSize+s.Layout.LeafSize()), func(b []byte) (_ []byte, err error) {
		for _, leaf := range leaves {
			if b, err = frame(b, leaf); err != nil {
				return nil, unreadError{err}
			}
		}
		return b, nil
	})
	if err != nil || last {
		return err
	}
	return s.c.Flush(s.bounded)
}

// contribute sends a bundle of own leaves. Where shards have witnesses their bytes are those that their digests say, whatever a program
// writes meanwhile.
func (s *sender) contribute(leaves []int, last bool) error {
	if len(leaves) == 1 && s.Layout.LeafLen(leaves[0]) >= whole && !s.witnessed() {
		return s.leaf(s.slots.Local, leaves[0])
	}
	return s.together(leaves, last, func(b []byte, leaf int) ([]byte, error) {
		at := len(b) + wire.HeaderSize
		b, err := s.appendLeaf(b, s.slots.Local, leaf, s.measure)
		if err == nil {
			err = s.sends(leaf, b[at:])
		}
		return b, err
	})
}

// give sends a bundle of leaves that this node has merged, from memory where they are still there.
func (s *sender) give(merged io.ReaderAt, leaves []int, last bool) error {
	if leaf := leaves[0]; len(leaves) == 1 && s.Layout.LeafLen(leaf) >= whole {
		if done, err := s.giveRecent(s.c, leaf); done {
			return err
		}
		return s.leaf(merged, leaf)
	}
	return s.together(leaves, last, func(b []byte, leaf int) ([]byte, error) {
		if f := s.recent.take(leaf); f != nil {
			defer s.recent.drop(f)
			return append(b, *f.buf...), nil
		}
		return s.appendLeaf(b, merged, leaf, nil)
	})
}

// readLeaf fills b, which has the leaf's length.
func readLeaf(from io.ReaderAt, l *merge.Layout, leaf int, b []byte) error {
	if n, err := from.ReadAt(b, l.LeafOffset(leaf)); n < len(b) {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("read leaf %d: %w", leaf, err)
	}
	return nil
}
