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
	single   *stepper[float32]
	double   *stepper[float64]
	segments []Segment
}

// step is an optimiser's step: the same source for both types that states
// have. The explicit conversions in it round each operation, so that no
// compiler fuses two.
type step struct {
	single func(*stepBlock[float32]) // for the types of up to 32 bits
	double func(*stepBlock[float64])
}

// stepBlock is some elements of one segment. The step writes next and state.
type stepBlock[F float32 | float64] struct {
	mean, base, next []F
	state            [2][]F
}

// stepper steps segments of the types whose state is F.
type stepper[F float32 | float64] struct {
	step      func(*stepBlock[F])
	stateType DType
	decode    func(d DType, b []byte, out []F)
	encode    func(d DType, b []byte, x []F)
	block     stepBlock[F]
	buffers   [5][strip]F
}

// NewStepper returns a stepper, or nil if StateBytes is 0.
func (m *Method) NewStepper(l *Layout) *Stepper {
	if m.spec.step == nil || m.StateBytes(l) == 0 {
		return nil
	}
	step := m.spec.step(m.values)
	return &Stepper{
		layout: l, method: m,
		single: &stepper[float32]{step: step.single, stateType: Float32, decode: decode32, encode: store32},
		double: &stepper[float64]{step: step.double, stateType: Float64, decode: decode64, encode: store64},
	}
}

// Leaf writes the stepped leaf to dst and its state to newState. merged is the
// leaf as the owners merged it, base the committed model's and state that
// model's optimiser state; a nil state is zero. A nil base means the first
// round: dst is merged then, and newState zero. Lengths are those of the leaf
// and of StateSpan. dst may be merged, newState may be state. A result that is
// not finite is an error of type *NonFinite without a contributor. Leaf does
// not allocate unless it fails.
func (s *Stepper) Leaf(leaf int, dst, merged, base, state, newState []byte) error {
	if leaf < 0 || leaf >= s.layout.Leaves() {
		return fmt.Errorf("step leaf %d of %d", leaf, s.layout.Leaves())
	}
	if err := checkLeaf(s.layout, leaf, dst, nil, base); err != nil {
		return err
	}
	_, n := s.method.StateSpan(s.layout, leaf)
	if len(merged) != len(dst) || len(newState) != n || state != nil && len(state) != n {
		return fmt.Errorf("step leaf %d: a mean of %d and states of %d and %d bytes, want %d and %d",
			leaf, len(merged), len(state), len(newState), len(dst), n)
	}
	copy(dst, merged)
	s.segments = s.layout.AppendSegments(s.segments[:0], leaf)
	clearPadding(dst, s.segments)
	if base == nil {
		clear(newState)
		return nil
	}
	if state == nil {
		clear(newState)
		state = newState
	}
	at := 0
	for _, g := range s.segments {
		k := (g.End - g.Start) / g.DType.Size() * int(stateUnit(g.DType)) * 4 * s.method.spec.slots
		if k == 0 {
			continue
		}
		old, next := state[at:at+k], newState[at:at+k]
		at += k
		var bad int
		if g.DType == Float64 {
			bad = s.double.segment(g, dst, base, old, next)
		} else {
			bad = s.single.segment(g, dst, base, old, next)
		}
		if bad >= 0 {
			nf := &NonFinite{Contributor: -1, Offset: int64(bad), Value: math.Inf(1)}
			nf.locate(s.layout, leaf)
			return nf
		}
	}
	return nil
}

// segment steps the elements of one segment. dst holds the mean; old and next
// are the segment's state. It returns the offset in the leaf of the first
// result that is not finite, or -1.
func (s *stepper[F]) segment(g Segment, dst, base, old, next []byte) int {
	size, n := g.DType.Size(), (g.End-g.Start)/g.DType.Size()
	bytes := s.stateType.Size()
	slots := len(old) / n / bytes
	b := &s.block
	for done := 0; done < n; done += strip {
		k := min(strip, n-done)
		at, end := g.Start+done*size, g.Start+(done+k)*size
		b.mean, b.base, b.next = s.buffers[0][:k], s.buffers[1][:k], s.buffers[2][:k]
		s.decode(g.DType, dst[at:end], b.mean)
		s.decode(g.DType, base[at:end], b.base)
		for i := range slots {
			lo := (i*n + done) * bytes
			b.state[i] = s.buffers[3+i][:k]
			s.decode(s.stateType, old[lo:lo+k*bytes], b.state[i])
		}
		s.step(b)
		s.encode(g.DType, dst[at:end], b.next)
		s.decode(g.DType, dst[at:end], b.next) // A 16-bit type may round to infinity.
		if e := unfit(b.next); e >= 0 {
			return at + e*size
		}
		for i := range slots {
			lo := (i*n + done) * bytes
			s.encode(s.stateType, next[lo:lo+k*bytes], b.state[i])
			if e := unfit(b.state[i]); e >= 0 {
				return at + e*size
			}
		}
	}
	return -1
}

// decode32 and decode64 fill out, never in place.
func decode32(d DType, b []byte, out []float32) { copy(out, load32(d, b, out)) }
func decode64(d DType, b []byte, out []float64) { copy(out, load64(d, b, out)) }

// unfit returns the first element that is NaN or infinite, or -1.
func unfit[F float32 | float64](x []F) int {
	for i, v := range x {
		if v-v != 0 {
			return i
		}
	}
	return -1
}
