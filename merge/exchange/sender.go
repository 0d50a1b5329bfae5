package exchange

import (
	"fmt"
	"io"
	"sync"

	"github.com/swarmd/swarmd/merge"
)

var leafPool = sync.Pool{New: func() any { b := make([]byte, merge.LeafSize); return &b }}

func getLeaf() []byte  { return *leafPool.Get().(*[]byte) }
func putLeaf(b []byte) { b = b[:merge.LeafSize]; leafPool.Put(&b) }

// framePool has room for the frame of a leaf.
var framePool = sync.Pool{New: func() any {
	b := make([]byte, 0, headerSize+merge.LeafSize)
	return &b
}}

// Lender is a slot whose bytes can be used where they lie. Lend calls use with the n bytes at off. It returns false, and has
// not called use, if the slot can't; else an error unless they were all there while use ran, which breaks off with a panic when
// they are not. Use touches them in its own goroutine only. Somebody else may change them at any time.
type Lender interface {
	Lend(off int64, n int, use func([]byte)) (bool, error)
}

// sender sends leaves from slots on one stream.
type sender struct {
	*run
	c       *conn
	bounded bool
	buf     *[]byte // of framePool; nil while it was not needed
}

// unreadError is that the slot could not be read.
type unreadError struct{ error }

// Unwrap returns the slot's error.
func (e unreadError) Unwrap() error { return e.error }

func (s *sender) release() {
	if s.buf != nil {
		*s.buf = (*s.buf)[:0]
		framePool.Put(s.buf)
	}
}

// leaf sends one that is read from a slot. It returns an unreadError if that is what failed.
func (s *sender) leaf(from io.ReaderAt, leaf int) error {
	if l, ok := from.(Lender); ok && s.codec == nil {
		if lent, err := s.lent(l, leaf); lent {
			return err
		}
	}
	if s.buf == nil {
		s.buf = framePool.Get().(*[]byte)
	}
	b, err := s.appendLeaf((*s.buf)[:0], from, leaf)
	if err != nil {
		return unreadError{err}
	}
	return s.c.write(b, s.bounded)
}

// lent sends a leaf from where it lies; false if it can't be lent.
func (s *sender) lent(from Lender, leaf int) (bool, error) {
	var head [headerSize]byte
	var wrote error
	lent, err := from.Lend(s.Layout.LeafOffset(leaf), s.Layout.LeafLen(leaf), func(b []byte) {
		wrote = s.c.writeFrame(s.leafHeader(leaf).append(head[:0]), b, s.bounded)
	})
	if err != nil {
		return true, unreadError{err}
	}
	return lent, wrote
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
