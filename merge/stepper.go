package merge

import (
	"fmt"
	"math"
)

// Stepper takes an optimiser's step on the merged mean, leaf by leaf. Every
// peer takes the same step and gets the same bits. It is for one goroutine.
type Stepper struct {
	layout   *Layout
	method   *Method
	step     stepFunc
	segments []Segment
}

// stepFunc steps the elements of b in place of their state.
type stepFunc func(b *stepBlock)

// stepBlock is some elements of one segment. The step writes next and state.
// Values are rounded to float32 after each operation if narrow, so that the
// types of up to 32 bits give on every machine what float32 gives.
type stepBlock struct {
	mean, base, next []float64
	state            [2][]float64
	narrow           bool
}

// NewStepper returns a stepper, or nil if the method has no optimiser state.
func (m *Method) NewStepper(l *Layout) *Stepper {
	if m.spec.step == nil || m.StateBytes(l) == 0 {
		return nil
	}
	return &Stepper{layout: l, method: m, step: m.spec.step(m.values)}
}

// Leaf writes the stepped leaf to dst and its state to newState. merged is the
// leaf as the owners merged it, base the committed model's and state that
// model's optimiser state; both are nil in the first round: dst is merged then,
// and newState zero. Lengths are those of the leaf and of StateSpan. dst may be
// merged, newState may be state. A result that is not finite is an error of
// type *NonFinite without a contributor. Leaf does not allocate unless it
// fails.
func (s *Stepper) Leaf(leaf int, dst, merged, base, state, newState []byte) error {
	if leaf < 0 || leaf >= s.layout.Leaves() {
		return fmt.Errorf("step leaf %d of %d", leaf, s.layout.Leaves())
	}
	if len(merged) != s.layout.LeafLen(leaf) {
		return fmt.Errorf("step leaf %d: the mean has %d bytes, want %d", leaf, len(merged), s.layout.LeafLen(leaf))
	}
	if err := checkLeaf(s.layout, leaf, dst, nil, base); err != nil {
		return err
	}
	_, n := s.method.StateSpan(s.layout, leaf)
	if len(newState) != n || state != nil && len(state) != n {
		return fmt.Errorf("step leaf %d: states of %d and %d bytes, want %d", leaf, len(state), len(newState), n)
	}
	copy(dst, merged)
	if base == nil {
		clear(newState)
		return nil
	}
	if state == nil {
		clear(newState)
		state = newState
	}
	s.segments = s.layout.AppendSegments(s.segments[:0], leaf)
	clearPadding(dst, s.segments)
	at := 0
	for _, g := range s.segments {
		k := (g.End - g.Start) / g.DType.Size() * int(stateUnit(g.DType)) * 4 * s.method.spec.slots
		if k == 0 {
			continue
		}
		if bad := s.segment(g, dst, base, state[at:at+k], newState[at:at+k]); bad >= 0 {
			nf := &NonFinite{Contributor: -1, Offset: int64(bad), Value: math.Inf(1)}
			nf.locate(s.layout, leaf)
			return nf
		}
		at += k
	}
	return nil
}

// segment steps the elements of one segment, of which dst holds the mean, and
// returns the offset in the leaf of the first result that is not finite, or -1.
func (s *Stepper) segment(g Segment, dst, base, state, newState []byte) int {
	var mean, from, next, first, second [strip]float64
	size := g.DType.Size()
	kept := Float32 // type of the state
	if g.DType == Float64 {
		kept = Float64
	}
	n := (g.End - g.Start) / size
	b := stepBlock{narrow: kept == Float32}
	slots := [2][]float64{first[:], second[:]}
	for done := 0; done < n; done += strip {
		k := min(strip, n-done)
		at, end := g.Start+done*size, g.Start+(done+k)*size
		b.mean = widen(g.DType, dst[at:end], mean[:])
		b.base = widen(g.DType, base[at:end], from[:])
		b.next = next[:k]
		for i := range s.method.spec.slots {
			lo := (i*n + done) * kept.Size()
			b.state[i] = widen(kept, state[lo:lo+k*kept.Size()], slots[i])
		}
		s.step(&b)
		narrow(g.DType, dst[at:end], b.next)
		if e := notFinite(widen(g.DType, dst[at:end], mean[:])); e >= 0 {
			return at + e*size
		}
		for i := range s.method.spec.slots {
			lo := (i*n + done) * kept.Size()
			narrow(kept, newState[lo:lo+k*kept.Size()], b.state[i])
			if e := notFinite(b.state[i]); e >= 0 {
				return at + e*size
			}
		}
	}
	return -1
}
