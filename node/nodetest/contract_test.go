package nodetest_test

import (
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/node/nodetest"
)

func TestReset(t *testing.T) {
	history(t, nodetest.Config{SNs: 3, SLs: 3}, func(t *testing.T, s *nodetest.Swarm) {
		s.Until("two rounds", func() bool { return s.Round() == 2 })
		op := s.Operator()
		if _, err := op.ResetContract(t.Context(), nodetest.Contract, false); client.Reason(err) != "OPEN_SESSIONS" {
			t.Errorf("reset with open sessions: got %v, want OPEN_SESSIONS", err)
		}
		run, err := op.ResetContract(t.Context(), nodetest.Contract, true)
		if err != nil || run != 2 {
			t.Fatalf("forced reset: run %d, %v", run, err)
		}
		s.Wait()
		for _, name := range three {
			if err := s.Run(name).Err(); err == nil || !strings.Contains(err.Error(), "reset") {
				t.Errorf("%s: got %v, want reset", name, err)
			}
			s.Restart(name)
		}
		finals(t, s, threeFinal, three...)
		run, err = op.ResetContract(t.Context(), nodetest.Contract, false)
		if err != nil || run != 3 {
			t.Errorf("reset of a completed contract: run %d, %v", run, err)
		}
		for _, name := range three {
			s.Restart(name)
		}
		finals(t, s, threeFinal, three...)
	})
}

func TestCompletedContractRefusesSessions(t *testing.T) {
	history(t, nodetest.Config{SNs: 1, SLs: 2, Steps: 1}, func(t *testing.T, s *nodetest.Swarm) {
		agree(t, s, "sl-0", "sl-1")
		s.Restart("sl-1")
		s.Wait("sl-1")
		if err := s.Run("sl-1").Err(); err == nil || !strings.Contains(err.Error(), "completed") {
			t.Errorf("got %v, want a completed contract", err)
		}
	})
}

func TestOtherLayersAreRefused(t *testing.T) {
	cfg := nodetest.Config{SNs: 3, SLs: 3, MinPeers: 2, Late: []string{"sl-2"}, Program: func(i int, p *nodetest.Program) {
		if i == 2 {
			p.Elements++
		}
	}}
	history(t, cfg, func(t *testing.T, s *nodetest.Swarm) {
		s.Until("a round", func() bool { return s.Round() == 1 })
		s.Restart("sl-2")
		agree(t, s, "sl-0", "sl-1")
		s.Wait("sl-2")
		err := s.Run("sl-2").Err()
		for _, want := range []string{"this session has layout", "the contract has layout", "400", "401"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q in it", err, want)
			}
		}
	})
}
