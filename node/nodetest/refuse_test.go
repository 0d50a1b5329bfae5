package nodetest_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/pattern"
	"github.com/swarmd/swarmd/node/nodetest"
)

func allow(t *testing.T, texts ...string) pattern.List {
	t.Helper()
	l, err := pattern.ParseList(texts)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestAllowPeer: who is not named gets nothing, no attempt is lost on it, and people are told.
func TestAllowPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		two := allow(t, "spiffe://swarm.test/swarm/sl/sl-0", "spiffe://swarm.test/swarm/sl/sl-1")
		s := nodetest.New(t, nodetest.Config{SLs: 3, MinPeers: 2, AllowPeers: map[string]pattern.List{"sl-0": two, "sl-1": two}, Steps: 3})
		s.Until("a round", func() bool { return s.Round() >= 2 })
		c := s.View(nodetest.Contract)
		if got := c.Committed.Participants; !slices.Equal(got, []string{"sl-0", "sl-1"}) || c.Committed.Attempt != 1 {
			t.Errorf("round %d was merged by %v in attempt %d", c.Committed.Round, got, c.Committed.Attempt)
		}
		st, err := s.Operator().GetContractStatus(t.Context(), nodetest.Contract)
		if err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(st.Explanation, "\n"); !strings.Contains(text, "sl-0 refuses sl-2, sl-1 refuses sl-2") {
			t.Errorf("nobody says why sl-2 takes no part:\n%s", text)
		}
		for round := range s.Round() {
			carried, _ := s.Traffic.Carried(round + 1)
			for leaf := range carried {
				if leaf.To == "sl-2" || leaf.From == "sl-2" {
					t.Errorf("in round %d a leaf went from %s to %s", round+1, leaf.From, leaf.To)
				}
			}
		}
	})
}

// TestTooFewAccept: the round waits, and says whom for.
func TestTooFewAccept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := nodetest.New(t, nodetest.Config{SLs: 2, AllowPeers: map[string]pattern.List{"sl-0": allow(t, "spiffe://other.test/swarm/sl/**")}})
		s.Until("the refusal to be told", func() bool { return strings.Contains(s.Waiting(), "sl-0 refuses sl-1") })
		time.Sleep(time.Minute)
		// At most one attempt is planned before the leader has heard of it, and no leaf is sent in that.
		c := s.View(nodetest.Contract)
		if carried, _ := s.Traffic.Carried(1); c.Attempt > 1 || c.Round() > 0 || len(carried) > 0 {
			t.Errorf("attempt %d of round %d, leaves %v", c.Attempt, c.Round()+1, carried)
		}
	})
}

// TestProofsAreRenewed: a node signs anew for its registration when its SVID is renewed, in one command, and the ledger, which
// knows it already, says no more.
func TestProofsAreRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := nodetest.New(t, nodetest.Config{SLs: 2, Steps: 40})
		s.Until("a round", func() bool { return s.Round() >= 1 })
		proof := func() *state.Proof { return s.SNs.Node("sl-0").Proof }
		first := proof()
		s.Rotate("sl-0")
		s.Until("another proof", func() bool { return proof().Digest != first.Digest })
		second, round := proof(), s.Round()
		s.Until("more rounds", func() bool { return s.Round() >= round+3 })
		if proof() != nil && proof().Digest != second.Digest {
			t.Error("the node registers again and again")
		}
	})
}

// TestOldStateGetsProofs: the swarm's state is of a version that kept no proofs. Nodes sign at once, and training goes on.
func TestOldStateGetsProofs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := nodetest.New(t, nodetest.Config{SLs: 2, Steps: 40})
		s.Until("a round", func() bool { return s.Round() >= 1 })
		s.SNs.DropProof("sl-0")
		if s.SNs.Node("sl-0").Proof != nil {
			t.Fatal("there is a proof")
		}
		s.Until("a proof", func() bool { return s.SNs.Node("sl-0").Proof != nil })
		round := s.Round()
		s.Until("more rounds", func() bool { return s.Round() >= round+2 })
	})
}
