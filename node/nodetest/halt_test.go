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

// TestPause: an operator's pause holds with any leader, for as long as it lasts, and says so to programs; then all goes on to the very
// model that there would have been.
func TestPause(t *testing.T) {
	history(t, nodetest.Config{SNs: 3, SLs: 3, Late: three}, func(t *testing.T, s *nodetest.Swarm) {
		op := s.Operator()
		if _, err := op.CreateContract(t.Context(), nodetest.Contract, &swarmv1.Rules{MinPeersTimeoutMs: 60_000}); err != nil {
			t.Fatal(err)
		}
		for _, name := range three {
			s.Restart(name)
		}
		s.Until("two rounds", func() bool { return s.Round() == 2 })
		s.Network.Slow("sl-0", "sl-1", time.Second)
		s.Until("an attempt", func() bool { return s.Planned(3) })
		view, err := op.PauseContract(t.Context(), nodetest.Contract)
		if err != nil || view.GetPhase() != "paused" || view.GetPlan() == nil || view.GetHalt().GetBy() == "" {
			t.Fatalf("paused: %v, %v", view, err)
		}
		since := view.GetHalt().GetAtUnixMs()
		s.Until("the end of the attempt", func() bool { return s.View(nodetest.Contract).Plan == nil })
		if s.Round() != 3 {
			t.Errorf("round %d: what was merged is not committed", s.Round())
		}
		s.Network.Slow("sl-0", "sl-1", 0)
		led := s.Leader()
		s.Crash(led)
		time.Sleep(2 * time.Minute) // virtual
		s.Network.Isolate("sl-2")   // below minPeers, for longer than the rule lets
		time.Sleep(2 * time.Minute)
		s.Network.Join("sl-2")
		time.Sleep(time.Minute)
		if s.Round() != 3 || s.View(nodetest.Contract).Plan != nil || !strings.HasPrefix(s.Waiting(), "paused by spiffe://") {
			t.Errorf("round %d: %s", s.Round(), s.Waiting())
		}
		if view, err = op.PauseContract(t.Context(), nodetest.Contract); err != nil || view.GetHalt().GetAtUnixMs() != since {
			t.Errorf("once more: %v, %v", view, err)
		}
		for _, name := range three {
			if waits := s.Run(name).Waits(); !slices.ContainsFunc(waits, func(w string) bool { return strings.HasPrefix(w, "paused by "+view.GetHalt().GetBy()+" since ") }) {
				t.Errorf("%s was told %q", name, waits)
			}
		}
		s.Restart(led)
		if view, err = op.ResumeContract(t.Context(), nodetest.Contract); err != nil || view.GetHalt() != nil {
			t.Errorf("resumed: %v, %v", view, err)
		}
		plain(t, s)
	})
}

// TestEnd: programs in the middle of their training get a final model, with a leader that dies over it.
func TestEnd(t *testing.T) {
	for _, paused := range []bool{false, true} {
		name := map[bool]string{false: "training", true: "paused"}[paused]
		t.Run(name, func(t *testing.T) {
			history(t, longer(nodetest.Config{SNs: 3, SLs: 3}), func(t *testing.T, s *nodetest.Swarm) {
				op := s.Operator()
				s.Until("two rounds", func() bool { return s.Round() == 2 })
				if paused {
					if _, err := op.PauseContract(t.Context(), nodetest.Contract); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Minute) // virtual
				}
				view, err := op.EndContract(t.Context(), nodetest.Contract)
				if err != nil || view.GetPhase() != "finalising" {
					t.Fatalf("ended: %v, %v", view, err)
				}
				last := view.GetCommitted().GetRound() + 1
				if p := view.GetPlan(); p != nil && !p.GetFinal() { // it was planned before the end
					last++
				}
				led := s.Leader()
				s.Crash(led)
				agree(t, s, three...)
				c := s.View(nodetest.Contract)
				if !c.Over || c.Round() != last || !c.Committed.Final || len(c.Committed.Participants) != 3 {
					t.Errorf("over: %t, round %d of %d, %+v", c.Over, c.Round(), last, c.Committed)
				}
				s.Restart(led)
				if view, err := op.EndContract(t.Context(), nodetest.Contract); err != nil || !view.GetOver() {
					t.Errorf("once more: %v, %v", view, err)
				}
			})
		})
	}
}

// TestEndWithAProgramThatHangs, the only one whose weight is not 0, and a leader that dies over it: training is over after the stall grace
// with the last model; if there is none, all sessions fail and say why.
func TestEndWithAProgramThatHangs(t *testing.T) {
	for _, model := range []bool{true, false} {
		t.Run(fmt.Sprintf("model=%t", model), func(t *testing.T) {
			cfg := nodetest.Config{SNs: 3, SLs: 3, MinPeers: 2, Steps: 8, Think: think, Program: func(i int, p *nodetest.Program) {
				switch {
				case i < 2:
					p.Weight, p.Begin = 0, think // its session is there
				case model:
					p.Think = 24 * time.Hour
				default:
					p.Begin = 24 * time.Hour
				}
			}}
			history(t, cfg, func(t *testing.T, s *nodetest.Swarm) {
				s.Until("that only it is waited for", func() bool {
					return model == (s.Round() == 1) && strings.Contains(s.Waiting(), "have weight 0: sl-0, sl-1")
				})
				if _, err := s.Operator().EndContract(t.Context(), nodetest.Contract); err != nil {
					t.Fatal(err)
				}
				ended := time.Now()
				time.Sleep(20 * time.Second) // virtual
				if !strings.HasPrefix(s.Waiting(), "waiting for sl-2 (still training) since ") {
					t.Errorf("it waits: %s", s.Waiting())
				}
				led := s.Leader()
				s.Crash(led)
				s.Until("the end", func() bool { return s.View(nodetest.Contract).Over || len(s.View(nodetest.Contract).Active()) == 0 })
				c := s.View(nodetest.Contract)
				if took := time.Since(ended); took < time.Minute || took > 90*time.Second {
					t.Errorf("it took %s, want the stall grace, and no more than what the new leader gives", took)
				}
				if c.Over != model || !strings.Contains(c.PendingReason, "all peers that are ready have weight 0: sl-0, sl-1") {
					t.Errorf("over: %t, %q", c.Over, c.PendingReason)
				}
				s.Wait("sl-0", "sl-1")
				for _, name := range []string{"sl-0", "sl-1"} {
					if err := s.Run(name).Err(); (err == nil) != model || err != nil && !strings.Contains(err.Error(), "ended by an operator before there was a model") {
						t.Errorf("%s: %v", name, err)
					}
				}
				s.Crash("sl-2")
				s.Restart(led)
			})
		})
	}
}

// TestEndOfATrainingThatNobodyTrains: it is over with the last model.
func TestEndOfATrainingThatNobodyTrains(t *testing.T) {
	history(t, nodetest.Config{SNs: 3, SLs: 3}, func(t *testing.T, s *nodetest.Swarm) {
		s.Until("two rounds", func() bool { return s.Round() == 2 })
		s.Crash(three...)
		if _, err := s.Operator().EndContract(t.Context(), nodetest.Contract); err != nil {
			t.Fatal(err)
		}
		s.Until("the end", func() bool { return s.View(nodetest.Contract).Over })
		if c := s.View(nodetest.Contract); c.Round() < 2 || !strings.HasPrefix(c.PendingReason, "ended without a final round: ") {
			t.Errorf("round %d, %q", c.Round(), c.PendingReason)
		}
	})
}
