package p2p_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/p2p/p2ptest"
)

// TestQueuesAreKnownAtBothEnds dials one socket and accepts one, through the gate of those who have not proved who they are.
func TestQueuesAreKnownAtBothEnds(t *testing.T) {
	sw := p2ptest.New(t)
	sn, sl := sw.Host(identity.RoleSN, swarmA), sw.Host(identity.RoleSL, swarmA)
	accepted := make(chan *p2p.Stream, 1)
	sn.Handle(echo, anyRole, func(_ context.Context, s *p2p.Stream) { accepted <- s })
	dialled, err := sl.DialDedicated(t.Context(), p2ptest.AddrOf(t, sn), echo, anybody)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range []*p2p.Stream{dialled, <-accepted} {
		if !p2p.KnowsQueues(s) {
			t.Errorf("end %d: it has no socket to ask", i)
		}
		if s.Queues() {
			t.Errorf("end %d: there is a queue on loopback", i)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		_ = s.Reset()
		if s.Queues() {
			t.Errorf("end %d: there is a queue on a closed connection", i)
		}
	}
	serveEcho(sn, anyRole)
	s, err := sl.Dial(t.Context(), p2ptest.AddrOf(t, sn), echo)
	if err != nil {
		t.Fatal(err)
	}
	if p2p.KnowsQueues(s) || s.Queues() {
		t.Error("a stream that shares a connection knows of queues")
	}
	roundTrip(t, s, strings.Repeat("x", 1<<10))
}

func TestDelayed(t *testing.T) {
	for _, c := range []struct {
		now, shortest uint32 // µs
		want          bool
	}{
		{40, 15, false},
		{9_000, 20, false},
		{60_000, 50_000, false}, // a long way, without a queue
		{60_000, 20, true},
		{150_000, 50_000, true},
		{150_000, math.MaxUint32, false}, // nothing was measured
		{60_000, 0, false},
		{math.MaxUint32, 20, true},
	} {
		if got := p2p.Delayed(c.now, c.shortest); got != c.want {
			t.Errorf("round trip of %d µs, %d at best: %v", c.now, c.shortest, got)
		}
	}
}
