// Package composite shows a model's weights and its optimiser's state, which lie in two files, as one.
package composite

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// Slot is one slot of two files.
type Slot struct {
	Weights interface {
		io.ReaderAt
		io.WriterAt
	}
	State *os.File // begins where the weights end
	At    int64    // how many bytes of weights there are
}

// ReadAt implements io.ReaderAt.
func (c *Slot) ReadAt(p []byte, off int64) (int, error) {
	head := c.head(p, off)
	n := 0
	if head > 0 {
		var err error
		if n, err = c.Weights.ReadAt(p[:head], off); err != nil && (!errors.Is(err, io.EOF) || n < head) {
			return n, err
		}
	}
	if n < head || len(p) == head {
		return n, nil
	}
	m, err := c.State.ReadAt(p[head:], off+int64(head)-c.At)
	return n + m, err
}

// WriteAt implements io.WriterAt. It never extends a file.
func (c *Slot) WriteAt(p []byte, off int64) (int, error) {
	head := c.head(p, off)
	n := 0
	if head > 0 {
		var err error
		if n, err = c.Weights.WriteAt(p[:head], off); err != nil {
			return n, err
		}
	}
	if len(p) == head {
		return n, nil
	}
	info, err := c.State.Stat()
	if err != nil {
		return n, err
	}
	from := off + int64(head) - c.At
	if int64(len(p)-head) > info.Size()-from {
		return n, fmt.Errorf("write optimiser state: %d bytes at %d are beyond its %d", len(p)-head, from, info.Size())
	}
	m, err := c.State.WriteAt(p[head:], from)
	return n + m, err
}

// head is how much of p lies in the weights.
func (c *Slot) head(p []byte, off int64) int {
	return int(min(max(c.At-off, 0), int64(len(p))))
}
