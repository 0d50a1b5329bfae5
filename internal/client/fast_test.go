package client_test

import (
	"fmt"
	"testing"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
)

// TestWaitsWhenItIsTooFast: whoever is told to ask later does, on the same SN, and the caller does not see it.
func TestWaitsWhenItIsTooFast(t *testing.T) {
	s := newSwarm(t, swarmID)
	a := s.start("sn-0")
	w := &waits{}
	c := s.client("/swarm/sl/sl-0", w, a.addr)
	if err := c.Register(t.Context(), registration(t, "sl-0")); err != nil {
		t.Fatal(err)
	}
	for i := range 66 {
		id := fmt.Sprintf("%032x", i)
		if _, err := c.OpenSession(t.Context(), &swarmv1.OpenSessionRequest{Session: id, Contract: "study", Terms: smallTerms(t), SyncFrequency: 1, Weight: 1}); err != nil {
			t.Fatal(err)
		}
		if err := c.EndSession(t.Context(), &swarmv1.EndSessionRequest{Session: id, Contract: "study", Run: 1, Reason: "failed"}); err != nil {
			t.Fatal(err)
		}
	}
}
