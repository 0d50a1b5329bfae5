// Package leafio reads and writes leaves: in slots, and as they travel. It knows whether they travel as they lie or as differences
// from the committed model, and takes an optimiser's step from that model.
package leafio

import (
	"errors"
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

// Fault is an error for which no peer is to blame: this node's own files, or nobody.
type Fault struct {
	Nobody bool // what all peers did alike went wrong
	What   string
	Cause  error
}

// Error says what went wrong, and why.
func (f *Fault) Error() string { return f.What + ": " + f.Cause.Error() }

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Cause }

// Codec is how the leaves of one attempt travel.
type Codec struct {
	layout *merge.Layout
	short  *merge.Codec // nil: leaves travel as they are
	base   io.ReaderAt  // the committed model; nil: there is none yet
}

// NewCodec returns how leaves travel from this committed model, nil if there is none. They are shortened when the method names a wire
// type and a model is committed, which the state decides for all participants alike.
func NewCodec(l *merge.Layout, m *merge.Method, base io.ReaderAt) *Codec {
	c := &Codec{layout: l, base: base}
	if base != nil {
		c.short = m.NewCodec(l)
	}
	return c
}

// Shortens reports whether leaves travel as differences.
func (c *Codec) Shortens() bool { return c.short != nil }

// HasBase reports whether there is a committed model.
func (c *Codec) HasBase() bool { return c.base != nil }

// Header is that of the frame that carries a leaf.
func (c *Codec) Header(leaf int) wire.Header {
	if c.short == nil {
		return wire.Header{Kind: wire.KindLeaf, Arg: uint32(leaf), Length: uint32(c.layout.LeafLen(leaf))}
	}
	return wire.Header{Kind: wire.KindDiff, Arg: uint32(leaf), Length: uint32(c.short.Len(leaf))}
}

// Lend calls use with a leaf where it lies in a slot; false if the slot can't lend, or leaves do not travel as they lie.
func (c *Codec) Lend(slot any, leaf int, use func([]byte)) (bool, error) {
	l, ok := slot.(Lender)
	if !ok || c.short != nil {
		return false, nil
	}
	return l.Lend(c.layout.LeafOffset(leaf), c.layout.LeafLen(leaf), use)
}

// Measure is given a leaf as its receiver has it and, where that was read anyway, as the committed model has it, else nil.
type Measure func(leaf int, x, base []byte) error

// Append appends the frame of a leaf that is read from a slot, and has it measured unless with is nil. B has room for it.
func (c *Codec) Append(b []byte, from io.ReaderAt, leaf int, with Measure) ([]byte, error) {
	h := c.Header(leaf)
	b = h.Append(b)
	at := len(b)
	b = b[:at+int(h.Length)]
	if c.short == nil {
		err := Read(from, c.layout, leaf, b[at:])
		if err == nil && with != nil {
			err = with(leaf, b[at:], nil)
		}
		return b, err
	}
	n := c.layout.LeafLen(leaf)
	x, base := Room(c.layout), Room(c.layout)
	defer Free(x)
	defer Free(base)
	if err := Read(from, c.layout, leaf, x[:n]); err != nil {
		return b, err
	}
	if err := Read(c.base, c.layout, leaf, base[:n]); err != nil {
		return b, fmt.Errorf("the committed model: %w", err)
	}
	if with == nil {
		return b, c.short.Encode(leaf, b[at:], x[:n], base[:n])
	}
	err := c.short.RoundTrip(leaf, b[at:], x[:n], base[:n])
	if err == nil {
		err = with(leaf, x[:n], base[:n])
	}
	return b, err
}

// Take reads a leaf's payload, after its header, into buf, which has the leaf's length. Came, which may be nil, is given what
// has travelled.
func (c *Codec) Take(from io.Reader, leaf int, buf []byte, came func(sent []byte)) error {
	if c.short == nil {
		_, err := io.ReadFull(from, buf)
		if err == nil && came != nil {
			came(buf)
		}
		return err
	}
	room := Room(c.layout)
	defer Free(room)
	code := room[:c.short.Len(leaf)]
	if _, err := io.ReadFull(from, code); err != nil {
		return err
	}
	if came != nil {
		came(code)
	}
	if err := c.ReadBase(leaf, buf); err != nil {
		return err
	}
	return c.short.Decode(leaf, buf, code)
}

// RoundTrip makes of a leaf of this node's, in place, what the others have of it: who owns which leaf must not change what is
// merged. Keep, which may be nil, is given what travels, and must not hold on to it.
func (c *Codec) RoundTrip(leaf int, b []byte, keep func(leaf int, sent []byte)) error {
	sent := b
	if c.short != nil {
		base, code := Room(c.layout), Room(c.layout)
		defer Free(base)
		defer Free(code)
		if err := c.ReadBase(leaf, base[:len(b)]); err != nil {
			return err
		}
		sent = code[:c.short.Len(leaf)]
		if err := c.short.RoundTrip(leaf, sent, b, base[:len(b)]); err != nil {
			return &Fault{What: "shorten a leaf", Cause: err}
		}
	}
	if keep != nil {
		keep(leaf, sent)
	}
	return nil
}

// ReadBase reads a leaf of the committed model. Its error is a [Fault].
func (c *Codec) ReadBase(leaf int, b []byte) error {
	if err := Read(c.base, c.layout, leaf, b); err != nil {
		return &Fault{What: "read the committed model", Cause: err}
	}
	return nil
}

// WithBase calls use with a leaf of the committed model, nil if there is none.
func (c *Codec) WithBase(leaf int, use func(base []byte)) error {
	if c.base == nil {
		use(nil)
		return nil
	}
	room := Room(c.layout)
	defer Free(room)
	base := room[:c.layout.LeafLen(leaf)]
	if err := c.ReadBase(leaf, base); err != nil {
		return err
	}
	use(base)
	return nil
}

// Read reads a leaf of a slot into b, which has its length.
func Read(from io.ReaderAt, l *merge.Layout, leaf int, b []byte) error {
	if n, err := from.ReadAt(b, l.LeafOffset(leaf)); n < len(b) {
		return fmt.Errorf("read leaf %d: %w", leaf, short(err))
	}
	return nil
}

// short is the error of a read that came back with too little.
func short(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
