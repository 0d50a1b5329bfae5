// Package mergetest merges whole models in memory, as all owners of a round
// together would: what a swarm must come to.
package mergetest

import (
	"bytes"
	"fmt"
	"math"

	"github.com/swarmd/swarmd/merge"
)

// Merge merges the models of contributors with these weights, all above 0, by
// the method. base is the last committed model and state its optimiser state;
// nil means that there is none. It returns the model and the new state, which
// is nil for a method without. Norms are those of the models around base, as
// others have them.
// Errors are those of package merge.
func Merge(m *merge.Method, l *merge.Layout, weights []uint32, models [][]byte, base, state []byte) (model, newState []byte, err error) {
	wire := m.NewCodec(l)
	if base == nil {
		wire = nil // There is nothing to count from.
	}
	if models, err = Travel(wire, l, base, models...); err != nil {
		return nil, nil, err
	}
	in := merge.Contributors{Weights: weights}
	if m.Distances() {
		if in.Distances, err = distances(l, models); err != nil {
			return nil, nil, err
		}
	}
	if m.BoundsNorms() {
		in.Factors = m.Factors(weights, Norms(l, models, base))
	}
	merger, err := m.NewMerger(l, in)
	if err != nil {
		return nil, nil, err
	}
	model = make([]byte, l.Bytes())
	for leaf := range l.Leaves() {
		if err := merger.Leaf(leaf, part(l, leaf, model), parts(l, leaf, models), part(l, leaf, base)); err != nil {
			return nil, nil, err
		}
	}
	merged, err := Travel(wire, l, base, model)
	if err != nil {
		return nil, nil, err
	}
	model = merged[0]
	stepper := m.NewStepper(l)
	if stepper == nil {
		return model, nil, nil
	}
	newState = make([]byte, m.StateBytes(l))
	for leaf := range l.Leaves() {
		at, n := m.StateSpan(l, leaf)
		var old []byte
		if state != nil {
			old = state[at : at+int64(n)]
		}
		dst := part(l, leaf, model)
		if err := stepper.Leaf(leaf, dst, dst, part(l, leaf, base), old, newState[at:at+int64(n)]); err != nil {
			return nil, nil, err
		}
	}
	return model, newState, nil
}

// Travel returns copies of models as others have them when differences from
// base have travelled in 16 bits; the models themselves for a nil codec.
func Travel(wire *merge.Codec, l *merge.Layout, base []byte, models ...[]byte) ([][]byte, error) {
	if wire == nil {
		return models, nil
	}
	out := make([][]byte, len(models))
	for i := range models {
		out[i] = bytes.Clone(models[i])
		for leaf := range l.Leaves() {
			if err := wire.RoundTrip(leaf, make([]byte, wire.Len(leaf)), part(l, leaf, out[i]), part(l, leaf, base)); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// Norms returns the Euclidean norm of each model's difference from base, nil
// for zero, over the float tensors: what contributors declare.
func Norms(l *merge.Layout, models [][]byte, base []byte) []float64 {
	norms := make([]float64, len(models))
	for i, x := range models {
		var sum float64
		for leaf := range l.Leaves() {
			sum += merge.UpdateSquares(l, leaf, part(l, leaf, x), part(l, leaf, base))
		}
		norms[i] = math.Sqrt(sum)
	}
	return norms
}

// Digests returns the digest of a model and, unless state is nil, of its
// optimiser state.
func Digests(m *merge.Method, l *merge.Layout, model, state []byte) (of, ofState merge.Digest) {
	leaves, states := make([]merge.Digest, l.Leaves()), make([]merge.Digest, l.Leaves())
	for leaf := range leaves {
		leaves[leaf] = merge.Sum(part(l, leaf, model))
		if state != nil {
			at, n := m.StateSpan(l, leaf)
			states[leaf] = merge.Sum(state[at : at+int64(n)])
		}
	}
	if state != nil {
		ofState = merge.Combine(states)
	}
	return merge.Combine(leaves), ofState
}

func distances(l *merge.Layout, models [][]byte) ([]float64, error) {
	d := merge.NewDistances(l, len(models))
	for leaf := range l.Leaves() {
		if err := d.Add(leaf, parts(l, leaf, models)); err != nil {
			return nil, fmt.Errorf("distances: %w", err)
		}
	}
	return d.Sums(), nil
}

// part returns the bytes of one leaf; nil of nil.
func part(l *merge.Layout, leaf int, model []byte) []byte {
	if model == nil {
		return nil
	}
	at := l.LeafOffset(leaf)
	return model[at : at+int64(l.LeafLen(leaf))]
}

func parts(l *merge.Layout, leaf int, models [][]byte) [][]byte {
	out := make([][]byte, len(models))
	for i := range models {
		out[i] = part(l, leaf, models[i])
	}
	return out
}

// EqualShards divides the leaves among those participants whose entry is true,
// in their order; sizes differ by at most one leaf. The others own nothing.
func EqualShards(leaves int, owners []bool) ([]merge.Shard, error) {
	n := 0
	for _, o := range owners {
		if o {
			n++
		}
	}
	if n == 0 || leaves < 0 {
		return nil, fmt.Errorf("%w: %d owners for %d leaves", merge.ErrShards, n, leaves)
	}
	shards := make([]merge.Shard, len(owners))
	k, first := 0, 0
	for i, o := range owners {
		shards[i].First = first
		if !o {
			continue
		}
		shards[i].Leaves = leaves / n
		if k < leaves%n {
			shards[i].Leaves++
		}
		first += shards[i].Leaves
		k++
	}
	return shards, nil
}
