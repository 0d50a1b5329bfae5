package session_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/internal/bridge/wire"
	"github.com/swarmd/swarmd/internal/round"
)

// TestFinalAnswerSaysWhoContributed: what a program left when it closed takes part under numbers that go on.
func TestFinalAnswerSaysWhoContributed(t *testing.T) {
	for _, part := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newSwarm()
			e, id, s := start(t, w)
			copy(s.local.b, "round 01")
			onceMore(t, w, e, id, 1)
			final := make(chan *wire.SyncResponse, 1)
			go func() {
				r, err := e.Close(t.Context(), id, "snapshot")
				if err != nil {
					t.Error(err)
				}
				final <- r
			}()
			synctest.Wait()
			for n := uint64(2); n <= 3; n++ {
				w.update(func(v *round.View) { plan(v, n, 1, n) })
				synctest.Wait()
				digest := w.said().Done.ModelDigest
				w.update(func(v *round.View) {
					commit(v, n, n, digest)
					if v.Over = n == 3; v.Over && !part {
						v.Sessions[0].LastRound = 2
					}
				})
				synctest.Wait()
			}
			if r := <-final; r == nil || r.Round != 3 || r.Contributed != part {
				t.Errorf("got %+v, want round 3, contributed: %v", r, part)
			}
		})
	}
}

// TestLingersForWhoWasStartedAgain: a node was killed while training ended. Its next run has ended its session, and its program
// is on its way to ask for the final model.
func TestLingersForWhoWasStartedAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		then    func(v *round.View)
		atLeast time.Duration
		atMost  time.Duration
	}{
		"it comes and has it": {func(v *round.View) {
			v.Sessions = append(v.Sessions, &round.Session{ID: "again", Node: "other", Live: true, State: "ended", EndReason: "finished"})
		}, 5 * time.Second, 5 * time.Second},
		"it dies":          {func(v *round.View) { v.Sessions[1].Live = false }, 5 * time.Second, 5 * time.Second},
		"it never comes":   {func(*round.View) {}, 30 * time.Second, 5 * time.Minute},
		"it fails instead": {func(v *round.View) { v.Sessions[1].EndReason = "failed: exit code 1" }, 5 * time.Second, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newSwarm()
				e, id, s := start(t, w)
				copy(s.local.b, "round 01")
				onceMore(t, w, e, id, 1)
				w.update(func(v *round.View) {
					v.Over, v.Sessions[1].State, v.Sessions[1].EndReason = true, "ended", "failed: the daemon was restarted"
				})
				if _, err := e.Close(t.Context(), id, "snapshot"); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				time.AfterFunc(5*time.Second, func() { w.update(tt.then) })
				if err := e.Linger(t.Context()); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took < tt.atLeast || took > tt.atMost {
					t.Errorf("left after %s, want %s to %s", took, tt.atLeast, tt.atMost)
				}
			})
		})
	}
}
