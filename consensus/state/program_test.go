package state_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
)

// TestProgramsAreRecorded, each with its session and once, and nothing of a session whose SL says nothing.
func TestProgramsAreRecorded(t *testing.T) {
	open := state.OpenSession{
		Session: hexOf("7", 32), Contract: "other", Node: "sl-0", Terms: terms("a", 2), SyncFrequency: 10, Weight: 7, AtMS: 20, Program: "train.py sha256:00",
	}
	silent := open
	silent.Session, silent.Node, silent.Program = hexOf("8", 32), "sl-1", ""
	s, lines, kinds := chained(t, append(trained(), open, open, silent)...)
	n := len(kinds)
	if d := cmp.Diff([]string{"bundle", "program"}, kinds[n-2:]); d != "" {
		t.Fatalf("records differ (-want +got):\n%s", d)
	}
	want := ledger.Body(ledger.Program{Contract: "other", Run: 1, Session: open.Session, Node: "sl-0", PeerID: "key-sl-0", Program: "train.py sha256:00"})
	if _, body, err := ledger.Parse(lines[n-1]); err != nil || !cmp.Equal(body, want) {
		t.Errorf("recorded %+v, %v", body, err)
	}
	for _, bad := range []string{strings.Repeat("a", state.MaxProgram+1), "two\nlines"} {
		c := open
		c.Session, c.Program = hexOf("9", 32), bad
		if _, _, err := s.Apply(c); state.ReasonOf(err) != state.ReasonBadCommand {
			t.Errorf("%.20q: %v", bad, err)
		}
	}
}
