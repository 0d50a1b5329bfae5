package state_test

import (
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/naming"
)

// TestCheckFindsBrokenLeaves breaks one thing of a node that left in a fresh copy.
func TestCheckFindsBrokenLeaves(t *testing.T) {
	tests := map[string]func(s *state.State){
		"alive":          func(s *state.State) { s.Nodes["sl-0"].Live = true },
		"an SN":          func(s *state.State) { s.Nodes["sl-0"].Role = naming.RoleSN },
		"endless reason": func(s *state.State) { s.Nodes["sl-0"].LeftReason = strings.Repeat("r", state.MaxLeaveReason+1) },
		"two lines":      func(s *state.State) { s.Nodes["sl-0"].LeftReason = "a\nb" },
		"has a session": func(s *state.State) {
			s.Nodes["sl-1"].Live, s.Nodes["sl-1"].LeftReason = false, "stopped"
		},
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			s := applied(t, enrolled+"; leave sl-0")
			if err := state.Check(s); err != nil {
				t.Fatal(err)
			}
			spoil(s)
			if state.Check(s) == nil {
				t.Error("Check finds nothing")
			}
		})
	}
}

// A snapshot of before nodes could leave, and of before isolation, has none of their fields, and is canonical without them.
func TestSnapshotsWithoutLeavesAndIsolationAreRead(t *testing.T) {
	text := encode(t, applied(t, enrolled))
	for _, field := range []string{"left_reason", "walls"} {
		if strings.Contains(text, field) {
			t.Errorf("the snapshot has %s: one without it would not be canonical", field)
		}
	}
	if _, err := state.DecodeSnapshot([]byte(text)); err != nil {
		t.Error(err)
	}
	if s := applied(t, enrolled+"; leave sl-0"); !strings.Contains(encode(t, s), `"left_reason":"stopped"`) {
		t.Error("the reason to leave is not in the snapshot")
	}
}
