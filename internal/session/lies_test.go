package session_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/session"
)

// TestAnSNsLiesBeforeTheFirstModelAreNotForEver: which run and round the contract is in one SN may have made up, and have had this node
// begin attempts of them. The node takes part in the true ones when another SN shows them, and in no attempt twice.
func TestAnSNsLiesBeforeTheFirstModelAreNotForEver(t *testing.T) {
	for _, tt := range []struct {
		name string
		run  uint64
		lie  func(v *swarmv1.ContractView, id string)
	}{
		{"of the run", 7, nil},
		{"of the run, with a plan", 7, func(v *swarmv1.ContractView, _ string) {
			plan(v, 1, 1, 1)
			v.Plan.Run = 7
		}},
		{"of the round, with a plan", 1, func(v *swarmv1.ContractView, _ string) {
			v.Committed = &swarmv1.CommittedRound{Round: 1 << 60}
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
				w.mergeFn = func(_ context.Context, job session.Job) (*swarmv1.Done, *swarmv1.Failed) {
					return nil, &swarmv1.Failed{Round: job.Plan.Round, Attempt: job.Plan.Attempt, Reason: "the others know another plan"}
				}
				w.mu.Unlock()
				if tt.lie != nil {
					w.update(func(v *swarmv1.ContractView) { tt.lie(v, id) })
					time.Sleep(time.Second)
					if w.said().GetFailed() == nil {
						t.Fatalf("it was not begun: %v", w.said())
					}
				}
				w.mu.Lock()
				w.mergeFn = nil
				w.mu.Unlock()
				w.update(func(v *swarmv1.ContractView) { v.Run, v.Committed, v.Plan = 1, nil, nil })
				time.Sleep(10 * time.Second)
				w.update(func(v *swarmv1.ContractView) { plan(v, 1, 1, 1) })
				time.Sleep(time.Second)
				if w.said().GetDone() == nil {
					t.Fatalf("it takes no part in the true round: %v", w.said())
				}
				w.update(func(v *swarmv1.ContractView) { commit(v, 1, 1, w.report.Done.ModelDigest) })
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
