// Package array describes numpy arrays in messages and files of the original's client: type, shape, and where their bytes lie.
package array

import (
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"

	"github.com/swarmd/swarmd/internal/text"
	"github.com/swarmd/swarmd/merge"
)

// Bounds of a program's weights. The bridge has the same ones of tensors.
const (
	MaxCount = 100_000 // arrays
	MaxName  = 512     // bytes
	MaxDims  = 64      // numpy has at most 64
	maxSize  = 1 << 50 // bytes of one array
)

// Array is one named array. Its elements are little-endian.
type Array struct {
	Name    string
	DType   merge.DType
	Shape   []int64
	Fortran bool              // the first index changes fastest
	Data    *io.SectionReader // what ReadInto reads
}

// Check holds name, type and shape to their bounds, and the data's length to both.
func (a *Array) Check() error {
	switch n := a.Bytes(); {
	case a.Name == "" || len(a.Name) > MaxName:
		return fmt.Errorf("array %s: its name has %d bytes, want 1 to %d", text.Printable(text.Clip(a.Name, 64), '?'), len(a.Name), MaxName)
	case !a.DType.Valid():
		return fmt.Errorf("array %s has a type that can not be merged", a.quoted())
	case len(a.Shape) > MaxDims:
		return fmt.Errorf("array %s has %d dimensions, want at most %d", a.quoted(), len(a.Shape), MaxDims)
	case n < 0:
		return fmt.Errorf("array %s: its shape is out of range", a.quoted())
	case a.Data == nil || a.Data.Size() != n:
		return fmt.Errorf("array %s: its data have not the %d bytes of its shape", a.quoted(), n)
	}
	return nil
}

func (a *Array) quoted() string { return fmt.Sprintf("%q", text.Clip(a.Name, 64)) }

// Bytes is the length of the data, -1 if shape or type are out of range.
func (a *Array) Bytes() int64 {
	if !a.DType.Valid() {
		return -1
	}
	total := uint64(a.DType.Size())
	empty := false
	for _, n := range a.Shape {
		if n < 0 {
			return -1
		}
		if n == 0 {
			empty = true
			continue
		}
		hi, lo := bits.Mul64(total, uint64(n))
		if hi != 0 || lo > maxSize {
			return -1
		}
		total = lo
	}
	if empty {
		return 0
	}
	return int64(total) //nolint:gosec // at most maxSize
}

// Same reports whether two arrays can take each other's place.
func (a *Array) Same(b *Array) bool {
	return a.Name == b.Name && a.DType == b.DType && slices.Equal(a.Shape, b.Shape)
}

// String is its name, type and shape, for messages.
func (a *Array) String() string { return fmt.Sprintf("%s (%s%v)", a.quoted(), a.DType, a.Shape) }

// ReadInto reads the elements in C order. The slot has Bytes bytes.
func (a *Array) ReadInto(slot []byte) error {
	if int64(len(slot)) != a.Bytes() {
		return fmt.Errorf("array %s: a place of %d bytes is too small or too large", a.quoted(), len(slot))
	}
	if !a.Fortran || len(a.Shape) < 2 {
		return a.readAll(slot)
	}
	elements := make([]byte, len(slot))
	if err := a.readAll(elements); err != nil {
		return err
	}
	transpose(slot, elements, a.Shape, a.DType.Size())
	return nil
}

func (a *Array) readAll(to []byte) error {
	n, err := a.Data.ReadAt(to, 0)
	if n == len(to) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read array %s: %w", a.quoted(), err)
}

// transpose copies elements of Fortran order to C order.
func transpose(to, from []byte, shape []int64, size int) {
	strides := make([]int, len(shape)) // of from, by dimension
	step := size
	for i, n := range shape {
		strides[i] = step
		step *= int(n)
	}
	index := make([]int64, len(shape))
	for at, off := 0, 0; at < len(to); at += size {
		copy(to[at:at+size], from[off:])
		for d := len(shape) - 1; d >= 0; d-- {
			index[d]++
			off += strides[d]
			if index[d] < shape[d] {
				break
			}
			off -= strides[d] * int(shape[d])
			index[d] = 0
		}
	}
}
