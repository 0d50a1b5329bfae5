package nodetest_test

import (
	"slices"
	"testing"
	"time"

	"github.com/swarmd/swarmd/node/nodetest"
)

// TestSNsRestoredBehindTheNodes: all SNs are put back to what they had some rounds before. Training goes on from the newest model that the
// SLs have, no number names another model than before, and what programs trained from it counts.
func TestSNsRestoredBehindTheNodes(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg   nodetest.Config
		since func(s *nodetest.Swarm) // when it was made
		after func(s *nodetest.Swarm) // before it is restored
	}{
		"a few rounds":           {},
		"the mean with a memory": {cfg: nodetest.Config{Program: func(_ int, p *nodetest.Program) { p.Method = "fedadam" }}},
		"containers":             {cfg: nodetest.Config{Containers: true}},
		"one was started again since": {
			cfg:   nodetest.Config{Containers: true, MinPeers: 2},
			after: func(s *nodetest.Swarm) { s.Crash("sl-0"); s.Restart("sl-0") },
		},
		"one is away": {
			cfg: nodetest.Config{MinPeers: 2, QuorumWait: 5 * time.Second},
			after: func(s *nodetest.Swarm) {
				s.Network.Stop("sl-1")
				time.AfterFunc(9*time.Second, func() { s.Network.Continue("sl-1") })
			},
		},
		"one came since": {
			cfg:   nodetest.Config{MinPeers: 2, QuorumWait: 5 * time.Second, Late: []string{"sl-2"}},
			since: func(s *nodetest.Swarm) { s.Restart("sl-2") },
		},
		"one has closed since": {
			cfg: nodetest.Config{MinPeers: 2, Program: func(i int, p *nodetest.Program) {
				if i == 1 {
					p.Steps = 5
				}
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := tt.cfg
			cfg.SNs, cfg.SLs, cfg.Steps = 3, 3, 16
			history(t, cfg, func(t *testing.T, s *nodetest.Swarm) {
				s.Until("some rounds", func() bool { return s.Round() >= 2 })
				backup := s.SNs.Backup()
				if tt.since != nil {
					tt.since(s)
				}
				s.Until("more rounds", func() bool { return s.Round() >= 9 })
				if tt.after != nil {
					tt.after(s)
				}
				s.SNs.Restore(backup)
				newest := uint64(0)
				for _, r := range s.Log.Before() {
					newest = max(newest, r.Round)
				}
				began := time.Now()
				s.Until("the newest model to be taken", func() bool { c := s.View(nodetest.Contract); return c != nil && c.Adopted != nil })
				c := s.View(nodetest.Contract)
				if c.Adopted.Proven+1 < newest || c.Adopted.Round <= newest || c.Lost != nil {
					t.Errorf("after round %d: %+v, lost %+v", newest, c.Adopted, c.Lost)
				}
				t.Logf("round %d of %d taken as %d after %v, signed by %d", c.Adopted.Proven, newest, c.Adopted.Round, time.Since(began), c.Adopted.Signed)
				agree(t, s, "sl-0", "sl-1", "sl-2")
				if s.Round() < c.Adopted.Round+2 {
					t.Errorf("training did not go on: round %d", s.Round())
				}
				if rounds := s.Log.Settled(); slices.ContainsFunc(rounds, func(r nodetest.Round) bool { return r.Lost != nil }) {
					t.Error("a model was given up")
				}
			})
		})
	}
}

// TestSNsRestoredBehindAReset: the run that the SLs are in is to come for the SNs. It waits for an operator, who resets the contract again.
func TestSNsRestoredBehindAReset(t *testing.T) {
	all := []string{"sl-0", "sl-1", "sl-2"}
	history(t, nodetest.Config{SNs: 3, SLs: 3, Steps: 12}, func(t *testing.T, s *nodetest.Swarm) {
		reset := func() {
			t.Helper()
			if _, err := s.Operator().ResetContract(t.Context(), nodetest.Contract, true); err != nil {
				t.Fatal(err)
			}
		}
		s.Until("some rounds", func() bool { return s.Round() >= 2 })
		backup := s.SNs.Backup()
		reset()
		s.Wait(all...)
		for _, name := range all {
			s.Restart(name)
		}
		s.Until("rounds of the next run", func() bool { return s.View(nodetest.Contract).Run == 2 && s.Round() >= 5 })
		s.SNs.Restore(backup)
		time.Sleep(time.Minute)
		if c := s.View(nodetest.Contract); c.Run != 1 || c.Adopted != nil || c.Lost != nil && c.Round() > 20 {
			t.Fatalf("before the reset: run %d, round %d, adopted %+v, lost %+v", c.Run, c.Round(), c.Adopted, c.Lost)
		}
		reset()
		s.Until("the model of the run to be taken", func() bool { c := s.View(nodetest.Contract); return c.Run == 2 && c.Adopted != nil })
		agree(t, s, all...)
	})
}
