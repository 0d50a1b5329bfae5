package session_test

import (
	"testing"
	"testing/synctest"

	"github.com/swarmd/swarmd/internal/round"
)

// TestReportsGoOnWhileAModelIsSummedUp: what takes half a second for each GiB holds up neither reports nor the status.
func TestReportsGoOnWhileAModelIsSummedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSwarm()
		e, id, s := start(t, w)
		sums := 0
		s.sumUp = func() {
			e.Status() // which waits for the engine's lock
			sums++
		}
		got := syncCall(t, e, id, 1)
		w.round(1)
		if a := <-got; a.err != nil || sums != 1 {
			t.Errorf("merged: %+v, %d sums, want 1", a, sums)
		}
		w.models[digestOf([]byte("87654321"))] = []byte("87654321")
		got = syncCall(t, e, id, 2)
		w.update(func(v *round.View) { commit(v, 2, 0, digestOf([]byte("87654321"))) })
		if a := <-got; a.err != nil || sums != 2 {
			t.Errorf("fetched: %+v, %d sums, want 2", a, sums)
		}
	})
}
