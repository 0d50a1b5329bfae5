package exchange_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange"
)

// witnessing has k participants merge each shard, each of them a party of its own.
func witnessing(a exchange.Attempt, k int) exchange.Attempt {
	a.Participants = slices.Clone(a.Participants)
	a.Witnesses = k
	for i := range a.Participants {
		a.Participants[i].Unit = a.Participants[i].Node
	}
	return a
}

// mergers is who merges each shard.
func mergers(a exchange.Attempt) [][]int {
	var units []string
	var owns []bool
	for _, p := range a.Participants {
		units, owns = append(units, p.Unit), append(owns, p.Shard.Leaves > 0)
	}
	return merge.Mergers(units, owns, a.Witnesses)
}

// claimed returns the claims of a shard by who makes them, and holds that exactly its mergers do, each with what every contributor
// has signed.
func claimed(t testing.TB, a exchange.Attempt, out []outcome, owner int) map[int]exchange.Claim {
	t.Helper()
	found := map[int]exchange.Claim{}
	for i, o := range out {
		if !slices.IsSortedFunc(o.res.Claims, func(x, y exchange.Claim) int { return x.Owner - y.Owner }) {
			t.Errorf("claims of %d are not ascending by owner: %v", i, o.res.Claims)
		}
		for _, c := range o.res.Claims {
			if c.Owner != owner {
				continue
			}
			if _, twice := found[i]; twice || !slices.Contains(mergers(a)[owner], i) {
				t.Errorf("%d claims the shard of %d, which %v merge; twice: %v", i, owner, mergers(a)[owner], twice)
			}
			found[i] = c
			at := 0
			for j, p := range a.Participants {
				if p.Weight == 0 {
					continue
				}
				if at >= len(c.Inputs) {
					t.Fatalf("%d has %d inputs of the shard of %d", i, len(c.Inputs), owner)
				}
				in := c.Inputs[at]
				if err := verify(p.Node, exchange.InputMessage(a.Planned().Digest(), j, owner, in.Digest), in.Signature); err != nil {
					t.Errorf("%d has an input of %d in the shard of %d that it has not signed: %v", i, j, owner, err)
				}
				at++
			}
			if at != len(c.Inputs) {
				t.Errorf("%d has %d inputs of the shard of %d, want %d", i, len(c.Inputs), owner, at)
			}
		}
	}
	if len(found) != len(mergers(a)[owner]) {
		t.Errorf("%d claim the shard of %d, which %v merge", len(found), owner, mergers(a)[owner])
	}
	return found
}

// agreed holds that all claims say what was sealed, and of what its contributors sent.
func (tr *training) agreed(a exchange.Attempt, out []outcome) {
	tr.t.Helper()
	for owner, p := range a.Participants {
		var first *exchange.Claim
		for i, c := range claimed(tr.t, a, out, owner) {
			if first == nil {
				first = &c
			}
			if d := cmp.Diff(*first, c); d != "" {
				tr.t.Errorf("%s, k=%d: %d claims another thing of the shard of %d: %s", tr.method, a.Witnesses, i, owner, d)
			}
			if c.Shard() != out[i].res.ShardDigests[owner] || c.Sums.IsZero() == tr.method.Distances() {
				tr.t.Errorf("%s, k=%d: what %d claims of the shard of %d is not what was sealed", tr.method, a.Witnesses, i, owner)
			}
		}
		if first == nil {
			continue
		}
		at := 0
		for j, from := range a.Participants {
			if from.Weight > 0 {
				if want := tr.sent(j, shard(p)); first.Inputs[at].Digest != want {
					tr.t.Errorf("%s, k=%d: the input of %d to the shard of %d is not what it sent", tr.method, a.Witnesses, j, owner)
				}
				at++
			}
		}
	}
}

// sent is the digest of a node's leaves as they travel.
func (tr *training) sent(i int, leaves []int) merge.Digest {
	var digests []merge.Digest
	for _, leaf := range leaves {
		b := tr.leaf(tr.local[i], leaf)
		if c := tr.codec(); c != nil {
			code := make([]byte, c.Len(leaf))
			if err := c.Encode(leaf, code, b, tr.leaf(tr.base[0], leaf)); err != nil {
				tr.t.Fatal(err)
			}
			b = code
		}
		digests = append(digests, merge.Sum(b))
	}
	return merge.Combine(digests)
}

// TestWitnessesAgree holds for every method that the model is the one that a direct merge gives, and that whoever merges a shard
// claims the same of it: with several runs for each owner, some that own nothing, in a first round and in a later one.
func TestWitnessesAgree(t *testing.T) {
	for k, text := range append(slices.Clone(allMethods), "mean(wire=float16)", "geomedian(wire=bfloat16)", "fedadam(wire=bfloat16)") {
		m := canonical(t, text)
		for _, mergers := range []int{2, 3} {
			t.Run(fmt.Sprintf("%s/%d", m, mergers), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(uint64(k), uint64(mergers)))
				n := max(5, m.LeastContributors())
				l, weights := mixedLayout(t, rng), make([]uint32, n)
				l = l.WithLeafSize(merge.MaxLeafSize / 4)
				for i := range weights {
					weights[i] = uint32(1 + i)
				}
				a := attempt(t, l, 1, weights...)
				for scatter(a, rng); owners(a) < mergers; scatter(a, rng) {
				}
				tr := newTraining(t, m, l, n, mergers == 3, rng)
				a = witnessing(tr.plan(a), mergers)
				synctest.Test(t, func(t *testing.T) {
					out := tr.join(newSwarm(t, n, exchange.Config{})).runAll(t.Context(), a, tr.local, tr.merged)
					tr.verify(a, out)
					tr.agreed(a, out)
				})
			})
		}
	}
}

func owners(a exchange.Attempt) int {
	n := 0
	for _, p := range a.Participants {
		if p.Shard.Leaves > 0 {
			n++
		}
	}
	return n
}
