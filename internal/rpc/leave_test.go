package rpc_test

import (
	"strings"
	"testing"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
)

func (p *peer) leave(t *testing.T, reason string) error {
	t.Helper()
	_, err := p.nodes().LeaveNode(t.Context(), with(p, &swarmv1.LeaveNodeRequest{Reason: reason}))
	return err
}

func TestLeaveNode(t *testing.T) {
	s := newSwarm(t)
	a, key := newLearner(t, s, "sl-a")
	terms := wireTerms(layout(t, 100), 2)
	if _, err := a.open(t, idA, terms); err != nil {
		t.Fatal(err)
	}
	if err := a.report(t, wellNode()); err != nil {
		t.Fatal(err)
	}
	heard := len(s.lead.Touched())
	for range 2 { // idempotent
		if err := a.leave(t, " stopped\x1b[2J\n"); err != nil {
			t.Fatal(err)
		}
	}
	node := s.core.View().Nodes["sl-a"]
	if node.Live || node.LeftReason != "stopped [2J" {
		t.Errorf("after the leave: %+v", node)
	}
	if x := s.core.View().Contracts["study"].Sessions[idA]; x.State != state.SessionEnded || x.EndReason != "left: stopped [2J" {
		t.Errorf("its session: %+v", x)
	}
	list, err := a.nodes().ListNodes(t.Context(), with(a, &swarmv1.ListNodesRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range list.Msg.GetNodes() {
		if n.GetName() == "sl-a" && (n.GetLive() || n.GetLeftReason() == "") {
			t.Errorf("listed as %v", n)
		}
	}
	if x := s.healths()["sl-a"]; x.GetHealthy() || x.GetLeftReason() != "stopped [2J" || x.GetReason() != "left: stopped [2J" || x.GetUntilUnixMs() != 0 {
		t.Errorf("its health: %v", x)
	}

	// A heartbeat that the leave overtook is no error and no sign of life.
	if err := a.report(t, wellNode()); err != nil {
		t.Errorf("late heartbeat: %v", err)
	}
	if got := len(s.lead.Touched()); got != heard {
		t.Errorf("a late heartbeat counts: %d signs of life, want %d", got, heard)
	}
	_, err = a.open(t, idB, terms)
	wantReason(t, "opening a session after the leave", err, "NODE_LEFT")

	// A new incarnation of the node; the leave of the old one comes once more.
	old := a.header.Clone()
	a.register(t, "sl-a", key)
	a.header, old = old, a.header
	if err := a.leave(t, "stopped"); err != nil {
		t.Errorf("an old leave: %v", err)
	}
	a.header = old
	if n := s.core.View().Nodes["sl-a"]; !n.Live || n.Left() {
		t.Errorf("the leave of an old incarnation ended the new one: %+v", n)
	}
	if _, err := a.open(t, idB, terms); err != nil {
		t.Errorf("the new incarnation opens a session: %v", err)
	}
	if x := s.healths()["sl-a"]; x.GetLeftReason() != "" {
		t.Errorf("health of the new incarnation: %v", x)
	}
}

func TestLeaveIsTheNodesOwn(t *testing.T) {
	s := newSwarm(t)
	a, _ := newLearner(t, s, "sl-a")
	b, _ := newLearner(t, s, "sl-b")
	b.header.Set("Swarm-Node", "sl-a")
	wantReason(t, "another's leave", b.leave(t, "stopped"), "TOKEN_REFUSED")
	operator := s.as("/swarm/swci")
	wantReason(t, "an operator's", operator.leave(t, "stopped"), "ROLE_DENIED")
	if n := s.core.View().Nodes["sl-a"]; n.Left() {
		t.Errorf("another ended %+v", n)
	}
	if err := a.leave(t, strings.Repeat("ü", 4096)); err != nil {
		t.Errorf("a long reason to leave: %v", err)
	}
	if n := s.core.View().Nodes["sl-a"]; !n.Left() || len(n.LeftReason) > state.MaxLeaveReason {
		t.Errorf("%+v", n)
	}
	wantReason(t, "after a ban", func() error {
		must(s.core.Propose(t.Context(), state.BanNode{PeerID: s.core.View().Nodes["sl-a"].PeerID, By: "x"}))(t)
		return a.leave(t, "stopped")
	}(), "BANNED")
	if x := s.healths()["sl-a"]; x.GetLeftReason() != "" || !strings.Contains(x.GetReason(), "banned") {
		t.Errorf("health of who left and is banned: %v", x)
	}
}

func TestLeaveIsKnownWithoutALeader(t *testing.T) {
	s := newSwarm(t)
	a, _ := newLearner(t, s, "sl-a")
	if err := a.leave(t, ""); err != nil {
		t.Fatal(err)
	}
	s.core.SetLeader("")
	if x := s.healths()["sl-a"]; x.GetLeftReason() != "it gave no reason" {
		t.Errorf("%v", x)
	}
}
