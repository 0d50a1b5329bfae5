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

// A node that was stopped, the last one to hold the swarm's model, starts from it again.
func TestNextSessionStartsFromThisNodesOwnCopy(t *testing.T) {
	dir := t.TempDir()
	var digest string
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		w.modelDir = dir
		e, id, s := start(t, w)
		copy(s.local.b, "round 01")
		got := syncCall(t, e, id, 1)
		w.update(func(v *swarmv1.ContractView) { plan(v, 1, 1, 1) })
		synctest.Wait()
		digest = w.said().Done.ModelDigest
		w.update(func(v *swarmv1.ContractView) { commit(v, 1, 1, digest) })
		<-got
		// It stops at once, long before models are copied in passing.
	})
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		w.modelDir = dir
		e, id, s := start(t, w)
		w.update(func(v *swarmv1.ContractView) { commit(v, 1, 0, digest) })
		a := <-syncCall(t, e, id, 1)
		if a.err != nil || a.r.Round != 1 || a.r.Digest != digest {
			t.Fatalf("got %+v, %v; want the model of round 1", a.r, a.err)
		}
		b := make([]byte, 8)
		if _, err := s.Committed().ReadAt(b, 0); err != nil || string(b) != "round 01" {
			t.Errorf("the program is given %q, %v", b, err)
		}
	})
}
