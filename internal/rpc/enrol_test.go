package rpc_test

import (
	"sync"
	"testing"

	"github.com/swarmd/swarmd/consensus/state"
)

// TestLayoutIsProposedOnce holds that of many sessions with one layout a single one takes it into the log, whenever they come.
func TestLayoutIsProposedOnce(t *testing.T) {
	s := newSwarm(t)
	var mu sync.Mutex
	var brought, all int
	s.core.OnPropose(func(c state.Command) {
		mu.Lock()
		defer mu.Unlock()
		if o, ok := c.(state.OpenSession); ok {
			if all++; o.Terms.Layout != nil {
				brought++
			}
		}
	})
	var group sync.WaitGroup
	for i, id := range []string{idA, idB, idC} {
		p, _ := newLearner(t, s, "sl-"+string("abc"[i]))
		group.Go(func() {
			if _, err := p.open(t, id, wireTerms(layout(t, 100), 3)); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	a, _ := newLearner(t, s, "sl-d")
	if _, err := a.open(t, "d"+idA[1:], wireTerms(layout(t, 100), 3)); err != nil {
		t.Error(err)
	}
	if brought != 1 || all != 4 {
		t.Errorf("%d of %d sessions took the layout into the log", brought, all)
	}
	if got := s.core.View().Contracts["study"].Terms; got == nil || len(got.Layout) == 0 {
		t.Errorf("terms without a layout: %+v", got)
	}
}
