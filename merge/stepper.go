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
	step     step
	segments []Segment
}

// step is an optimiser's step: the same source for both types that states
// have. The explicit conversions in it round each operation, so that no
// compiler fuses two.
type step struct {
	small func(*stepBlock[float32]) // for the types of up to 32 bits
	wide  func(*stepBlock[float64])
}

// stepBlock is some elements of one segment. The step writes next and state.
type stepBlock[F float32 | float64] struct {
	mean, base, next []F
	state            [2][]F
}

// NewStepper returns a stepper, or nil if StateBytes is 0.
func (m *Method) NewStepper(l *Layout) *Stepper {
	if m.spec.step == nil || m.StateBytes(l) == 0 {
		return nil
	}
	return &Stepper{layout: l, method: m, step: m.spec.step(m.values)}
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
			bad = stepSegment(s.step.wide, g, Float64, [4][]byte{dst, base, old, next})
		} else {
			bad = stepSegment(s.step.small, g, Float32, [4][]byte{dst, base, old, next})
		}
		if bad >= 0 {
			nf := &NonFinite{Contributor: -1, Offset: int64(bad), Value: math.Inf(1)}
			nf.locate(s.layout, leaf)
			return nf
		}
	}
	return nil
}

// stepSegment steps the elements of one segment. io is dst, which holds the
// mean, base, and the segment's old and new state, whose type is kept. It
// returns the offset in the leaf of the first result that is not finite, or -1.
func stepSegment[F float32 | float64](step func(*stepBlock[F]), g Segment, kept DType, io [4][]byte) int {
	dst, base, old, next := io[0], io[1], io[2], io[3]
	var room [5][strip]F
	size, n := g.DType.Size(), (g.End-g.Start)/g.DType.Size()
	slots := len(old) / n / kept.Size()
	for done := 0; done < n; done += strip {
		k := min(strip, n-done)
		at, end := g.Start+done*size, g.Start+(done+k)*size
		b := stepBlock[F]{mean: room[0][:k], base: room[1][:k], next: room[2][:k]}
		decode(g.DType, dst[at:end], b.mean)
		decode(g.DType, base[at:end], b.base)
		for i := range slots {
			lo := (i*n + done) * kept.Size()
			b.state[i] = room[3+i][:k]
			decode(kept, old[lo:lo+k*kept.Size()], b.state[i])
		}
		step(&b)
		encode(g.DType, dst[at:end], b.next)
		decode(g.DType, dst[at:end], b.next) // A 16-bit type may round to infinity.
		if e := unfit(b.next); e >= 0 {
			return at + e*size
		}
		for i := range slots {
			lo := (i*n + done) * kept.Size()
			encode(kept, next[lo:lo+k*kept.Size()], b.state[i])
			if e := unfit(b.state[i]); e >= 0 {
				return at + e*size
			}
		}
	}
	return -1
}

// decode fills out, never in place.
func decode[F float32 | float64](d DType, b []byte, out []F) {
	switch o := any(out).(type) {
	case []float32:
		copy(o, load32(d, b, o))
	case []float64:
		load64(d, b, o)
	}
}

func encode[F float32 | float64](d DType, b []byte, x []F) {
	switch v := any(x).(type) {
	case []float32:
		store32(d, b, v)
	case []float64:
		store64(d, b, v)
	}
}

// unfit returns the first element that is NaN or infinite, or -1.
func unfit[F float32 | float64](x []F) int {
	for i, v := range x {
		if v-v != 0 {
			return i
		}
	}
	return -1
}
