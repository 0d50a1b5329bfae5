package p2p_test

import (
	"testing"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/gatetest"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/p2p/p2ptest"
)

// TestSteadyFloodKeepsNobodyAway floods from eight addresses all the time; the honest dials come from a ninth.
func TestSteadyFloodKeepsNobodyAway(t *testing.T) {
	for _, tt := range []struct {
		name     string
		greeting string
	}{
		{"silent", ""},
		{"with a first byte", "\x13"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sw := p2ptest.New(t)
			sn, sl := sw.Host(identity.RoleSN, swarmA), sw.Host(identity.RoleSL, swarmA)
			serveEcho(sn, anyRole)
			addr := p2ptest.AddrOf(t, sn)
			flood := gatetest.Start(t, addr.HostPort(), 2000, []byte(tt.greeting))
			for _, after := range []int{1500, 2000, 2500} {
				flood.Await(after)
				if _, err := sl.Contact(t.Context(), addr.HostPort(), identity.RoleSN); err != nil {
					t.Errorf("an honest peer was kept out after %d connections: %v", after, err)
				}
			}
			s, err := sl.Dial(t.Context(), addr, echo)
			if err != nil {
				t.Fatalf("an honest peer was kept out: %v", err)
			}
			roundTrip(t, s, "hello")
		})
	}
}

// BenchmarkDialsInAFlood tells how long honest dials take in a flood of 5,000 silent connections a second. Once is enough:
// -benchtime 1x.
func BenchmarkDialsInAFlood(b *testing.B) {
	for b.Loop() {
		sw := p2ptest.New(b)
		sn := sw.Host(identity.RoleSN, swarmA)
		serveEcho(sn, anyRole)
		addr := p2ptest.AddrOf(b, sn)
		hosts := make([]*p2p.Host, 40) // each has a connection of its own to make
		for i := range hosts {
			hosts[i] = sw.Host(identity.RoleSL, swarmA)
		}
		gatetest.Measure(b, addr.HostPort(), len(hosts), func(i int) error {
			s, err := hosts[i].Dial(b.Context(), addr, echo)
			if err != nil {
				return err
			}
			return s.Reset()
		})
	}
}
