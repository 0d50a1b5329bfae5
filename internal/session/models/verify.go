package models

import (
	"errors"
	"fmt"
	"io"

	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/merge"
)

// Form is how models of a session lie in a slot: the flat vector and, directly behind it, the optimiser's state if the method has one.
type Form struct {
	Layout *merge.Layout
	Method *merge.Method
}

// Bytes is how long a slot is.
func (f Form) Bytes() int64 { return f.Layout.Bytes() + f.Method.StateBytes(f.Layout) }

// Verify compares what a slot holds with a committed model: the weights, and the optimiser's state if it has one. It returns the
// digests of the weights' leaves.
func (f Form) Verify(slot io.ReaderAt, want round.Model) ([]merge.Digest, error) {
	leaves, err := digests(slot, f.Layout.Leaves(), func(i int) (int64, int) { return f.Layout.LeafOffset(i), f.Layout.LeafLen(i) })
	if err != nil {
		return nil, fmt.Errorf("read the model: %w", err)
	}
	if got := merge.Combine(leaves).String(); got != want.Digest {
		return nil, fmt.Errorf("model has digest %.16s…, committed is %.16s…", got, want.Digest)
	}
	if want.State == "" {
		return leaves, nil
	}
	state, err := digests(slot, f.Layout.Leaves(), func(i int) (int64, int) {
		at, n := f.Method.StateSpan(f.Layout, i)
		return f.Layout.Bytes() + at, n
	})
	if err != nil {
		return nil, fmt.Errorf("read the optimiser's state: %w", err)
	}
	if got := merge.Combine(state).String(); got != want.State {
		return nil, fmt.Errorf("optimiser's state has digest %.16s…, committed is %.16s…", got, want.State)
	}
	return leaves, nil
}

// digests returns those of all spans.
func digests(r io.ReaderAt, n int, span func(i int) (at int64, length int)) ([]merge.Digest, error) {
	leaves := make([]merge.Digest, n)
	var buf []byte
	for i := range leaves {
		at, length := span(i)
		if cap(buf) < length {
			buf = make([]byte, length)
		}
		if length > 0 {
			if _, err := r.ReadAt(buf[:length], at); err != nil {
				return nil, err
			}
		}
		leaves[i] = merge.Sum(buf[:length])
	}
	return leaves, nil
}

// Base is the committed model as an attempt reads it, leaf by leaf. The program can reach its file, and a change would go into
// what this node merges for all, with the same digests everywhere: so each leaf is held to the committed digest.
type Base struct {
	io.ReaderAt // weights, and behind them the optimiser's state, which only the daemon reaches

	Layout *merge.Layout
	Leaves []merge.Digest
}

// ErrChanged says that a program has changed the model that it was given.
var ErrChanged = errors.New("the committed model in its weight file was changed")

// ReadAt implements io.ReaderAt.
func (b *Base) ReadAt(p []byte, off int64) (int, error) {
	n, err := b.ReaderAt.ReadAt(p, off)
	if err != nil || off >= b.Layout.Bytes() {
		return n, err
	}
	leaf := b.Layout.LeafAt(off)
	if off != b.Layout.LeafOffset(leaf) || len(p) != b.Layout.LeafLen(leaf) {
		return 0, fmt.Errorf("read %d bytes at %d of the committed model: no leaf", len(p), off)
	}
	if leaf >= len(b.Leaves) || merge.Sum(p) != b.Leaves[leaf] {
		return 0, ErrChanged
	}
	return n, nil
}
