package state_test

import (
	"fmt"
	"testing"

	"github.com/swarmd/swarmd/consensus/state"
)

// hoarder opens sessions with the largest layout on terms that are never met.
func hoarder(n int, contract, node string) state.OpenSession {
	return state.OpenSession{
		Session: fmt.Sprintf("%032x", n), Contract: contract, Node: node, SyncFrequency: 1, Weight: 1,
		Terms: state.Terms{LayoutDigest: hexOf("a", 64), Layout: make([]byte, state.MaxLayoutBytes), Leaves: 7, Method: "mean", MinPeers: state.MaxMinPeers},
	}
}

// mustApply applies a command that must be accepted.
func mustApply(t *testing.T, s *state.State, c state.Command) *state.State {
	t.Helper()
	next, _, err := s.Apply(c)
	if err != nil {
		t.Fatalf("%s: %v", c.Type(), err)
	}
	return next
}

func TestNodeThatOpensWithoutEndLeavesASmallState(t *testing.T) {
	s := applied(t, "register sl-0")
	for i := range 60 {
		s = mustApply(t, s, hoarder(i, "study", "sl-0"))
	}
	b, err := state.EncodeSnapshot(s)
	if err != nil {
		t.Fatal(err)
	}
	if limit := 16 << 20; len(b) > limit {
		t.Errorf("60 sessions of one node make a snapshot of %d bytes, want %d at most", len(b), limit)
	}
}

func TestNodeHasABoundOfOpenSessions(t *testing.T) {
	s := applied(t, "register sl-0")
	small := func(n int, contract string) state.OpenSession {
		o := hoarder(n, contract, "sl-0")
		o.Terms.Layout = []byte("a")
		return o
	}
	for i := range state.MaxSessions {
		s = mustApply(t, s, small(i, fmt.Sprintf("study-%d", i)))
	}
	if _, _, err := s.Apply(small(1000, "one-more")); state.ReasonOf(err) != state.ReasonBadCommand {
		t.Errorf("session %d: %v", state.MaxSessions+1, err)
	}
	// Another session in a contract where it has one replaces that.
	s = mustApply(t, s, small(1001, "study-0"))
	s = mustApply(t, s, state.EndSession{Session: fmt.Sprintf("%032x", 1001), Contract: "study-0", Run: 1, Reason: state.EndFinished})
	mustApply(t, s, small(1002, "one-more"))
}

func TestLayoutsOfAllContractsAreBounded(t *testing.T) {
	s := state.New()
	layout := make([]byte, state.MaxLayoutBytes)
	total, n := 0, 0
	for node := range 8 {
		name := fmt.Sprintf("sl-%d", node)
		s = mustApply(t, s, parseCommand(t, s, "register "+name, 1))
		for i := range state.MaxSessions {
			o := hoarder(n, fmt.Sprintf("study-%d", i), name)
			o.Terms.Layout = layout
			n++
			next, _, err := s.Apply(o)
			if err == nil {
				s, total = next, total+len(layout)
			} else if state.ReasonOf(err) != state.ReasonBadCommand {
				t.Fatal(err)
			}
		}
	}
	if total != 256<<20 {
		t.Errorf("%d bytes of layouts were taken, want 256 MiB", total)
	}
}
