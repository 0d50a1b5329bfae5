package state_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/state"
)

// admitting is a swarm whose operators admit SNs, with its founder.
const admitting = "init swarm-1 founder=sn-0; register sn-0 role=sn"

func TestAdmissionsAreBounded(t *testing.T) {
	s := applied(t, admitting)
	for i := range state.MaxAdmitted - 1 {
		s = mustApply(t, s, state.AdmitNode{Node: fmt.Sprintf("sn-x%d", i), PeerID: fmt.Sprintf("key-%d", i)})
	}
	next, _, err := s.Apply(state.AdmitNode{Node: "sn-1", PeerID: "key-sn-1"})
	if got := state.ReasonOf(err); got != state.ReasonBadCommand || next != s {
		t.Errorf("admission %d: %q (%v)", state.MaxAdmitted+1, got, err)
	}
	s = mustApply(t, s, state.AdmitNode{Node: "sn-x0", PeerID: "key-corrected"})
	s = mustApply(t, s, state.ForgetNode{Node: "sn-x1"})
	mustApply(t, s, state.AdmitNode{Node: "sn-1", PeerID: "key-sn-1"})
}

func TestRefusedAdmissions(t *testing.T) {
	for name, c := range map[string]state.AdmitNode{
		"no name":         {PeerID: "k"},
		"no key":          {Node: "sn-1"},
		"long key":        {Node: "sn-1", PeerID: strings.Repeat("k", 600)},
		"blank in key":    {Node: "sn-1", PeerID: "a b"},
		"long SPIFFE ID":  {Node: "sn-1", PeerID: "k", By: strings.Repeat("b", 4096)},
		"blank SPIFFE ID": {Node: "sn-1", PeerID: "k", By: "a b"},
	} {
		s := applied(t, admitting)
		if next, _, err := s.Apply(c); state.ReasonOf(err) != state.ReasonBadCommand || next != s {
			t.Errorf("%s: %v", name, err)
		}
	}
	bad := state.InitSwarm{SwarmID: "swarm-1", Founder: &state.Admission{Name: "sn-0"}}
	if next, _, err := state.New().Apply(bad); state.ReasonOf(err) != state.ReasonBadCommand || next.SwarmID != "" {
		t.Errorf("a founder without a key: %v", err)
	}
}

// TestCheckFindsBrokenAdmissions breaks one thing of an admission in a fresh copy.
func TestCheckFindsBrokenAdmissions(t *testing.T) {
	for name, spoil := range map[string]func(s *state.State){
		"without a policy": func(s *state.State) { s.Admit = "" },
		"unknown policy":   func(s *state.State) { s.Admit = "anyone" },
		"under another":    func(s *state.State) { s.Admitted["x"] = s.Admitted["key-sn-0"] },
		"nil":              func(s *state.State) { s.Admitted["x"] = nil },
		"one name twice":   func(s *state.State) { s.Admitted["x"] = &state.Admission{Name: "sn-0", PeerID: "x"} },
		"banned":           func(s *state.State) { s.Bans = map[string]*state.Ban{"key-sn-1": {PeerID: "key-sn-1"}} },
		"not counted":      func(s *state.State) { s.Admitted["x"] = &state.Admission{Name: "sn-2", PeerID: "x"} },
	} {
		s := applied(t, admitting+"; admit sn-1")
		if err := state.Check(s); err != nil {
			t.Fatal(err)
		}
		spoil(s)
		if state.Check(s) == nil {
			t.Errorf("%s: Check finds nothing", name)
		}
	}
}
