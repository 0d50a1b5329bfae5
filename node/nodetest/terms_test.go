package nodetest_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/node/nodetest"
)

// TestRulesHoldARealSwarm: nothing is merged without the required node, the explanation says what is missing, and with it
// capped weights are merged as they were planned.
func TestRulesHoldARealSwarm(t *testing.T) {
	cfg := nodetest.Config{SNs: 3, SLs: 3, MinPeers: 2, Late: three, Program: func(i int, p *nodetest.Program) {
		p.Weight = []int{80, 10, 10}[i]
	}}
	history(t, cfg, func(t *testing.T, s *nodetest.Swarm) {
		op := s.Operator()
		rules := &swarmv1.Rules{Required: []string{"sl-2"}, WeightCap: 0.5}
		if _, err := op.CreateContract(t.Context(), nodetest.Contract, rules); err != nil {
			t.Fatal(err)
		}
		s.Restart("sl-0")
		s.Restart("sl-1")
		s.Until("both are there", func() bool { return len(s.View(nodetest.Contract).Active()) == 2 })
		time.Sleep(2 * time.Minute) // virtual: the longest wait is over
		if s.Round() != 0 {
			t.Fatalf("round %d without the required node", s.Round())
		}
		st, err := op.GetContractStatus(t.Context(), nodetest.Contract)
		if err != nil || !slices.ContainsFunc(st.GetExplanation(), func(line string) bool {
			return strings.Contains(line, "required for every round and not ready: sl-2")
		}) {
			t.Errorf("explanation %q, %v", st.GetExplanation(), err)
		}
		s.Restart("sl-2")
		agree(t, s, three...)
		if c := s.View(nodetest.Contract); !c.Over || c.Rules == nil {
			t.Errorf("over %t, rules %+v", c.Over, c.Rules)
		}
	})
}

// TestContractFailsBelowMinPeers: by rule, all sessions end with the reason.
func TestContractFailsBelowMinPeers(t *testing.T) {
	history(t, nodetest.Config{SNs: 1, SLs: 2, Late: []string{"sl-0", "sl-1"}}, func(t *testing.T, s *nodetest.Swarm) {
		if _, err := s.Operator().CreateContract(t.Context(), nodetest.Contract, &swarmv1.Rules{MinPeersTimeoutMs: 60_000}); err != nil {
			t.Fatal(err)
		}
		s.Restart("sl-0")
		s.Restart("sl-1")
		s.Until("a round", func() bool { return s.Round() >= 1 })
		s.Crash("sl-1")
		s.Wait("sl-0")
		if err := s.Run("sl-0").Err(); err == nil || !strings.Contains(err.Error(), "fewer than minPeers for 1m0s") {
			t.Errorf("got %v", err)
		}
		for _, x := range s.View(nodetest.Contract).Sessions {
			if x.State != state.SessionEnded {
				t.Errorf("session of %s is %s", x.Node, x.State)
			}
		}
	})
}

// TestBoundedUpdates: norms are declared, bounded and held to what the owners see, through all rounds and the final one.
func TestBoundedUpdates(t *testing.T) {
	cfg := nodetest.Config{SNs: 1, SLs: 3, Steps: 3, Program: func(_ int, p *nodetest.Program) { p.Method = "NormClip(factor=1)" }}
	history(t, cfg, func(t *testing.T, s *nodetest.Swarm) {
		agree(t, s, three...)
		if c := s.View(nodetest.Contract); !c.Over || c.Terms.Method != "normclip(factor=1,cap=0)" || c.Committed.Attempt != 1 {
			t.Errorf("over %t, %s, attempt %d", c.Over, c.Terms, c.Committed.Attempt)
		}
	})
}
