package exchange

import (
	"errors"
	"fmt"
	"io"

	"github.com/swarmd/swarmd/merge"
)

// stepping reports whether leaves are stepped by an optimiser before they are stored.
func (r *run) stepping() bool { return r.method.StateBytes(r.Layout) > 0 }

// step takes an optimiser's step from the committed model, with buffers for it.
type step struct {
	stepper     *merge.Stepper
	base, state []byte
}

func (r *run) newStep() any {
	s := &step{stepper: r.method.NewStepper(r.Layout), base: make([]byte, merge.MaxLeafSize)}
	return s
}

// take makes of a leaf of the mean, in place, one of the new model, and hands the new state to keep, which may be nil.
func (r *run) take(leaf int, b []byte, keep func(leaf int, state []byte) error) error {
	s := r.steps.Get().(*step)
	defer r.steps.Put(s)
	at, n := r.method.StateSpan(r.Layout, leaf)
	at += r.Layout.Bytes()
	if cap(s.state) < n {
		s.state = make([]byte, n)
	}
	var base, state []byte
	next := s.state[:n]
	if r.slots.Base != nil {
		base, state = s.base[:len(b)], next
		if err := r.readBase(leaf, base); err != nil {
			return err
		}
		if k, err := r.slots.Base.ReadAt(state, at); k < n {
			return r.stepFailed("read the committed state", short(err))
		}
	}
	if err := s.stepper.Leaf(leaf, b, b, base, state, next); err != nil {
		// All peers took the same step: what made the mean so large is not known here.
		r.fail(-1, "the optimiser's step: "+err.Error(), err)
		return err
	}
	if keep == nil {
		return nil
	}
	return keep(leaf, next)
}

// keepState writes a leaf's new state behind the merged slot's model.
func (r *run) keepState(leaf int, state []byte) error {
	at, _ := r.method.StateSpan(r.Layout, leaf)
	if _, err := r.slots.Merged.WriteAt(state, r.Layout.Bytes()+at); err != nil {
		return r.stepFailed("write the optimiser's state", err)
	}
	r.progress.setState(leaf, merge.Sum(state))
	return nil
}

func (r *run) stepFailed(what string, err error) error {
	r.fail(r.Self, fmt.Sprintf("%s: %v", what, err), err)
	return err
}

// readBase reads a leaf of the committed model.
func (r *run) readBase(leaf int, b []byte) error {
	if err := readLeaf(r.slots.Base, r.Layout, leaf, b); err != nil {
		return r.stepFailed("read the committed model", err)
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
