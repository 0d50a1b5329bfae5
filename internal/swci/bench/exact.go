package bench

import (
	"math"

	"github.com/swarmd/swarmd/merge"
)

// exact merges by package merge, as all owners together would, bit by bit.
type exact struct {
	method  *merge.Method
	layout  *merge.Layout
	codec   *merge.Codec // nil: elements travel as they are
	merger  *merge.Merger
	stepper *merge.Stepper // nil: the method has none

	begun int
	model []byte // the last one, or what there is of the next one
	state []byte // of its optimiser
	code  []byte
	next  []byte
}

func newExact(m *merge.Method, l *merge.Layout) *exact {
	return &exact{
		method: m, layout: l, codec: m.NewCodec(l), stepper: m.NewStepper(l),
		model: make([]byte, l.Bytes()), state: make([]byte, m.StateBytes(l)), code: make([]byte, l.LeafSize()), next: make([]byte, l.LeafSize()),
	}
}

// base is the last model's leaf, nil in the first round.
func (e *exact) base(leaf int) []byte {
	if e.begun <= 1 {
		return nil
	}
	return e.model[e.layout.LeafOffset(leaf):][:e.layout.LeafLen(leaf)]
}

// travel makes of rows what others have of them.
func (e *exact) travel(leaf int, rows ...[]byte) error {
	base := e.base(leaf)
	if e.codec == nil || base == nil {
		return nil
	}
	for _, x := range rows {
		if err := e.codec.RoundTrip(leaf, e.code[:e.codec.Len(leaf)], x, base); err != nil {
			return err
		}
	}
	return nil
}

// begin finds what the merge must know of whole models. After it each leaf is merged once.
func (e *exact) begin(plan []int, offered func(leaf int) [][]byte) (err error) {
	e.begun++
	in := merge.Contributors{}
	for _, peer := range plan {
		in.Weights = append(in.Weights, uint32(weightOf(peer))) //nolint:gosec // 69 to 100
	}
	if e.method.Distances() || e.method.BoundsNorms() {
		squares, distances := make([]float64, len(plan)), merge.NewDistances(e.layout, len(plan))
		for leaf := range e.layout.Leaves() {
			rows := offered(leaf)
			if err := e.travel(leaf, rows...); err != nil {
				return err
			}
			if e.method.Distances() {
				if err := distances.Add(leaf, rows); err != nil {
					return err
				}
			}
			for i, x := range rows {
				squares[i] += merge.UpdateSquares(e.layout, leaf, x, e.base(leaf))
			}
		}
		if e.method.Distances() {
			in.Distances = distances.Sums()
		}
		for i := range squares {
			squares[i] = math.Sqrt(squares[i])
		}
		in.Factors = e.method.Factors(in.Weights, squares) // nil for a method without
	}
	e.merger, err = e.method.NewMerger(e.layout, in)
	return err
}

// leaf merges a leaf of rows, which it changes. The result is good until the next call.
func (e *exact) leaf(leaf int, rows [][]byte) ([]byte, error) {
	base, next := e.base(leaf), e.next[:e.layout.LeafLen(leaf)]
	if err := e.travel(leaf, rows...); err != nil {
		return nil, err
	}
	if err := e.merger.Leaf(leaf, next, rows, base); err != nil {
		return nil, err
	}
	if err := e.travel(leaf, next); err != nil {
		return nil, err
	}
	if e.stepper != nil {
		at, n := e.method.StateSpan(e.layout, leaf)
		state := e.state[at : at+int64(n)]
		if err := e.stepper.Leaf(leaf, next, next, base, state, state); err != nil {
			return nil, err
		}
	}
	copy(e.model[e.layout.LeafOffset(leaf):], next)
	return next, nil
}
