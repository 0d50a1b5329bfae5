package client_test

import (
	"testing"
	"time"
)

// TestUnreached: SNs whose API can't be dialled are known by name, until they can be.
func TestUnreached(t *testing.T) {
	t.Parallel()
	s := newSwarm(t, swarmID)
	a, b := s.start("sn-0"), s.start("sn-1")
	c := s.client("/swarm/sl/sl-0", nil, a.addr, b.addr)
	if _, err := c.ListNodes(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := c.Unreached(); len(got) != 0 {
		t.Errorf("all is well, and %v is not reached", got)
	}
	a.kill()
	if _, err := c.ListNodes(t.Context()); err != nil { // at sn-1
		t.Fatal(err)
	}
	again, late := time.NewTicker(100*time.Millisecond), time.After(time.Minute)
	defer again.Stop()
	got := c.Unreached()
	for ; len(got) == 0; got = c.Unreached() { // what has refused once counts after it was dialled again
		c.Doubt()
		if _, err := c.ListNodes(t.Context()); err != nil {
			t.Fatal(err)
		}
		select {
		case <-again.C:
		case <-late:
			t.Fatal("an SN that refuses is never told")
		}
	}
	if len(got) != 1 || got[0].Name != "sn-0" || got[0].Failure.Err.HostPort != a.addr || got[0].Failure.Err.Cause != "refused" || got[0].Failure.Since.IsZero() {
		t.Errorf("not reached: %+v", got)
	}
}
