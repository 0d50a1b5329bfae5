package rpc_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/swarmd/swarmd/identity/gatetest"
)

// TestSteadyFloodKeepsNobodyAway floods from eight addresses all the time; the honest calls come from a ninth.
func TestSteadyFloodKeepsNobodyAway(t *testing.T) {
	for _, tt := range []struct {
		name     string
		greeting string
	}{
		{"silent", ""},
		{"with a first byte", "\x16"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSwarm(t)
			flood := gatetest.Start(t, s.addr, 2000, []byte(tt.greeting))
			for _, after := range []int{1500, 2000, 2500} {
				flood.Await(after)
				if err := s.as("/swarm/sl/sl-0").isUp(); err != nil {
					t.Errorf("an honest caller was kept out after %d connections: %v", after, err)
				}
			}
		})
	}
}

// isUp makes a call on a connection of its own.
func (p *peer) isUp() error {
	p.http.Timeout = 5 * time.Second
	req, err := http.NewRequest(http.MethodGet, p.url()+"/is_up", nil)
	if err != nil {
		return err
	}
	req.Header = p.header
	res, err := p.http.Do(req)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// BenchmarkCallsInAFlood tells how long honest calls take in a flood of 5,000 silent connections a second. Once is enough:
// -benchtime 1x.
func BenchmarkCallsInAFlood(b *testing.B) {
	for b.Loop() {
		s := newSwarm(b)
		callers := make([]*peer, 40)
		for i := range callers {
			callers[i] = s.as("/swarm/sl/sl-0")
		}
		gatetest.Measure(b, s.addr, len(callers), func(i int) error { return callers[i].isUp() })
	}
}
