package exchange

import (
	"fmt"
	"io"
	"sync"

	"github.com/swarmd/swarmd/merge"
)

// batchLeaves is how many leaves go out with one write. More than one was no
// faster on loopback: the first leaf waits for the last.
const batchLeaves = 1

var leafPool = sync.Pool{New: func() any { b := make([]byte, merge.LeafSize); return &b }}

func getLeaf() []byte  { return *leafPool.Get().(*[]byte) }
func putLeaf(b []byte) { b = b[:merge.LeafSize]; leafPool.Put(&b) }

var batchPool = sync.Pool{New: func() any {
	b := make([]byte, 0, batchLeaves*(merge.LeafSize+headerSize))
	return &b
}}

// batch collects leaf frames for one write.
type batch struct {
	c       *conn
	bounded bool
	buf     *[]byte
}

func newBatch(c *conn, bounded bool) *batch {
	return &batch{c: c, bounded: bounded, buf: batchPool.Get().(*[]byte)}
}

func (w *batch) release() {
	*w.buf = (*w.buf)[:0]
	batchPool.Put(w.buf)
}

func (w *batch) full() bool  { return cap(*w.buf)-len(*w.buf) < merge.LeafSize+headerSize }
func (w *batch) empty() bool { return len(*w.buf) == 0 }

// add reads a leaf from a slot behind what is there.
func (w *batch) add(r *run, from io.ReaderAt, leaf int) error {
	b, err := r.appendLeaf(*w.buf, from, leaf)
	if err != nil {
		return err
	}
	*w.buf = b
	return nil
}

func (w *batch) flush() error {
	if w.empty() {
		return nil
	}
	err := w.c.write(*w.buf, w.bounded)
	*w.buf = (*w.buf)[:0]
	return err
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
