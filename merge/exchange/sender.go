package exchange

import (
	"fmt"
	"io"

	"github.com/swarmd/swarmd/merge"
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
	c       *conn
	bounded bool
	measure measure // what is sent; nil: it is not
	buf     *[]byte // from getFrame; nil while it was not needed
}

// unreadError is that the slot could not be read.
type unreadError struct{ error }

// Unwrap returns the slot's error.
func (e unreadError) Unwrap() error { return e.error }

func (s *sender) release() {
	if s.buf != nil {
		putFrame(s.buf)
	}
}

// leaf sends one that is read from a slot. It returns an unreadError if that is what failed.
func (s *sender) leaf(from io.ReaderAt, leaf int) error {
	var head [headerSize]byte
	var wrote, measured error
	lent, err := s.lend(from, leaf, func(b []byte) {
		if s.measure != nil {
			measured = s.measure(leaf, b, nil)
		}
		if measured == nil {
			wrote = s.c.writeFrame(s.leafHeader(leaf).append(head[:0]), b, s.bounded)
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
	b, err := s.read(from, leaf)
	if err != nil {
		return unreadError{err}
	}
	return s.c.write(b, s.bounded)
}

// read returns the frame of a leaf, in the sender's buffer.
func (s *sender) read(from io.ReaderAt, leaf int) ([]byte, error) {
	if s.buf == nil {
		s.buf = getFrame(s.Layout)
	}
	return s.appendLeaf((*s.buf)[:0], from, leaf, s.measure)
}

// contribute sends an own leaf. Where shards have witnesses its bytes are those that its digest says, whatever a program writes
// meanwhile.
func (s *sender) contribute(leaf int) error {
	if !s.witnessed() {
		return s.leaf(s.slots.Local, leaf)
	}
	b, err := s.read(s.slots.Local, leaf)
	if err == nil {
		err = s.sends(leaf, b[headerSize:])
	}
	if err != nil {
		return unreadError{err}
	}
	return s.c.write(b, s.bounded)
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
