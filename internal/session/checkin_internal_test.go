package session

import (
	"testing"

	"github.com/swarmd/swarmd/internal/round"
)

// TestCheckin: what a session goes by when its training has ended, and what it says of it at its close. What is told must hold for SNs that
// know neither defaults nor once.
func TestCheckin(t *testing.T) {
	for _, tt := range []struct {
		program, rule, node string
		weight              uint32
		told                string
	}{
		{"", "", "", 3, ""},
		{"snapshot", "inactive", "inactive", 3, "snapshot"},
		{"once", "", "", 3, "once"},
		{"inactive", "", "", 0, "inactive"},
		{"", "", "inactive", 0, "inactive"},
		{"", "active", "inactive", 3, "active"},
		{"", "inactive", "once", 0, "inactive"},
		{"", "", "once", 3, ""},
		{"", "once", "inactive", 3, ""},
	} {
		s := &session{
			open: &round.Open{CheckinMode: tt.program, CheckinDefault: tt.node, Weight: 3},
			view: &round.View{Rules: round.Rules{CheckinDefault: tt.rule}},
		}
		s.program.s = s
		if weight, told := s.program.closedWeight(), s.closeRequestLocked().CheckinMode; weight != tt.weight || told != tt.told {
			t.Errorf("%q, %q, %q: weight %d and %q, want %d and %q", tt.program, tt.rule, tt.node, weight, told, tt.weight, tt.told)
		}
	}
}
