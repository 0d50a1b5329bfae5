package session_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/session"
)

func TestLostFinalModelEndsTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		e, id, _ := start(t, w)
		w.update(func(v *swarmv1.ContractView) {
			commit(v, 5, 0, digestOf([]byte("ABCDEFGH")))
			v.Over, v.Sessions[1].State = true, "ended"
		})
		got := syncCall(t, e, id, 1)
		select {
		case a := <-got:
			t.Fatalf("gave up while a live node may hold the model: %+v, %v", a.r, a.err)
		case <-time.After(10 * time.Minute):
		}
		if why := e.Waiting(t.Context()); !strings.Contains(why, "fetching the model of round 5") {
			t.Errorf("waiting: %q, want the fetch", why)
		}
		w.update(func(v *swarmv1.ContractView) { v.Sessions[1].Live = false })
		a := <-got
		var refusal *session.Error
		if !errors.As(a.err, &refusal) || refusal.Code != "MODEL_LOST" {
			t.Fatalf("got %v, want MODEL_LOST", a.err)
		}
	})
}
