package leafio

import (
	"io"
	"sync"

	"github.com/swarmd/swarmd/merge"
)

// Stepper takes an optimiser's steps from the committed model, which may be nil, into the merged slot, both with the optimiser's
// state behind the model. It is safe for concurrent use.
type Stepper struct {
	layout *merge.Layout
	method *merge.Method
	codec  *Codec
	base   io.ReaderAt
	merged io.WriterAt
	steps  sync.Pool
}

// step is what one leaf's takes: a stepper, and buffers for it.
type step struct {
	stepper     *merge.Stepper
	base, state []byte
}

// NewStepper returns one for a method that has an optimiser; nil: it has none.
func NewStepper(l *merge.Layout, m *merge.Method, c *Codec, merged io.WriterAt) *Stepper {
	if m.StateBytes(l) == 0 {
		return nil
	}
	s := &Stepper{layout: l, method: m, codec: c, base: c.base, merged: merged}
	s.steps.New = func() any { return &step{stepper: m.NewStepper(l), base: make([]byte, merge.MaxLeafSize)} }
	return s
}

// Take makes of a leaf of the mean, in place, one of the new model, and hands the new state to keep, which may be nil. Its errors,
// but for those of keep, are [Fault].
func (s *Stepper) Take(leaf int, b []byte, keep func(leaf int, state []byte) error) error {
	x := s.steps.Get().(*step)
	defer s.steps.Put(x)
	at, n := s.method.StateSpan(s.layout, leaf)
	at += s.layout.Bytes()
	if cap(x.state) < n {
		x.state = make([]byte, n)
	}
	var base, state []byte
	next := x.state[:n]
	if s.base != nil {
		base, state = x.base[:len(b)], next
		if err := s.codec.ReadBase(leaf, base); err != nil {
			return err
		}
		if k, err := s.base.ReadAt(state, at); k < n {
			return &Fault{What: "read the committed state", Cause: short(err)}
		}
	}
	if err := x.stepper.Leaf(leaf, b, b, base, state, next); err != nil {
		// All peers took the same step: what made the mean so large is not known here.
		return &Fault{Nobody: true, What: "the optimiser's step", Cause: err}
	}
	if keep == nil {
		return nil
	}
	return keep(leaf, next)
}

// Keep writes a leaf's new state behind the merged slot's model, and returns its digest.
func (s *Stepper) Keep(leaf int, state []byte) (merge.Digest, error) {
	at, _ := s.method.StateSpan(s.layout, leaf)
	if _, err := s.merged.WriteAt(state, s.layout.Bytes()+at); err != nil {
		return merge.Digest{}, &Fault{What: "write the optimiser's state", Cause: err}
	}
	return merge.Sum(state), nil
}
