package state_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/naming"
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
	if _, _, err := s.Apply(small(1000, "one-more")); state.ReasonOf(err) != state.ReasonQuota {
		t.Errorf("session %d: %v", state.MaxSessions+1, err)
	}
	// Another session in a contract where it has one replaces that.
	s = mustApply(t, s, small(1001, "study-0"))
	s = mustApply(t, s, state.EndSession{Session: fmt.Sprintf("%032x", 1001), Contract: "study-0", Run: 1, Reason: state.EndFinished})
	mustApply(t, s, small(1002, "one-more"))
}

// TestStateThatIsFull fills the state as far as it goes, as nodes with many contracts could, with the room made small. What goes
// on must go on, what is new is refused with a reason, and the state can still be read back.
func TestStateThatIsFull(t *testing.T) {
	const room = 300_000
	s := applied(t, enrolled+"; plan with=1,2").WithRoom(room)
	bad := strings.Repeat("<", 4096)
	var refused error
	for i := 0; refused == nil; i++ {
		node := fmt.Sprintf("node-%d", i)
		o := hoarder(i+10, "study", node)
		o.Terms.Layout = []byte(strings.Repeat("x", 1000))
		own := o
		own.Session, own.Contract = fmt.Sprintf("%032x", 1<<20+i), "study-"+node
		for _, c := range []state.Command{
			parseCommand(t, s, "register "+node, 1), o, state.EndSession{Session: o.Session, Contract: "study", Run: 1, Reason: bad}, own,
		} {
			if s, _, refused = s.Apply(c); refused != nil {
				break
			}
		}
	}
	if state.ReasonOf(refused) != state.ReasonStateFull {
		t.Fatal(refused)
	}
	if again, err := state.DecodeSnapshot([]byte(encode(t, s))); err != nil || again.Size() != s.Size() || s.Size() > room || s.Size() < room*9/10 {
		t.Fatalf("%d bytes of %d: %v", s.Size(), room, err)
	}
	var err error
	for i := 0; err == nil; i++ {
		s, _, err = s.Apply(state.CreateContract{Contract: fmt.Sprintf("empty-%d", i)})
	}
	for _, c := range []state.Command{
		state.CreateContract{Contract: "one-more"},
		state.RegisterNode{Node: state.Node{Name: "late", Role: naming.RoleSL, PeerID: "late", Host: "a"}, TokenHash: hexOf("1", 64)},
	} {
		if _, _, err := s.Apply(c); state.ReasonOf(err) != state.ReasonStateFull {
			t.Errorf("%s: %v", c.Type(), err)
		} else if e, ok := errors.AsType[*state.Error](err); !ok || !strings.Contains(e.Remedy, "swarmctl delete contract NAME") {
			t.Errorf("%s: the remedy is %q", c.Type(), e.Remedy)
		}
	}
	freed := mustApply(t, s, state.DeleteContract{Contract: "study-node-1", Force: true})
	mustApply(t, freed, state.CreateContract{Contract: "one-more"})
	for _, line := range []string{
		"register sl-0", "register sn-9 role=sn", "commit", "plan with=1,2", "commit", "dead sl-1", "live sl-1", "close 1", "close 2", "plan with=1,2 final=true", "commit",
		"end 1", "end 2", "ban key-node-0", "reset contract=study-node-1 force=true", "reset",
	} {
		s = mustApply(t, s, parseCommand(t, s, line, 9))
		if err := state.Check(s); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
}

// TestEndedSessionsAreSmall is how a single SL made snapshots that nobody could read: a reason of 4096 bytes of "<", which take six
// each in JSON.
func TestEndedSessionsAreSmall(t *testing.T) {
	s := applied(t, "register sl-0")
	before := s.Size()
	o := hoarder(1, state.DefaultContract, "sl-0")
	o.Terms.Layout = []byte("a")
	s = mustApply(t, s, o)
	s = mustApply(t, s, state.EndSession{Session: o.Session, Contract: o.Contract, Run: 1, Reason: strings.Repeat("<", 4096)})
	if got := s.Size() - before; got > 1024 {
		t.Errorf("an ended session takes %d bytes", got)
	}
}

func TestClip(t *testing.T) {
	for in, want := range map[string]string{
		"short": "short", strings.Repeat("a", 13): strings.Repeat("a", 12), "<<<": "<<", "ab\u2028cdefgh": "ab\u2028cdef", "äöüäöüäöü": "äöüäöü", "a\"\n": "a\"\n",
	} {
		if got := state.Clip(in, 12); got != want {
			t.Errorf("Clip(%q) = %q, want %q", in, got, want)
		}
	}
}

// BenchmarkApply is one command at a state that holds much.
func BenchmarkApply(b *testing.B) {
	for _, contracts := range []int{16, 4000} {
		b.Run(fmt.Sprint(contracts), func(b *testing.B) {
			s := state.New()
			for i := range contracts {
				node := fmt.Sprintf("node-%d", i)
				s, _, _ = s.Apply(state.RegisterNode{Node: state.Node{Name: node, Role: naming.RoleSL, PeerID: node}, TokenHash: hexOf("1", 64)})
				for j := range 4 {
					o := hoarder(i*1000+j, fmt.Sprintf("study-%d", i), node)
					o.Terms.Layout = []byte("a")
					s, _, _ = s.Apply(o)
				}
			}
			b.ReportMetric(float64(s.Size())/(1<<20), "MiB")
			live := false
			for b.Loop() {
				next, _, err := s.Apply(state.SetLive{Node: "node-3", Live: live})
				if err != nil {
					b.Fatal(err)
				}
				if err := state.CheckChange(s, next); err != nil {
					b.Fatal(err)
				}
				s, live = next, !live
			}
		})
	}
}

// layouts counts the copies of layouts in a state.
func layouts(s *state.State) (n int) {
	for _, c := range s.Contracts {
		if c.Terms != nil && c.Terms.Layout != nil {
			n++
		}
		for _, x := range c.Sessions {
			if x.Terms.Layout != nil {
				n++
			}
		}
	}
	return n
}

// TestLayoutIsHeldOnce holds that a contract holds a layout once, for whoever of its sessions is left, and that a session need
// not bring one that it holds.
func TestLayoutIsHeldOnce(t *testing.T) {
	open := func(n int, node, layout string, method string) state.OpenSession {
		o := state.OpenSession{Session: fmt.Sprintf("%032x", n), Contract: "study", Node: node, SyncFrequency: 1, Weight: 1, Terms: terms("a", 3)}
		o.Terms.Layout, o.Terms.Method = []byte(layout), method
		if layout == "" {
			o.Terms.Layout = nil
		}
		return o
	}
	s := applied(t, "register sl-0; register sl-1; register sl-2; register sl-3")
	if _, _, err := s.Apply(open(1, "sl-0", "", "mean")); state.ReasonOf(err) != state.ReasonLayoutAbsent {
		t.Fatalf("a session without a layout in a contract without: %v", err)
	}
	s = mustApply(t, s, open(1, "sl-0", "text", "krum(f=1)"))
	s = mustApply(t, s, open(2, "sl-1", "text", "mean"))
	s = mustApply(t, s, open(3, "sl-2", "", "mean"))
	if n := layouts(s); n != 3-2 {
		t.Errorf("%d copies", n)
	}
	// The third one fixes the terms; who brought the layout has other ones.
	s = mustApply(t, s, open(4, "sl-3", "", "mean"))
	c := s.Contracts["study"]
	if c.Terms == nil || string(c.Terms.Layout) != "text" || c.Terms.LayoutFrom != "sl-0" || layouts(s) != 1 {
		t.Errorf("terms %+v, %d copies", c.Terms, layouts(s))
	}

	// When its session ends the layout passes on, to the end of the last.
	s = applied(t, "register sl-0; register sl-1")
	s = mustApply(t, s, open(1, "sl-0", "text", "mean"))
	s = mustApply(t, s, open(2, "sl-1", "", "mean"))
	s = mustApply(t, s, state.EndSession{Session: fmt.Sprintf("%032x", 1), Contract: "study", Run: 1, Reason: "failed"})
	if x := s.Contracts["study"].Sessions[fmt.Sprintf("%032x", 2)]; string(x.Terms.Layout) != "text" || x.Terms.LayoutFrom != "sl-0" || layouts(s) != 1 {
		t.Errorf("after the end of who brought it: %+v, %d copies", x.Terms, layouts(s))
	}
	s = mustApply(t, s, open(3, "sl-1", "", "mean")) // replaces its only holder
	if layouts(s) != 1 {
		t.Errorf("%d copies after the holder was replaced", layouts(s))
	}
	s = mustApply(t, s, state.EndSession{Session: fmt.Sprintf("%032x", 3), Contract: "study", Run: 1, Reason: "failed"})
	if layouts(s) != 0 || s.Contracts["study"].HoldsLayout(terms("a", 3).LayoutDigest) {
		t.Errorf("%d copies after the last end", layouts(s))
	}
	checkWhole(t, s, 1<<20)
}

// TestOpenedAndEndedSessionsHoldNoLayouts is how one SL used all room for layouts up, until an operator reset its contracts.
func TestOpenedAndEndedSessionsHoldNoLayouts(t *testing.T) {
	s := applied(t, "register sl-0")
	for i := range 20 {
		contract := fmt.Sprintf("study-%d", i%4)
		s = mustApply(t, s, hoarder(i, contract, "sl-0"))
		s = mustApply(t, s, state.EndSession{Session: fmt.Sprintf("%032x", i), Contract: contract, Run: 1, Reason: "failed"})
	}
	if s.Size() > 64<<10 {
		t.Errorf("%d bytes after the last end", s.Size())
	}
}
