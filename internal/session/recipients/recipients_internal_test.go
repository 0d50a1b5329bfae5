package recipients

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
)

// TestSentIsWhatPlansSay compares with a list of owners for each leaf, over random plans that overlap and have gaps.
func TestSentIsWhatPlansSay(t *testing.T) {
	refused := 0
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 3))
		const leaves = 20
		var sent *Record
		want := make([][]string, leaves)
		for range 6 {
			p := &round.Plan{}
			for range 1 + rng.IntN(5) {
				part := &round.Participant{PeerID: fmt.Sprint(rng.IntN(4))}
				first := uint64(rng.IntN(leaves))
				part.Shards = []state.LeafRun{{First: first, Leaves: uint64(rng.IntN(leaves - int(first) + 1))}}
				if rng.IntN(3) == 0 {
					first := uint64(rng.IntN(leaves))
					part.Shards = append(part.Shards, state.LeafRun{First: first, Leaves: uint64(rng.IntN(leaves - int(first) + 1))})
				}
				p.Participants = append(p.Participants, part)
			}
			self := rng.IntN(len(p.Participants))
			next := slices.Clone(want)
			third := false
			for i, part := range p.Participants {
				for _, r := range part.Shards {
					for leaf := r.First; leaf < r.First+r.Leaves && i != self; leaf++ {
						if !slices.Contains(next[leaf], part.PeerID) {
							next[leaf] = append(slices.Clip(next[leaf]), part.PeerID)
						}
						third = third || len(next[leaf]) > maxOwners
					}
				}
			}
			after, err := sent.After(7, p, self)
			if errors.Is(err, ErrThirdOwner) != third {
				t.Fatalf("seed %d: %v, and a third is %v", seed, err, third)
			}
			if third {
				refused++
				continue
			}
			sent, want = after, next
			if err := sent.Check(); err != nil {
				t.Fatalf("seed %d: %v in %+v", seed, err, sent.Runs)
			}
			for leaf, owners := range want {
				var got []string
				for _, r := range sent.Runs {
					if r.First <= uint64(leaf) && uint64(leaf) < r.end() {
						got = append(got, r.To...)
					}
				}
				if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(owners))) {
					t.Fatalf("seed %d: leaf %d went to %v, want %v", seed, leaf, got, owners)
				}
			}
		}
	}
	if refused == 0 {
		t.Error("no plan had a third owner")
	}
}

// TestSentBoundsWhatItKeeps: plans of an SN that cut the model ever finer, or name no leaves of it, fill no memory.
func TestSentBoundsWhatItKeeps(t *testing.T) {
	p := &round.Plan{Participants: []*round.Participant{{PeerID: "a"}, {}}}
	for i := range uint64(maxRuns + 1) {
		p.Participants[0].Shards = append(p.Participants[0].Shards, state.LeafRun{First: 2 * i, Leaves: 1})
	}
	if _, err := (*Record)(nil).After(1, p, 1); err == nil {
		t.Error("it keeps as many runs as are planned")
	}
	p.Participants[0].Shards = []state.LeafRun{{First: 1, Leaves: 1<<64 - 1}}
	if _, err := (*Record)(nil).After(1, p, 1); err == nil {
		t.Error("a run that wraps around is taken")
	}
}

// TestWitnessesAreCountedApart: what goes to owners and to witnesses is counted apart, and of the latter there may be as many as in two attempts.
func TestWitnessesAreCountedApart(t *testing.T) {
	plan := func(owners ...string) *round.Plan {
		p := &round.Plan{Witnesses: 3}
		for i, o := range owners {
			p.Participants = append(p.Participants, &round.Participant{
				PeerID: "key " + o, SPIFFEID: "spiffe://td/swarm/sl/" + o, Shards: []state.LeafRun{{First: uint64(i), Leaves: 1}},
			})
		}
		return p
	}
	sent, err := (*Record)(nil).After(7, plan("a", "me", "b", "c"), 1)
	if err != nil {
		t.Fatal(err)
	}
	want := []Run{
		{0, 1, []string{"key b"}}, {1, 1, []string{"key b", "key c"}}, {2, 1, []string{"key c", "key a"}}, {3, 1, []string{"key a"}},
	}
	if fmt.Sprint(sent.Witnessed) != fmt.Sprint(want) {
		t.Errorf("witnesses have %v, want %v", sent.Witnessed, want)
	}
	if sent, err = sent.After(7, plan("b", "me", "d", "e"), 1); err != nil || len(sent.Witnessed[1].To) != 4 || len(sent.Runs[0].To) != 2 {
		t.Fatalf("%v: %+v", err, sent)
	}
	if err := sent.Check(); err != nil {
		t.Error(err)
	}
	fifth := plan("b", "me", "f")
	fifth.Participants[2].Shards[0].First = 9
	if _, err := sent.After(7, fifth, 1); !errors.Is(err, errWitnesses) {
		t.Errorf("a fifth witness of a leaf: %v", err)
	}
	if _, err := sent.After(8, plan("f", "me", "g", "h"), 1); err != nil {
		t.Errorf("another contribution: %v", err)
	}
	one := plan("a", "me", "b", "c")
	one.Witnesses = 0
	if sent, err := (*Record)(nil).After(7, one, 1); err != nil || sent.Witnessed != nil {
		t.Errorf("without witnesses: %v, %+v", err, sent)
	}
}

// TestPlansKeepToOneRuleOnWitnesses: an SN that says another one later is not followed, so that no more nodes get to see what is offered,
// also after a restart. One that lied first has what is offered spent, and nothing that is offered later.
func TestPlansKeepToOneRuleOnWitnesses(t *testing.T) {
	plan := func(witnesses uint32) *round.Plan {
		return &round.Plan{Witnesses: witnesses, Participants: []*round.Participant{
			{Node: "me", PeerID: "me", Shards: []state.LeafRun{{Leaves: 1}}}, {Node: "a", PeerID: "a", Shards: []state.LeafRun{{First: 1, Leaves: 1}}}, {Node: "b", PeerID: "b"},
		}}
	}
	var s *Record
	holds := func(when string, seq uint64, rules map[uint32]bool) {
		t.Helper()
		for n, good := range rules {
			if _, err := s.After(seq, plan(n), 0); (err == nil) != good || err != nil && !errors.Is(err, ErrRule) {
				t.Errorf("%s: %d: %v", when, n, err)
			}
		}
	}
	holds("nothing was sent", 7, map[uint32]bool{0: true, 3: true, 8: true})
	sent, err := s.After(7, plan(3), 0)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := json.Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(kept, &s); err != nil {
		t.Fatal(err)
	}
	holds("a plan of 3", 7, map[uint32]bool{0: false, 3: true, 8: false})
	holds("the next contribution", 8, map[uint32]bool{0: true, 3: true, 8: true})
}
