package session_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session"
)

func TestLostFinalModelEndsTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		e, id, _ := start(t, w)
		w.update(func(v *round.View) {
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
		w.update(func(v *round.View) { v.Sessions[1].Live = false })
		a := <-got
		var refusal *session.Error
		if !errors.As(a.err, &refusal) || refusal.Code != "MODEL_LOST" {
			t.Fatalf("got %v, want MODEL_LOST", a.err)
		}
	})
}

// Two that stood still until training was over, and the others had gone, must not wait for each other.
func TestFinalModelThatEveryLiveNodeMissesIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		w.refuses = true
		e, id, _ := start(t, w)
		w.update(func(v *round.View) {
			commit(v, 5, 0, digestOf([]byte("ABCDEFGH")))
			v.Over = true
		})
		a := <-syncCall(t, e, id, 1)
		var refusal *session.Error
		if !errors.As(a.err, &refusal) || refusal.Code != "MODEL_LOST" {
			t.Fatalf("got %+v, %v; want MODEL_LOST: the others wait for it too", a.r, a.err)
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
		w.update(func(v *round.View) { plan(v, 1, 1, 1) })
		synctest.Wait()
		digest = w.said().Done.ModelDigest
		w.update(func(v *round.View) { commit(v, 1, 1, digest) })
		<-got
		// It stops at once, long before models are copied in passing.
	})
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		w.modelDir = dir
		e, id, s := start(t, w)
		w.update(func(v *round.View) { commit(v, 1, 0, digest) })
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

// lose has the swarm go back to an older model, or to none.
func lose(v *round.View, lost, resumed uint64, digest string) {
	v.Lost = state.LostModel{Round: lost, Digest: v.Committed.Digest, ResumedRound: resumed}
	v.Committed = state.CommittedRound{Round: lost + 1, Digest: digest, NextInterval: 4}
	v.Plan = nil
}

// TestGoesBackWithTheSwarm holds what each node does when the swarm goes back from round 2 to the model of round 1, which
// then counts as round 3.
func TestGoesBackWithTheSwarm(t *testing.T) {
	first, second := []byte("round 01"), []byte("round 02")
	t.Run("a node that holds it goes on with what its program learned", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newSwarm()
			e, id, s := start(t, w)
			copy(s.local.b, first)
			onceMore(t, w, e, id, 1)
			copy(s.local.b, "trained!")
			w.update(func(v *round.View) { commit(v, 2, 0, digestOf(second)) }) // while it trained
			w.update(func(v *round.View) { lose(v, 2, 1, digestOf(first)) })
			got := syncCall(t, e, id, 2)
			if r := w.said().Ready; r.BaseRound != 3 || r.BaseDigest != digestOf(first) || r.Seq != 2 {
				t.Fatalf("report says %v, want ready from round 3", w.said())
			}
			w.update(func(v *round.View) { plan(v, 4, 1, 2) })
			synctest.Wait()
			if w.said().Done.ModelDigest != digestOf([]byte("trained!")) {
				t.Fatalf("report says %v, want what was trained", w.said())
			}
			w.update(func(v *round.View) { commit(v, 4, 2, digestOf([]byte("trained!"))) })
			if a := <-got; a.err != nil || a.r.Round != 4 || !a.r.Contributed {
				t.Fatalf("got %+v, %v", a.r, a.err)
			}
		})
	})
	t.Run("a node that comes back with what was lost loads the older one", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newSwarm()
			w.models[digestOf(first)] = first
			e, id, s := start(t, w)
			copy(s.local.b, first)
			onceMore(t, w, e, id, 1)
			copy(s.local.b, second)
			onceMore(t, w, e, id, 2)
			w.update(func(v *round.View) { lose(v, 2, 1, digestOf(first)) })
			if a := <-syncCall(t, e, id, 3); a.err != nil || a.r.Round != 3 || a.r.Digest != digestOf(first) || a.r.Contributed {
				t.Fatalf("got %+v, %v; want the model of round 1 as round 3", a.r, a.err)
			}
		})
	})
	t.Run("a new session loads this node's own copy", func(t *testing.T) {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			w := newSwarm()
			w.modelDir = dir
			e, id, s := start(t, w)
			copy(s.local.b, first)
			onceMore(t, w, e, id, 1)
		})
		synctest.Test(t, func(t *testing.T) {
			w := newSwarm()
			w.modelDir = dir
			w.update(func(v *round.View) { commit(v, 2, 0, digestOf(second)) })
			e, id, _ := start(t, w)
			time.Sleep(2 * time.Second)
			if h := w.said().Held; len(h) != 1 || h[0].Round != 1 || h[0].Digest != digestOf(first) {
				t.Fatalf("holds %v, want the copy of round 1", h)
			}
			got := syncCall(t, e, id, 1)
			w.update(func(v *round.View) { lose(v, 2, 1, digestOf(first)) })
			if a := <-got; a.err != nil || a.r.Round != 3 || a.r.Digest != digestOf(first) {
				t.Fatalf("got %+v, %v", a.r, a.err)
			}
		})
	})
	t.Run("nobody holds any: anew, as in a first round", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newSwarm()
			var base bool
			e, id, s := start(t, w)
			copy(s.local.b, first)
			onceMore(t, w, e, id, 1)
			w.mergeFn = func(_ context.Context, job session.Job) (*round.Done, *round.Failed) {
				base = job.Base != nil
				b := make([]byte, 8)
				_, _ = job.Source.ReadAt(b, 0)
				_, _ = job.Merging.WriteAt(b, 0)
				return &round.Done{Round: job.Plan.Round, Attempt: job.Plan.Attempt, ModelDigest: digestOf(b)}, nil
			}
			copy(s.local.b, "trained!")
			got := syncCall(t, e, id, 2)
			w.update(func(v *round.View) { lose(v, 1, 0, "") })
			synctest.Wait()
			if r := w.said(); r.Ready.BaseRound != 2 || r.Ready.BaseDigest != "" || len(r.Held) != 0 {
				t.Fatalf("report says %v, want ready from nothing", r)
			}
			w.update(func(v *round.View) { plan(v, 3, 1, 2) })
			synctest.Wait()
			w.update(func(v *round.View) { commit(v, 3, 2, digestOf([]byte("trained!"))) })
			if a := <-got; a.err != nil || a.r.Round != 3 || base {
				t.Fatalf("got %+v, %v, with a base: %t", a.r, a.err, base)
			}
		})
	})
}
