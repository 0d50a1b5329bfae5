package nodetest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/node/nodetest"
)

// tells waits until `swarmctl explain contract` has a line with this text.
func tells(t *testing.T, s *nodetest.Swarm, text string) {
	t.Helper()
	var said []string
	s.Until("an explanation with "+text, func() bool {
		st, err := s.Operator().GetContractStatus(t.Context(), nodetest.Contract)
		said = st.GetExplanation()
		return err == nil && slices.ContainsFunc(said, func(line string) bool { return strings.Contains(line, text) })
	})
	if !slices.ContainsFunc(said, func(line string) bool { return strings.Contains(line, "ban node NAME") }) {
		t.Errorf("no remedy in %q", said)
	}
}

// witnessed runs four SLs of which so many merge each part, until the first round is committed.
func witnessed(t *testing.T, witnesses uint32, fn func(t *testing.T, s *nodetest.Swarm)) {
	t.Helper()
	cfg := nodetest.Config{SNs: 1, SLs: 4, MinPeers: 3, Steps: 8, Think: think, Elements: 4000, Late: []string{"sl-0", "sl-1", "sl-2", "sl-3"}}
	history(t, cfg, func(t *testing.T, s *nodetest.Swarm) {
		if _, err := s.Operator().CreateContract(t.Context(), nodetest.Contract, &swarmv1.Rules{Witnesses: witnesses}); err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			s.Restart(fmt.Sprintf("sl-%d", i))
		}
		s.Until("the first round", func() bool { return s.Round() == 1 })
		fn(t, s)
	})
}

// committedWithout holds that a round was committed after the first one, and none with this SL while it lied.
func committedWithout(t *testing.T, s *nodetest.Swarm, liar string) {
	t.Helper()
	from := s.Round()
	s.Until("another round", func() bool { return s.Round() > from })
	for _, r := range s.Log.Rounds() {
		if r.Round <= from {
			continue
		}
		for _, p := range r.Participants {
			if p.Node == liar {
				t.Errorf("%s takes part in round %d", liar, r.Round)
			}
		}
	}
}

// TestAnOwnerThatMergesWronglyIsNamed: it sends everybody the same wrong bytes, seals them and says that it merged them so. With three that merge each
// part the two others convict it, the rest goes on, and every round holds what its participants handed in merges to.
func TestAnOwnerThatMergesWronglyIsNamed(t *testing.T) {
	witnessed(t, 3, func(t *testing.T, s *nodetest.Swarm) {
		s.Liars.MergeWrongly("sl-2")
		tells(t, s, "sl-2: it merged it otherwise than most who merged sl-2's part")
		committedWithout(t, s, "sl-2")
		s.Liars.Honest("sl-2")
		agree(t, s, "sl-0", "sl-1", "sl-2", "sl-3")
	})
}

// TestAWitnessThatLiesIsNamed, and not the owner whose part it lies about.
func TestAWitnessThatLiesIsNamed(t *testing.T) {
	witnessed(t, 3, func(t *testing.T, s *nodetest.Swarm) {
		s.Liars.LieAsWitness("sl-3", "sl-2")
		tells(t, s, "sl-3: it merged it otherwise than most who merged sl-2's part")
		committedWithout(t, s, "sl-3")
		s.Liars.Honest("sl-3")
		agree(t, s, "sl-0", "sl-1", "sl-2", "sl-3")
	})
}

// TestAContributorThatTellsTwoThingsIsNamed: it sends a witness other leaves than the owner, and signs for each what it got. Two that merge each part
// are enough to convict it.
func TestAContributorThatTellsTwoThingsIsNamed(t *testing.T) {
	witnessed(t, 2, func(t *testing.T, s *nodetest.Swarm) {
		s.Liars.TellTwoThings("sl-0", "sl-3") // which witnesses sl-2
		tells(t, s, "sl-0: it signed that it sent")
		committedWithout(t, s, "sl-0")
		s.Liars.Honest("sl-0")
		agree(t, s, "sl-0", "sl-1", "sl-2", "sl-3")
	})
}

// TestAWrongMergeIsNotCommitted: with two that merge each part nobody can tell which of them is wrong. Both are named, nothing is committed
// that they do not agree on, and once they do training goes on.
func TestAWrongMergeIsNotCommitted(t *testing.T) {
	witnessed(t, 2, func(t *testing.T, s *nodetest.Swarm) {
		s.Liars.MergeWrongly("sl-2")
		tells(t, s, "sl-2 and sl-3 do not agree on what sl-2's part merges to")
		signs := func(name string) bool { return len(s.SLs.Reported(name).GetDone().GetSignature()) > 0 }
		s.Until("reports of an attempt", func() bool {
			return s.SLs.Reported("sl-0").GetDone() != nil && s.SLs.Reported("sl-2").GetDone() != nil && s.SLs.Reported("sl-3").GetDone() != nil
		})
		if !signs("sl-0") || !signs("sl-2") || signs("sl-3") {
			t.Error("for the ledger only who has found what it was given signs, and who has not looked")
		}
		from := s.Round()
		time.Sleep(grace / 2) // of virtual time: none is left out before the grace is over
		if s.Round() != from {
			t.Errorf("round %d was committed", s.Round())
		}
		s.Liars.Honest("sl-2")
		agree(t, s, "sl-0", "sl-1", "sl-2", "sl-3")
	})
}

// TestAPairThatDoesNotAgreeIsParted: if it goes on lying it is left out after the grace, though its word stands against one other's
// each time.
func TestAPairThatDoesNotAgreeIsParted(t *testing.T) {
	witnessed(t, 2, func(t *testing.T, s *nodetest.Swarm) {
		s.Liars.MergeWrongly("sl-0")
		committedWithout(t, s, "sl-0")
		s.Liars.Honest("sl-0")
		s.Wait("sl-2", "sl-3")
	})
}
