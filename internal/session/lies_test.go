package session_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session"
)

// TestAnSNsLiesBeforeTheFirstModelAreNotForEver: which run and round the contract is in one SN may have made up, and have had this node
// begin attempts of them. The node takes part in the true ones when another SN shows them, and in no attempt twice.
func TestAnSNsLiesBeforeTheFirstModelAreNotForEver(t *testing.T) {
	for _, tt := range []struct {
		name string
		run  uint64
		lie  func(v *round.View, id string)
	}{
		{"of the run", 7, nil},
		{"of the run, with a plan", 7, func(v *round.View, _ string) {
			plan(v, 1, 1, 1)
			v.Plan.Run = 7
		}},
		{"of the round, with a plan", 1, func(v *round.View, _ string) {
			v.Committed = state.CommittedRound{Round: 1 << 60}
			plan(v, 1<<60+1, 1, 1)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newSwarm()
				w.view.Run = tt.run
				e, id, _ := start(t, w)
				got := syncCall(t, e, id, 1)
				w.mu.Lock()
				w.mergeFn = func(_ context.Context, job session.Job) (*round.Done, *round.Failed) {
					return nil, &round.Failed{Round: job.Plan.Round, Attempt: job.Plan.Attempt, Reason: "the others know another plan"}
				}
				w.mu.Unlock()
				if tt.lie != nil {
					w.update(func(v *round.View) { tt.lie(v, id) })
					time.Sleep(time.Second)
					if w.said().Failed == nil {
						t.Fatalf("it was not begun: %v", w.said())
					}
				}
				w.mu.Lock()
				w.mergeFn = nil
				w.mu.Unlock()
				w.update(func(v *round.View) { v.Run, v.Committed, v.Plan = 1, state.CommittedRound{}, nil })
				time.Sleep(10 * time.Second)
				w.update(func(v *round.View) { plan(v, 1, 1, 1) })
				time.Sleep(time.Second)
				if w.said().Done == nil {
					t.Fatalf("it takes no part in the true round: %v", w.said())
				}
				w.update(func(v *round.View) { commit(v, 1, 1, w.report.Done.ModelDigest) })
				time.Sleep(time.Second)
				if len(got) == 0 {
					t.Fatalf("no answer; reports %v", w.said())
				}
				if a := <-got; a.err != nil || a.r.Round != 1 {
					t.Errorf("got %+v, %v", a.r, a.err)
				}
			})
		})
	}
}

// TestALieAboutWitnessesCostsOneContribution: the plans that follow the first one are held to what that said, and if an SN had made it up,
// the leader hears that what was offered is spent. What is offered next goes by the true rule.
func TestALieAboutWitnessesCostsOneContribution(t *testing.T) {
	for _, closed := range []bool{false, true} {
		t.Run(fmt.Sprintf("closed=%t", closed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newSwarm()
				w.mergeFn = func(_ context.Context, job session.Job) (*round.Done, *round.Failed) {
					return nil, &round.Failed{Round: job.Plan.Round, Attempt: job.Plan.Attempt, Reason: "the others know another plan"}
				}
				e, id, _ := start(t, w)
				got := syncCall(t, e, id, 1)
				attempt := func(number, seq uint64, witnesses, weight uint32) *round.Report {
					w.update(func(v *round.View) {
						plan(v, 1, number, seq)
						v.Plan.Witnesses, v.Plan.Participants[0].Weight = witnesses, weight
						if closed {
							v.Sessions[0].State = "closed"
						}
					})
					time.Sleep(time.Second)
					return w.said()
				}
				if said := attempt(1, 1, 3, 1); said.Failed.Reason != "the others know another plan" {
					t.Fatalf("not begun: %v", said)
				}
				w.mu.Lock()
				w.mergeFn = nil
				w.mu.Unlock()
				if said := attempt(2, 1, 0, 1); said.Failed.Attempt != 2 || said.Failed.Code != state.ReasonThirdOwner {
					t.Errorf("the leader does not hear that what is offered is spent: %v", said)
				}
				if closed { // and counts 0
					if said := attempt(3, 1, 0, 0); said.Done == nil {
						t.Errorf("weights that count 0 are not merged: %v", said)
					}
					return
				}
				w.update(func(v *round.View) { v.Plan, v.Sessions[0].SkippedSeq = nil, 1 })
				if a := <-got; a.err != nil || !a.r.Skipped {
					t.Fatalf("got %+v, %v", a.r, a.err)
				}
				syncCall(t, e, id, 2)
				if said := attempt(3, 2, 0, 1); said.Done == nil {
					t.Errorf("takes no part with what it offers next: %v", said)
				}
			})
		})
	}
}

// TestPlansOfARogueSNUseNoAttemptsUp: the attempts of plans that an SN makes up are others than those of the leader's plan under the same
// numbers, and the node takes part in these. In none it takes part twice.
func TestPlansOfARogueSNUseNoAttemptsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		begun := map[uint64]int{}
		w.mergeFn = func(_ context.Context, job session.Job) (*round.Done, *round.Failed) {
			if len(job.Plan.Participants) == 1 {
				begun[job.Plan.Attempt]++
			}
			return nil, &round.Failed{Round: job.Plan.Round, Attempt: job.Plan.Attempt, Reason: "it did not work"}
		}
		e, id, _ := start(t, w)
		syncCall(t, e, id, 1)
		show := func(attempt uint64, with ...string) *round.Failed {
			t.Helper()
			w.update(func(v *round.View) {
				plan(v, 1, attempt, 1)
				for _, name := range with {
					v.Plan.Participants = append(v.Plan.Participants, &round.Participant{Session: "s " + name, Node: name, PeerID: name})
				}
			})
			time.Sleep(time.Second)
			return w.said().Failed
		}
		show(1)
		for n := uint64(2); n < 9; n++ {
			if f := show(n, "b"); f.Reason != "it did not work" {
				t.Fatalf("made-up attempt %d was not begun: %v", n, f)
			}
		}
		show(8) // of the same number, the very next
		for n := uint64(1); n < 8; n++ {
			show(n)
		}
		for n := uint64(1); n < 9; n++ {
			if show(n); begun[n] != 1 {
				t.Errorf("attempt %d of the leader's plan was begun %d times, want once", n, begun[n])
			}
		}
	})
}
