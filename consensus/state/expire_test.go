package state_test

import (
	"testing"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/naming"
)

func TestUnusedContractsGo(t *testing.T) {
	const begin = "register sl-0; register sl-1; open 1 contract=study node=sl-0"
	tests := map[string]struct {
		script string
		after  int64
		gone   bool
	}{
		"ended, 30 days on":      {begin + "; end 1 contract=study", state.UnusedMS + 5000, true},
		"ended, a moment before": {begin + "; end 1 contract=study", state.UnusedMS + 3000, false},
		"an open session":        {begin, 2 * state.UnusedMS, false},
		"a model":                {begin + "; open 2 contract=study node=sl-1; plan contract=study with=1,2; commit contract=study; end 1 contract=study; end 2 contract=study", 2 * state.UnusedMS, false},
		"reset by an operator":   {begin + "; reset contract=study force=true", 2 * state.UnusedMS, false},
		"taken by an operator":   {begin + "; end 1 contract=study; create contract=study", 2 * state.UnusedMS, false},
		"made by an operator":    {"register sl-0; create contract=study", 2 * state.UnusedMS, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := applied(t, tt.script)
			c := s.Contracts["study"]
			if got := c.Unused(tt.after); got != tt.gone {
				t.Fatalf("unused: %t", got)
			}
			next, _, err := s.Apply(state.ExpireContract{Contract: "study", Run: c.Run, AtMS: tt.after})
			if (err == nil) != tt.gone || (next.Contracts["study"] == nil) != tt.gone {
				t.Fatalf("gone: %t, %v", next.Contracts["study"] == nil, err)
			}
			checkWhole(t, next, 1<<20)
			if tt.gone && next.UseOf("sl-0") != (state.Use{}) {
				t.Errorf("its node still uses %+v", next.UseOf("sl-0"))
			}
		})
	}
}

// TestClosesOfOneIdentityCountOnce: who has one SPIFFE ID of its own ends training for one, under however many names its sessions
// stand. Under a shared SPIFFE ID each node key counts.
func TestClosesOfOneIdentityCountOnce(t *testing.T) {
	register := func(name, id string) state.RegisterNode {
		return state.RegisterNode{Node: state.Node{Name: name, Role: naming.RoleSL, PeerID: "key-" + name, SPIFFEID: id}, TokenHash: hexOf("1", 64)}
	}
	for name, tt := range map[string]struct {
		ids  [2]string
		ends bool
	}{
		"entries of their own": {[2]string{"spiffe://a.example/swarm/sl/sl-0", "spiffe://a.example/swarm/sl/sl-1"}, true},
		"the shared entry":     {[2]string{"spiffe://a.example/swarm/sl", "spiffe://a.example/swarm/sl"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := mustApply(t, mustApply(t, state.New(), register("sl-0", tt.ids[0])), register("sl-1", tt.ids[1]))
			for i, line := range []string{"open 1 node=sl-0", "open 2 node=sl-1", "close 1", "close 2"} {
				s = mustApply(t, s, parseCommand(t, s, line, int64(i)))
			}
			if got := s.Contracts[state.DefaultContract].FinalDue(); got != tt.ends {
				t.Errorf("the final round is due: %t", got)
			}
		})
	}

	// One node key under two names, the first of which an operator has forgotten.
	s := mustApply(t, mustApply(t, state.New(), register("sl-0", "spiffe://a.example/swarm/sl")), register("sl-1", "spiffe://a.example/swarm/sl"))
	again := register("sl-2", "spiffe://a.example/swarm/sl")
	again.Node.PeerID = "key-sl-0"
	for i, line := range []string{"open 1 node=sl-0", "open 2 node=sl-1", "close 1", "dead sl-0", "forget sl-0"} {
		s = mustApply(t, s, parseCommand(t, s, line, int64(i)))
	}
	s = mustApply(t, s, again)
	for i, line := range []string{"open 3 node=sl-2", "close 3"} {
		s = mustApply(t, s, parseCommand(t, s, line, int64(i)))
	}
	if s.Contracts[state.DefaultContract].FinalDue() {
		t.Error("one node key ended training for two")
	}
	s = mustApply(t, s, parseCommand(t, s, "close 2", 9))
	if !s.Contracts[state.DefaultContract].FinalDue() {
		t.Error("two node keys did not end training for two")
	}
}
