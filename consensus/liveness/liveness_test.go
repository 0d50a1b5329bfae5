package liveness_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/liveness"
	"github.com/swarmd/swarmd/consensus/state"
)

func TestChanges(t *testing.T) {
	s := state.New()
	at := time.Unix(1000, 0)
	for _, name := range []string{"sl-0", "sl-1", "sn-0"} {
		role := name[:2]
		s, _, _ = s.Apply(state.RegisterNode{Node: state.Node{Name: name, Role: role, PeerID: name}, TokenHash: strings.Repeat("1", 64), AtMS: 5})
	}
	l := liveness.New(5*time.Second, "sn-0")
	l.Begin(at)
	steps := []struct {
		after time.Duration
		touch string
		want  string
	}{
		{0, "", ""},
		{6 * time.Second, "sl-0", ""}, // Silence of sl-1 counts only after two timeouts.
		{3900 * time.Millisecond, "sl-0", ""},
		{100 * time.Millisecond, "sl-0", "sl-1:false"},
		{2 * time.Second, "", ""},
		{4 * time.Second, "", "sl-0:false"},
		{time.Hour, "", ""},
		{time.Second, "sl-1", "sl-1:true"},
	}
	for i, step := range steps {
		at = at.Add(step.after)
		if step.touch != "" {
			l.Touch(step.touch, at)
		}
		var got []string
		for _, c := range l.Changes(s, at) {
			got = append(got, fmt.Sprintf("%s:%t", c.Node, c.Live))
			s, _, _ = s.Apply(c)
		}
		if strings.Join(got, " ") != step.want {
			t.Errorf("step %d: %v, want %q", i, got, step.want)
		}
	}
	s, _, _ = s.Apply(state.RegisterNode{Node: *s.Nodes["sl-0"], TokenHash: strings.Repeat("2", 64), AtMS: at.UnixMilli()})
	if got := l.Changes(s, at); len(got) != 0 {
		t.Errorf("a node that registered again is declared %+v", got)
	}
}

func TestNothingHeardRevivesABannedNode(t *testing.T) {
	s := state.New()
	at := time.Unix(1000, 0)
	apply := func(c state.Command) {
		t.Helper()
		next, _, err := s.Apply(c)
		if err != nil {
			t.Fatal(err)
		}
		s = next
	}
	apply(state.RegisterNode{Node: state.Node{Name: "sl-1", Role: "sl", PeerID: "sl-1"}, TokenHash: strings.Repeat("1", 64), AtMS: 5})
	l := liveness.New(time.Second, "sn-0")
	l.Begin(at)
	apply(state.BanNode{PeerID: "sl-1"})
	l.Touch("sl-1", at)
	if got := l.Changes(s, at); len(got) != 0 {
		t.Errorf("changes %+v", got)
	}
	apply(state.UnbanNode{PeerID: "sl-1"})
	l.Touch("sl-1", at)
	if got := l.Changes(s, at); len(got) != 1 || !got[0].Live {
		t.Errorf("changes after the ban was lifted: %+v", got)
	}
}

// TestManyThatAreLate: where most of many are late, silence counts three times as long; where few are, or there are few, it does not.
func TestManyThatAreLate(t *testing.T) {
	for name, tt := range map[string]struct {
		nodes, late int
		dead        int // after so long a silence of one that any heartbeat timeout is over
	}{
		"most of many": {20, 11, 0},
		"half of many": {20, 10, 10},
		"all of few":   {15, 15, 15},
	} {
		s := state.New()
		at := time.Unix(1000, 0)
		l := liveness.New(5*time.Second, "sn-0")
		l.Begin(at)
		for i := range tt.nodes {
			name := fmt.Sprintf("sl-%d", i)
			s, _, _ = s.Apply(state.RegisterNode{Node: state.Node{Name: name, Role: "sl", PeerID: name}, TokenHash: strings.Repeat("1", 64), AtMS: 5})
		}
		if got := l.Changes(s, at); len(got) != 0 {
			t.Fatalf("%s: %+v at the start", name, got)
		}
		later := at.Add(11 * time.Second)
		for i := tt.late; i < tt.nodes; i++ {
			l.Touch(fmt.Sprintf("sl-%d", i), later)
		}
		if got := l.Changes(s, later); len(got) != tt.dead {
			t.Errorf("%s: %d are found dead, want %d", name, len(got), tt.dead)
		}
		for i := tt.late; i < tt.nodes; i++ {
			l.Touch(fmt.Sprintf("sl-%d", i), later.Add(5*time.Second))
		}
		if got := l.Changes(s, later.Add(5*time.Second)); len(got) != tt.late {
			t.Errorf("%s: %d are found dead in the end, want %d", name, len(got), tt.late)
		}
	}
}
