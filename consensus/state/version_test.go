package state_test

import (
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/state"
)

// TestNodesTellTheirVersion, in a line that may have blanks, and tell another one when they register again.
func TestNodesTellTheirVersion(t *testing.T) {
	register := func(version string) state.RegisterNode {
		c := proven("sl-0")
		c.Node.Version = version
		return c
	}
	s := state.New()
	for _, version := range []string{"", "v1.2.3 (0123456789ab)", "devel (unknown)"} {
		if s = mustApply(t, s, register(version)); s.Nodes["sl-0"].Version != version {
			t.Errorf("it has %q, want %q", s.Nodes["sl-0"].Version, version)
		}
	}
	for _, bad := range []string{"two\nlines", strings.Repeat("a", 5000)} {
		if _, _, err := s.Apply(register(bad)); state.ReasonOf(err) != state.ReasonBadCommand {
			t.Errorf("%.20q: %v", bad, err)
		}
	}
}
