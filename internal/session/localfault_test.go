package session_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"testing"
	"testing/synctest"

	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session"
)

// blaming fails every attempt and says that this node is the cause.
func blaming(_ context.Context, job session.Job) (*round.Done, *round.Failed) {
	return nil, &round.Failed{Round: job.Plan.Round, Attempt: job.Plan.Attempt, Blamed: "me", Reason: "says a peer"}
}

func TestOwnBadWeightsEndTheSession(t *testing.T) {
	for name, test := range map[string]struct {
		value float32
		ended string
	}{
		"infinite": {float32(math.Inf(1)), `failed: not finite: tensor "w" element 1 is +Inf, so the model is not merged`},
		// Blame alone is no proof: the attempt failed, the session goes on.
		"sound": {1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newSwarm()
				w.mergeFn = blaming
				e, id, s := start(t, w)
				binary.LittleEndian.PutUint32(s.local.b[4:], math.Float32bits(test.value))
				got := syncCall(t, e, id, 1)
				w.update(func(v *round.View) { plan(v, 1, 1, 1) })
				synctest.Wait()
				if w.told() != test.ended {
					t.Fatalf("contract was told %q, want %q", w.told(), test.ended)
				}
				if test.ended == "" {
					if f := w.said().Failed; f == nil || f.Blamed != "me" {
						t.Fatalf("report says %v, want the failure", w.said())
					}
					w.update(func(v *round.View) { v.Run = 2 }) // lets the program go
					<-got
					return
				}
				var why *session.Error
				if a := <-got; !errors.As(a.err, &why) || why.Code != "NOT_FINITE" || why.Help == "" {
					t.Fatalf("program got %v", a.err)
				}
				if o, _ := e.Outcome(); o != session.Failed {
					t.Fatalf("outcome %v, want failed", o)
				}
			})
		})
	}
}
