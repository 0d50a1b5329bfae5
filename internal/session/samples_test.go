package session_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
)

// TestAClosedSessionKeepsItsSamples: where weights are numbers of samples a session contributes after its end with the newest that its program
// told, else with the weight that it was opened with.
func TestAClosedSessionKeepsItsSamples(t *testing.T) {
	for _, tt := range []struct {
		name    string
		weights string
		atClose []uint32
		told    *uint32 // with the close
		weighs  uint32
	}{
		{"samples of the last Sync", state.WeightsSamples, nil, new(uint32(30)), 30},
		{"samples of the close", state.WeightsSamples, []uint32{300}, new(uint32(300)), 300},
		{"no samples after all", state.WeightsSamples, []uint32{0}, new(uint32(0)), 0},
		{"a number", "", []uint32{300}, nil, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newSwarm()
				w.weights = tt.weights
				e, id, _ := start(t, w)
				w.update(func(v *round.View) { plan(v, 1, 1, 1) })
				got := make(chan error, 1)
				go func() {
					_, err := e.Sync(t.Context(), id, 1, 30)
					got <- err
				}()
				synctest.Wait()
				digest := w.said().Done.ModelDigest
				w.update(func(v *round.View) { commit(v, 1, 1, digest) })
				<-got
				for _, n := range tt.atClose {
					e.Weigh(id, n)
				}
				poll, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, err := e.Close(poll, id, "snapshot"); !errors.Is(err, context.DeadlineExceeded) {
					t.Fatal(err)
				}
				e.Weigh(id, 1000) // too late: the swarm knows what it closed with
				if d := cmp.Diff(tt.told, w.closed.Weight); d != "" || w.said().Ready.Weight != tt.weighs {
					t.Errorf("ready with %d, want %d; closed with (-want +got):\n%s", w.said().Ready.Weight, tt.weighs, d)
				}
			})
		})
	}
}
