package planner_test

import (
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/naming"
)

// leave takes a node out of the swarm, as the node itself asks for it.
func (s *swarm) leave(node string) {
	s.do(state.LeaveNode{Node: node, TokenHash: strings.Repeat("1", 64), Reason: "stopped", AtMS: time.Now().UnixMilli()})
}

func TestPeerThatLeavesDuringARoundIsLeftOutAtOnce(t *testing.T) {
	inSwarm(t, 3, func(s *swarm) {
		for _, p := range s.peers {
			p.open.Terms.MinPeers = 2
		}
		s.peers[1].merge = time.Hour // what it takes part in is never done
		s.enrol(s.peers...)
		for s.contract().Plan == nil {
			s.run(50 * time.Millisecond)
		}
		s.leave("sl-1")
		s.run(time.Second)
		c := s.contract()
		if c.Round() != 1 || strings.Join(c.Committed.Participants, " ") != "sl-0 sl-2" {
			t.Fatalf("a second after the node left: %+v, waiting: %s", c.Committed, s.current().Status(contractName).Waiting)
		}
	})
}

// Heartbeats race with the leave: the leader neither brings the node back nor buries it, and goes on without waiting.
func TestHeartbeatsAfterALeaveChangeNothing(t *testing.T) {
	inSwarm(t, 3, func(s *swarm) {
		for _, p := range s.peers {
			p.open.Terms.MinPeers = 2
		}
		s.enrol(s.peers...)
		s.run(12 * time.Second)
		s.leave("sl-1")
		left := time.Now()
		for range 60 {
			s.current().Touch("sl-1")
			s.run(100 * time.Millisecond)
		}
		s.run(30 * time.Second)
		if changes := commands[state.SetLive](s); len(changes) != 0 {
			t.Errorf("liveness changes: %+v", changes)
		}
		for _, p := range commands[state.PlanRound](s) {
			if got := nodes(p.Participants); p.AtMS > left.UnixMilli() && got != "sl-0 sl-2" {
				t.Errorf("round %d after the leave: %s", p.Round, got)
			}
		}
		round := s.contract().Round()
		s.run(20 * time.Second)
		if got := s.contract().Round(); got < round+5 { // Two seconds of training and the merge; no quorum wait.
			t.Errorf("%d rounds in 20 s after the leave", got-round)
		}
		s.do(state.RegisterNode{Node: state.Node{Name: "sl-1", Role: naming.RoleSL, PeerID: "key-sl-1"}, TokenHash: strings.Repeat("1", 64), AtMS: time.Now().UnixMilli()})
		s.run(20 * time.Second)
		if changes := commands[state.SetLive](s); len(changes) != 1 || changes[0].Live {
			t.Errorf("liveness changes after its return and silence: %+v", changes)
		}
	})
}

func TestNobodyWaitsForWhoLeft(t *testing.T) {
	tests := []struct {
		name     string
		expected uint32
		wait     planner.Kind
	}{
		{"slow", 0, planner.WaitTraining},
		{"expected", 3, planner.WaitTraining},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newTable(t, 2, 0)
			for i := range 3 {
				b.apply(state.RegisterNode{Node: state.Node{Name: nodeName(i), Role: naming.RoleSL, PeerID: nodeName(i)}, TokenHash: strings.Repeat("1", 64)})
				b.apply(state.OpenSession{
					Session: id(i), Contract: contractName, Node: nodeName(i), SyncFrequency: 16, Weight: 1, ExpectedPeers: tt.expected,
					Terms: state.Terms{LayoutDigest: strings.Repeat("a", 64), Layout: []byte("a"), Leaves: 10, Method: "mean", MinPeers: 2},
				})
			}
			b.ready(1, 0, 1)
			if d := b.decide(); d.Command != nil || d.Waiting.Kind != tt.wait {
				t.Fatalf("before the leave: %+v, %s", d.Command, d.Waiting)
			}
			b.apply(state.LeaveNode{Node: "sl-2", TokenHash: strings.Repeat("1", 64), Reason: "stopped"})
			d := b.decide()
			plan, ok := d.Command.(state.PlanRound)
			if !ok || nodes(plan.Participants) != "sl-0 sl-1" {
				t.Errorf("after the leave: %+v, %s", d.Command, d.Waiting)
			}
		})
	}
}

func nodeName(i int) string { return "sl-" + string(rune('0'+i)) }
