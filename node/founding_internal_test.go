package node

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/consensus/state"
)

// TestOnlyAnUnusedSwarmIsGivenUp: a handshake stops a founder that is alone and new, and never an SN that others rely on.
func TestOnlyAnUnusedSwarmIsGivenUp(t *testing.T) {
	founded := time.UnixMilli(1_000_000)
	node := func(name, role string) state.Command {
		return state.RegisterNode{
			Node: state.Node{Name: name, Role: role, PeerID: "id" + name, Host: name}, TokenHash: strings.Repeat("0", 64), AtMS: 2,
		}
	}
	own := []state.Command{state.InitSwarm{SwarmID: "swarm", AtMS: founded.UnixMilli()}, node("sn-0", "sn")}
	tests := map[string]struct {
		more    []state.Command
		servers int
		age     time.Duration
		want    bool
	}{
		"new and alone":      {nil, 1, time.Minute, true},
		"with another SN":    {[]state.Command{node("sn-1", "sn")}, 2, time.Minute, false},
		"with a lost server": {nil, 2, time.Minute, false},
		"with an SL":         {[]state.Command{node("sl-0", "sl")}, 1, time.Minute, false},
		"with a contract":    {[]state.Command{state.CreateContract{Contract: "c", AtMS: 3}}, 1, time.Minute, false},
		"with a ban":         {[]state.Command{state.BanNode{PeerID: "idx", AtMS: 3}}, 1, time.Minute, false},
		"old":                {nil, 1, 25 * time.Hour, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			view := state.New()
			for _, c := range append(own[:2:2], tt.more...) {
				next, _, err := view.Apply(c)
				if err != nil {
					t.Fatal(err)
				}
				view = next
			}
			if got := alone(view, "sn-0", tt.servers, founded.Add(tt.age)); got != tt.want {
				t.Errorf("given up: %t", got)
			}
		})
	}
}

// TestFounderListensFirst: for as long as it is told, or not at all.
func TestFounderListensFirst(t *testing.T) {
	for _, wait := range []time.Duration{0, 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := &sn{cfg: SNConfig{FoundAfter: wait}, seekers: make(chan seeker, 1)}
			begin := time.Now()
			if err := s.listen(t.Context()); err != nil || time.Since(begin) != wait {
				t.Errorf("%v after %s, want %s", err, time.Since(begin), wait)
			}
		})
	}
}
