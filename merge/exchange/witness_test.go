package exchange_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/swarmd/swarmd/internal/round"
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
func claimed(t testing.TB, a exchange.Attempt, out []outcome, owner int) map[int]round.Claim {
	t.Helper()
	found := map[int]round.Claim{}
	for i, o := range out {
		if !slices.IsSortedFunc(o.res.Claims, func(x, y round.Claim) int { return x.Owner - y.Owner }) {
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
		var first *round.Claim
		for i, c := range claimed(tr.t, a, out, owner) {
			if first == nil {
				first = &c
			}
			if d := cmp.Diff(*first, c); d != "" {
				tr.t.Errorf("%s, k=%d: %d claims another thing of the shard of %d: %s", tr.method, a.Witnesses, i, owner, d)
			}
			if c.Shard().String() != out[i].res.ShardDigests[owner] || c.Sums.IsZero() == tr.method.Distances() {
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
		if !row(k) {
			continue
		}
		m := canonical(t, text)
		for _, mergers := range []int{2, 3} {
			t.Run(fmt.Sprintf("%s/%d", m, mergers), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(uint64(k), uint64(mergers)))
				n := max(5, m.LeastContributors()+1)
				l, weights := mixedLayout(t, rng), make([]uint32, n)
				l = l.WithLeafSize(merge.MaxLeafSize / 4)
				for i := range weights {
					weights[i] = uint32(1 + i)
				}
				weights[rng.IntN(n)] = 0 // It may own all the same, and be a witness.
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

// TestWitnessesResume: nothing that has come is sent again, and what comes out is the same, as are the claims, whatever broke off.
func TestWitnessesResume(t *testing.T) {
	for k, p := range phases {
		if k%2 > 0 || !row(k/2) {
			continue
		}
		t.Run(p.method+"/"+p.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr, s, a, _, first := brokenOf(t, k, 2+k/2%2)
				if !slices.ContainsFunc(first, func(o outcome) bool { return o.err != nil }) {
					t.Fatal("the first attempt did not fail: the cut came too late")
				}
				a.Number = 2
				out := s.runAll(t.Context(), a, tr.local, tr.merged)
				tr.verify(a, out)
				tr.agreed(a, out)
				tr.once()
			})
		})
	}
}

// TestAWordOfWhatWasSentBefore: a node that was started again signs what mergers have of it still as it did before.
func TestAWordOfWhatWasSentBefore(t *testing.T) {
	const again = 1
	for _, phase := range []int{7, 2} {
		if phase == 2 && !thorough {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			tr, s, a, _, _ := brokenOf(t, phase, 2)
			s.hubs[again].Close()
			s.hubs[again] = newHub(again, exchange.Config{})
			slowly(s, again, 3*time.Second)
			a.Number = 2
			out := s.runAll(t.Context(), a, tr.local, tr.merged)
			tr.verify(a, out)
			tr.agreed(a, out)
		})
	}
}

// TestAProgramThatWritesMakesNoLiar: own weights that change while a round goes on end its attempt at their own node, which has
// not signed two things then.
func TestAProgramThatWritesMakesNoLiar(t *testing.T) {
	const writer = 1
	for _, text := range []string{"mean", "geomedian"} {
		synctest.Test(t, func(t *testing.T) {
			tr, s, a := witnesses(t, text, 2)
			s.extend = writes(s.extend, writer)
			out := s.runAll(t.Context(), a, tr.local, tr.merged)
			if err := out[writer].err; blamed(err) != writer || heardFrom(err) != -1 || !strings.Contains(err.Error(), "own weights have changed") {
				t.Errorf("%s: got %v, want that it blames itself", text, err)
			}
			for i, o := range out {
				if i != writer && o.err == nil && len(o.res.Claims) > 0 {
					t.Errorf("%s: participant %d has the word of one whose weights changed", text, i)
				}
			}
		})
	}
}

// writes has a node's program write to its weights each time that they were read.
func writes(give func(int, *exchange.Slots), hub int) func(int, *exchange.Slots) {
	return func(i int, slots *exchange.Slots) {
		if give(i, slots); i == hub {
			slots.Local = &scribbled{slot: slots.Local.(*slot)}
		}
	}
}

type scribbled struct {
	*slot
	reads atomic.Uint32
}

func (s *scribbled) ReadAt(b []byte, off int64) (int, error) {
	n, err := s.slot.ReadAt(b, off)
	b[1] = byte(s.reads.Add(1))
	return n, err
}

// TestTwoNodesOfAParty: neither is the other's witness.
func TestTwoNodesOfAParty(t *testing.T) {
	for _, text := range []string{"mean", "krum(f=1)", "fedadam"} {
		synctest.Test(t, func(t *testing.T) {
			tr, s, a := witnesses(t, text, 2)
			for i := range a.Participants {
				a.Participants[i].Unit = fmt.Sprint("party ", min(i/2, 1)) // two of one, three of the other
			}
			out := s.runAll(t.Context(), a, tr.local, tr.merged)
			tr.verify(a, out)
			tr.agreed(a, out)
			if n := len(out[0].res.Claims); n != 1+3 {
				t.Errorf("%s: %d claims of one that owns a shard and is the witness of three, want 4", text, n)
			}
		})
	}
}

// TestAStallBehindTheOwnLeavesIsSeen: a contributor has all of an owner's leaves, and still owes it those that it witnesses, when
// nothing goes on. There is nobody else from whom it could learn that the attempt has failed.
func TestAStallBehindTheOwnLeavesIsSeen(t *testing.T) {
	const from, to = 0, 1
	l, local, merged := floats(t, 20, 2)
	synctest.Test(t, func(t *testing.T) {
		s, a := newSwarm(t, 2, exchange.Config{}), witnessing(attempt(t, l, 1, 1, 1), 2)
		for i := range a.Participants { // The owner's leaves come first.
			a.Participants[i].Shard = merge.Shard{First: 10 * (1 - i), Leaves: 10}
		}
		s.through(newNetwork(func(i, j, moved int) verdict {
			if i == from && j == to && moved > 15*merge.MaxLeafSize {
				return stall
			}
			return pass
		}))
		start := time.Now()
		out := s.runAll(t.Context(), a, local, merged)
		if took := time.Since(start); took > 30*time.Second || blamed(out[to].err) != from || out[from].err == nil {
			t.Errorf("after %v: got %v and %v, want that %d blames %d, and that both know", took, out[from].err, out[to].err, to, from)
		}
	})
}
