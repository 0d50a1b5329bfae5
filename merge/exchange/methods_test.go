package exchange_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange"
)

// scatter deals the leaves out at random, in some runs for each participant; some own nothing.
func scatter(a exchange.Attempt, rng *rand.Rand) {
	leaves := a.Layout.Leaves()
	for i := range a.Participants {
		a.Participants[i].Shard, a.Participants[i].More = merge.Shard{First: rng.IntN(leaves + 1)}, nil
	}
	for first := 0; first < leaves; {
		run := merge.Shard{First: first, Leaves: 1 + rng.IntN(min(3, leaves-first))}
		first = run.End()
		if p := &a.Participants[rng.IntN(len(a.Participants))]; p.Shard.Leaves == 0 {
			p.Shard = run
		} else {
			p.More = append(p.More, run)
		}
	}
}

// shard returns the leaves that a participant owns.
func shard(p exchange.Participant) (leaves []int) {
	for _, r := range append([]merge.Shard{p.Shard}, p.More...) {
		for leaf := r.First; leaf < r.End(); leaf++ {
			leaves = append(leaves, leaf)
		}
	}
	return leaves
}

// mixedLayout has about three leaves, of every element type in any order.
func mixedLayout(t testing.TB, rng *rand.Rand) *merge.Layout {
	t.Helper()
	var tensors []merge.Tensor
	for _, k := range rng.Perm(len(someTypes)) {
		n := rng.Int64N(merge.MaxLeafSize / 2 / int64(someTypes[k].Size()))
		tensors = append(tensors, merge.Tensor{Name: someTypes[k].String(), DType: someTypes[k], Shape: []int64{n}})
	}
	l, err := merge.NewLayout(tensors)
	if err != nil {
		t.Fatal(err)
	}
	return l.WithLeafSize(merge.MaxLeafSize)
}

// TestEveryMethodEverywhere holds the exchange to a direct merge, byte for byte, for all methods, mixes of types, numbers of
// participants, unequal shards and weights of 0, in a first round and in a later one.
func TestEveryMethodEverywhere(t *testing.T) {
	for k, text := range allMethods {
		if !row(k + 1) { // geomedian, normclip, diloco
			continue
		}
		m := canonical(t, text)
		t.Run(m.Name(), func(t *testing.T) {
			least := m.LeastContributors()
			for n := least; n <= max(5, least+1); n++ {
				rng := rand.New(rand.NewPCG(uint64(k), uint64(n)))
				everywhere(t, m, n, n%2 == 0, rng)
			}
		})
	}
}

func everywhere(t *testing.T, m *merge.Method, n int, based bool, rng *rand.Rand) {
	t.Helper()
	l := mixedLayout(t, rng)
	weights := make([]uint32, n)
	for i := range weights {
		if i < m.LeastContributors() || rng.IntN(2) > 0 {
			weights[i] = 1 + rng.Uint32N(9)
		}
	}
	rng.Shuffle(n, func(i, j int) { weights[i], weights[j] = weights[j], weights[i] })
	a := attempt(t, l, 1, weights...)
	scatter(a, rng)
	tr := newTraining(t, m, l, n, based, rng)
	a = tr.plan(a)
	synctest.Test(t, func(t *testing.T) {
		tr.verify(a, tr.join(newSwarm(t, n, exchange.Config{})).runAll(t.Context(), a, tr.local, tr.merged))
	})
}

func TestMoreNodesThanLeaves(t *testing.T) {
	l, err := merge.NewLayout([]merge.Tensor{{Name: "w", DType: merge.Float32, Shape: []int64{3}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range allMethods {
		m := canonical(t, text)
		const n = 7
		tr := newTraining(t, m, l, n, true, rand.New(rand.NewPCG(1, 2)))
		a := tr.plan(attempt(t, l, 1, 1, 2, 3, 4, 5, 6, 7))
		synctest.Test(t, func(t *testing.T) {
			tr.verify(a, tr.join(newSwarm(t, n, exchange.Config{})).runAll(t.Context(), a, tr.local, tr.merged))
		})
	}
}

// TestNaNIsNamedByEveryMethod holds that all participants learn whose weights, and which tensor, can not be merged.
func TestNaNIsNamedByEveryMethod(t *testing.T) {
	l, _, _ := floats(t, 8, 1)
	for k, text := range allMethods {
		if !row(k) { // mean, krum, fedavgm
			continue
		}
		m := canonical(t, text)
		const n = 7
		tr := newTraining(t, m, l, n, true, rand.New(rand.NewPCG(3, 4)))
		a := tr.plan(attempt(t, l, 1, 1, 2, 3, 4, 5, 6, 7))
		value := []float64{math.NaN(), math.Inf(1), math.Inf(-1)}[k%3]
		bits := math.Float32bits(float32(value))
		for k := range int64(4) {
			tr.local[4].b[int64(5*merge.MaxLeafSize)+400+k] = byte(bits >> (8 * k))
		}
		synctest.Test(t, func(t *testing.T) {
			for i, o := range tr.join(newSwarm(t, n, exchange.Config{})).runAll(t.Context(), a, tr.local, tr.merged) {
				if blamed(o.err) != 4 || !strings.Contains(o.err.Error(), `tensor "a.weight"`) {
					t.Errorf("%s, %g, participant %d: got %v, want blame of 4 for tensor a.weight", m, value, i, o.err)
				}
			}
		})
	}
}
