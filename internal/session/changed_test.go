package session_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session"
	"github.com/swarmd/swarmd/merge"
)

// TestAChangedModelIsFetchedAgain: a program changes the model that it was given. The node must not merge for others with that,
// says so at once, and goes on when it has the model from another node.
func TestAChangedModelIsFetchedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		e, id, s := start(t, w)
		copy(s.local.b, "round 01")
		first := syncCall(t, e, id, 1)
		w.round(1)
		if a := <-first; a.err != nil {
			t.Fatal(a.err)
		}
		digest := w.now().Committed.Digest
		w.mu.Lock()
		w.models[digest] = []byte("round 01")
		w.mergeFn = func(_ context.Context, job session.Job) (*round.Done, *round.Failed) {
			b := make([]byte, job.Layout.Bytes())
			if _, err := job.Base.ReadAt(b, 0); err != nil {
				return nil, &round.Failed{Round: job.Plan.Round, Attempt: job.Plan.Attempt, Blamed: "me", Reason: err.Error()}
			}
			_, _ = job.Merging.WriteAt([]byte("round 02"), 0)
			return &round.Done{
				Round: job.Plan.Round, Attempt: job.Plan.Attempt, ModelDigest: digestOf([]byte("round 02")),
				Leaves: []merge.Digest{merge.Sum([]byte("round 02"))},
			}, nil
		}
		w.mu.Unlock()

		copy(s.Committed().(*memory).b, "GARBLED!")
		second := syncCall(t, e, id, 2)
		w.update(func(v *round.View) { plan(v, 2, 1, 2) })
		synctest.Wait()
		if f := w.said().Failed; f == nil || f.Blamed != "me" || f.Reason != "the committed model in its weight file was changed" {
			t.Fatalf("the attempt with a changed model: %v, want one that this node failed", f)
		}
		if got := string(s.Committed().(*memory).b); got != "round 01" {
			t.Errorf("the model after that is %q", got)
		}
		w.update(func(v *round.View) { plan(v, 2, 2, 2) })
		synctest.Wait()
		w.update(func(v *round.View) {
			commit(v, 2, 2, digestOf([]byte("round 02")))
			v.Committed.Attempt = 2
		})
		if a := <-second; a.err != nil || !a.r.Contributed {
			t.Errorf("the round after that: %+v, %v", a.r, a.err)
		}
	})
}
