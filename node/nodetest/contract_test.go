package nodetest_test

import (
	"strings"
	"testing"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
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

// TestDelete: programs of a contract that is deleted are told so; what trains under its name afterwards begins behind its runs, with
// the same SLs, which were in attempts of the one before.
func TestDelete(t *testing.T) {
	history(t, nodetest.Config{SNs: 3, SLs: 3}, func(t *testing.T, s *nodetest.Swarm) {
		op := s.Operator()
		s.Until("two rounds", func() bool { return s.Round() == 2 })
		_, err := op.DeleteContract(t.Context(), nodetest.Contract, false)
		if client.Reason(err) != "OPEN_SESSIONS" || !strings.Contains(err.Error(), "3 open sessions, of sl-0, sl-1, sl-2") {
			t.Errorf("with open sessions: got %v, want OPEN_SESSIONS", err)
		}
		s.Network.Slow("sl-0", "sl-1", time.Second)
		s.Until("an attempt", func() bool { return s.Planned(s.Round() + 1) })
		if run, err := op.DeleteContract(t.Context(), nodetest.Contract, true); err != nil || run != 1 {
			t.Fatalf("forced: run %d, %v", run, err)
		}
		if _, err := op.GetContractStatus(t.Context(), nodetest.Contract); client.Reason(err) != "CONTRACT_UNKNOWN" {
			t.Errorf("status: %v", err)
		}
		if _, err := op.DeleteContract(t.Context(), nodetest.Contract, true); client.Reason(err) != "CONTRACT_UNKNOWN" {
			t.Errorf("a second time: %v", err)
		}
		s.Wait()
		for _, name := range three {
			if err := s.Run(name).Err(); err == nil || !strings.Contains(err.Error(), "was deleted") {
				t.Errorf("%s: got %v, want that it was deleted", name, err)
			}
			s.Restart(name)
		}
		finals(t, s, threeFinal, three...)
		if c := s.View(nodetest.Contract); c.Run != 2 || !c.Over {
			t.Errorf("trained anew in run %d, over: %t", c.Run, c.Over)
		}
		if run, err := op.DeleteContract(t.Context(), nodetest.Contract, false); err != nil || run != 2 {
			t.Fatalf("of a completed contract: run %d, %v", run, err)
		}
		view, err := op.CreateContract(t.Context(), nodetest.Contract, &swarmv1.Rules{MinPeers: 3})
		if err != nil || view.GetRun() != 3 {
			t.Fatalf("made by hand: %v, %v", view, err)
		}
		for _, name := range three {
			s.Restart(name)
		}
		finals(t, s, threeFinal, three...)
	})
}

// TestDeleteWhileDaemonsAreAway: programs that outlive their daemons learn from these that their contract is gone, or that another has
// its name; none goes on with what it had.
func TestDeleteWhileDaemonsAreAway(t *testing.T) {
	for name, again := range map[string]bool{"gone": false, "made again": true} {
		t.Run(name, func(t *testing.T) {
			history(t, nodetest.Config{SNs: 3, SLs: 3, Containers: true}, func(t *testing.T, s *nodetest.Swarm) {
				op := s.Operator()
				s.Until("two rounds", func() bool { return s.Round() == 2 })
				s.Crash(three...)
				if _, err := op.DeleteContract(t.Context(), nodetest.Contract, true); err != nil {
					t.Fatal(err)
				}
				want := "was deleted"
				if again {
					want = "was reset"
					if _, err := op.CreateContract(t.Context(), nodetest.Contract, &swarmv1.Rules{MinPeers: 3}); err != nil {
						t.Fatal(err)
					}
				}
				for _, name := range three {
					s.Restart(name)
				}
				s.Wait()
				for _, name := range three {
					if err := s.Run(name).Err(); err == nil || !strings.Contains(err.Error(), want) || len(s.SLs.Runs(name)) != 1 {
						t.Errorf("%s: got %v of %d programs, want that it %s", name, err, len(s.SLs.Runs(name)), want)
					}
				}
				for _, name := range three {
					s.Restart(name)
				}
				finals(t, s, threeFinal, three...)
				if run := s.View(nodetest.Contract).Run; run != 2 {
					t.Errorf("trained anew in run %d", run)
				}
			})
		})
	}
}

// TestCompletedContractRefusesSessions: of those who were no part of it. Who was gets its final model, if anybody holds it.
func TestCompletedContractRefusesSessions(t *testing.T) {
	history(t, nodetest.Config{SNs: 1, SLs: 3, MinPeers: 2, Steps: 1, Late: []string{"sl-2"}}, func(t *testing.T, s *nodetest.Swarm) {
		agree(t, s, "sl-0", "sl-1")
		s.Restart("sl-1")
		s.Restart("sl-2")
		s.Wait("sl-1", "sl-2")
		for name, want := range map[string]string{"sl-1": "is held by no node that is alive", "sl-2": "completed"} {
			if err := s.Run(name).Err(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want that it %s", name, err, want)
			}
		}
	})
}

// TestKilledAtTheVeryEnd: a node dies between the commit of the last round and its program's end, and is started again by its
// supervisor. The others have waited for it, and its program gets the final model at its first merge.
func TestKilledAtTheVeryEnd(t *testing.T) {
	history(t, nodetest.Config{SNs: 1, SLs: 3, Steps: 1}, func(t *testing.T, s *nodetest.Swarm) {
		s.Until("a round", func() bool { return s.Round() >= 1 })
		s.Network.Slow("sn-0", "sl-1", 500*time.Millisecond) // It hears late that training is over.
		s.Until("training to be over", func() bool { return s.View(nodetest.Contract).Over })
		s.Crash("sl-1")
		s.Network.Slow("sn-0", "sl-1", 0)
		s.Restart("sl-1")
		agree(t, s, "sl-0", "sl-1", "sl-2")
		if runs := s.SLs.Runs("sl-1"); len(runs) != 2 || runs[0].Err() == nil {
			t.Errorf("sl-1 had %d programs, want one that was killed and another one", len(runs))
		}
		if handed := s.Run("sl-1").Handed(); len(handed) != 2 || !handed[0].Over || handed[0].Round != s.Round() {
			t.Errorf("sl-1 was handed %+v, want the final model twice", handed)
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
