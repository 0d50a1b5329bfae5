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

// shortened is a method with its parameters and a wire type.
func shortened(t testing.TB, text, wire string) *merge.Method {
	t.Helper()
	m := canonical(t, text).String()
	if rest, ok := strings.CutSuffix(m, ")"); ok {
		return canonical(t, rest+",wire="+wire+")")
	}
	return canonical(t, m+"(wire="+wire+")")
}

// TestEveryMethodInSixteenBits is TestEveryMethodEverywhere with leaves that travel as differences; without a committed
// model they travel as they are.
func TestEveryMethodInSixteenBits(t *testing.T) {
	for k, text := range allMethods {
		for w, wire := range merge.Wires() {
			if !row(k + w) {
				continue
			}
			m := shortened(t, text, wire)
			t.Run(m.String(), func(t *testing.T) {
				n := max(2, m.LeastContributors())
				rng := rand.New(rand.NewPCG(uint64(k), uint64(w)))
				everywhere(t, m, n, w == k%2, rng)
				everywhere(t, m, n+1, true, rng)
			})
		}
	}
}

// TestDifferencesHalveTheBytes: each of n peers sends 2·M·(n-1)/n bytes in the first round, and half of that in later ones.
func TestDifferencesHalveTheBytes(t *testing.T) {
	const n = 4
	l, local, merged := floats(t, 9, n)
	for k, wire := range merge.Wires() {
		if !row(k) {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			s := newSwarm(t, n, exchange.Config{})
			a := attempt(t, l, 1, 1, 2, 3, 4)
			a.Method = "mean(wire=" + wire + ")"
			theory := float64(n) * 2 * float64(l.Bytes()) * (n - 1) / n
			for round := range 3 {
				a.Round = uint64(round + 1)
				out := s.runAll(t.Context(), a, local, merged)
				mustAll(t, out)
				var sent float64
				for i, o := range out {
					sent += float64(o.sent)
					if o.res.ModelDigest != out[0].res.ModelDigest {
						t.Errorf("round %d: participant %d holds another model", round+1, i)
					}
				}
				if share := sent / theory; math.Abs(share-1) > 0.03 && round == 0 || math.Abs(share-0.5) > 0.015 && round > 0 {
					t.Errorf("%s: round %d sent %.3f of what weights take", wire, round+1, share)
				}
				// What a stream carries last may be still on its way.
				if got, all := s.received(), s.sent(); got > all || got < all-all/1000 {
					t.Errorf("%s: round %d: %d bytes received, %d sent", wire, round+1, got, all)
				}
				base := merged
				merged = []*slot{newSlot(l.Bytes()), newSlot(l.Bytes()), newSlot(l.Bytes()), newSlot(l.Bytes())}
				s.extend = func(hub int, slots *exchange.Slots) { slots.Base = base[hub] }
			}
		})
	}
}

// TestWhoOwnsWhatChangesNothing: an owner takes of its own model what the others would.
func TestWhoOwnsWhatChangesNothing(t *testing.T) {
	const n = 3
	l, err := merge.NewLayout([]merge.Tensor{{Name: "w", DType: merge.Float32, Shape: []int64{3*merge.MaxLeafSize/4 + 11}}})
	if err != nil {
		t.Fatal(err)
	}
	for k, text := range []string{"normclip", "coordmedian", "mean", "diloco"} {
		if !row(k) {
			continue
		}
		var digests []string
		for _, owner := range []int{-1, 0, 2} {
			tr := newTraining(t, shortened(t, text, "bfloat16"), l, n, true, rand.New(rand.NewPCG(5, 6)))
			a := tr.plan(attempt(t, l, 1, 3, 1, 2))
			for i := range a.Participants {
				if owner >= 0 {
					a.Participants[i].Shard = merge.Shard{}
				}
				if i == owner {
					a.Participants[i].Shard.Leaves = l.Leaves()
				}
			}
			synctest.Test(t, func(t *testing.T) {
				out := tr.join(newSwarm(t, n, exchange.Config{})).runAll(t.Context(), a, tr.local, tr.merged)
				tr.verify(a, out)
				digests = append(digests, out[0].res.ModelDigest)
			})
		}
		if digests[0] != digests[1] || digests[0] != digests[2] {
			t.Errorf("%s: the model depends on who owns which leaf", text)
		}
	}
}

// TestValuesThatAreNotFiniteTravel: a NaN or infinity is found and laid to its contributor as without a wire type; finite
// values at the ends of their range are not.
func TestValuesThatAreNotFiniteTravel(t *testing.T) {
	l, _, _ := floats(t, 8, 1)
	const n, bad, element = 3, 1, 5*merge.MaxLeafSize/4 + 100
	for k, value := range []float32{
		float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), math.MaxFloat32 / 2, -math.MaxFloat32 / 2,
	} {
		for w, wire := range merge.Wires() {
			if !row(k + w) {
				continue
			}
			tr := newTraining(t, canonical(t, "mean(wire="+wire+")"), l, n, true, rand.New(rand.NewPCG(3, 4)))
			a := tr.plan(attempt(t, l, 1, 1, 1, 1))
			put := func(s *slot, v float32) {
				for i, bits := 0, math.Float32bits(v); i < 4; i++ {
					s.b[4*element+i] = byte(bits >> (8 * i))
				}
			}
			put(tr.local[bad], value)
			put(tr.base[0], -value/2)
			if k < 3 {
				put(tr.base[0], 1)
			}
			synctest.Test(t, func(t *testing.T) {
				out := tr.join(newSwarm(t, n, exchange.Config{})).runAll(t.Context(), a, tr.local, tr.merged)
				if k >= 3 {
					tr.verify(a, out)
					return
				}
				for i, o := range out {
					if blamed(o.err) != bad || !strings.Contains(o.err.Error(), `tensor "a.weight"`) {
						t.Errorf("%s, %g, participant %d: got %v, want blame of %d for tensor a.weight", wire, value, i, o.err, bad)
					}
				}
			})
		}
	}
}

// TestWithoutTheCommittedModelANodeIsToBlame: all count from the committed model, and who has none takes no part.
func TestWithoutTheCommittedModelANodeIsToBlame(t *testing.T) {
	const n, without = 3, 1
	l, _, _ := floats(t, 8, 1)
	tr := newTraining(t, canonical(t, "mean(wire=bfloat16)"), l, n, true, rand.New(rand.NewPCG(3, 4)))
	a := tr.plan(attempt(t, l, 1, 1, 1, 1))
	a.Round = 2
	for _, owns := range []bool{true, false} {
		if !owns {
			a.Participants[0].Shard.Leaves += a.Participants[1].Shard.Leaves
			a.Participants[1].Shard = merge.Shard{}
		}
		synctest.Test(t, func(t *testing.T) {
			s := tr.join(newSwarm(t, n, exchange.Config{}))
			extend := s.extend
			s.extend = func(hub int, slots *exchange.Slots) {
				extend(hub, slots)
				if hub == without {
					slots.Base = nil
				}
			}
			for i, o := range s.runAll(t.Context(), a, tr.local, tr.merged) {
				if got := blamed(o.err); got != without && got != -1 || i == without && got != without {
					t.Errorf("participant %d: got %v, want blame of %d", i, o.err, without)
				}
				if i == without && !strings.Contains(o.err.Error(), "no committed model") {
					t.Errorf("its own reason is %v", o.err)
				}
			}
		})
	}
}
