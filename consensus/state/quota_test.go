package state_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/naming"
)

// visit opens and ends a session of a node in a contract.
func visit(t *testing.T, s *state.State, n int, contract, node string) (*state.State, error) {
	t.Helper()
	o := hoarder(n, contract, node)
	o.Terms.Layout = []byte("a")
	next, _, err := s.Apply(o)
	if err != nil {
		return s, err
	}
	return mustApply(t, next, state.EndSession{Session: o.Session, Contract: contract, Run: 1, Reason: "failed"}), nil
}

// TestContractsOfOneNodeAreBounded is how one SL made all contracts that a swarm can have, so that nobody could make one again.
func TestContractsOfOneNodeAreBounded(t *testing.T) {
	s, made := applied(t, "register sl-0; register sl-1"), 0
	var err error
	for i := 0; err == nil && i < 4095; i++ {
		if s, err = visit(t, s, i, fmt.Sprintf("study-%d", i), "sl-0"); err == nil {
			made++
		}
	}
	if state.ReasonOf(err) != state.ReasonQuota || made != state.MaxContractsMade || s.UseOf("sl-0").Contracts != made {
		t.Fatalf("made %d contracts: %v", made, err)
	}
	// It may still take part in others' contracts, and the others may make some.
	if s, err = visit(t, s, 5000, "other", "sl-1"); err != nil {
		t.Fatal(err)
	}
	if s, err = visit(t, s, 5001, "other", "sl-0"); err != nil {
		t.Fatal(err)
	}
	// What an operator takes over is not its own any more; whether the rules change or not.
	s = mustApply(t, s, state.CreateContract{Contract: "study-0"})
	s = mustApply(t, s, state.CreateContract{Contract: "study-1", Rules: state.Rules{MinPeers: 3}})
	if got := s.UseOf("sl-0").Contracts; got != made-2 {
		t.Errorf("%d contracts are its own after two were taken over", got)
	}
	if err := state.Check(s); err != nil {
		t.Error(err)
	}
}

// TestEndedSessionsOfOneNodeAreBounded opens and ends sessions in few contracts, more than one node may leave behind.
func TestEndedSessionsOfOneNodeAreBounded(t *testing.T) {
	s := applied(t, "register sl-0; register sl-1")
	var err error
	if s, err = visit(t, s, 1<<20, "study-0", "sl-1"); err != nil {
		t.Fatal(err)
	}
	for i := range 4 * state.MaxEnded {
		if s, err = visit(t, s, i, fmt.Sprintf("study-%d", i%4), "sl-0"); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.UseOf("sl-0").Ended; got > state.MaxEndedOfNode || got < state.MaxEndedOfNode-4 {
		t.Errorf("%d ended sessions are kept, want %d", got, state.MaxEndedOfNode)
	}
	if c := s.Contracts["study-0"]; c.Sessions[fmt.Sprintf("%032x", 1<<20)] == nil {
		t.Error("another node's session was forgotten")
	}
	if c := s.Contracts["study-3"]; c.Sessions[fmt.Sprintf("%032x", 4*state.MaxEnded-1)] == nil {
		t.Error("the newest session was forgotten")
	}
	if err := state.Check(s); err != nil {
		t.Error(err)
	}
}

// TestLayoutsOfOneNodeAreBounded trains contracts to a model with one node, so that their layouts stay.
func TestLayoutsOfOneNodeAreBounded(t *testing.T) {
	s, trained := applied(t, "register sl-0; register sl-1"), 0
	var err error
	for i := 0; i < 64 && err == nil; i++ {
		contract := fmt.Sprintf("study-%d", i)
		o := hoarder(i, contract, "sl-0")
		o.Terms.MinPeers = 1
		var next *state.State
		if next, _, err = s.Apply(o); err != nil {
			break
		}
		trained++
		for _, line := range []string{"plan with=" + o.Session, "commit", "end " + o.Session} {
			next = mustApply(t, next, parseCommand(t, next, line+" contract="+contract, 1))
		}
		s = next
	}
	if got := s.UseOf("sl-0").Bytes; state.ReasonOf(err) != state.ReasonQuota || got > state.MaxNodeBytes || got < state.MaxNodeBytes*9/10 {
		t.Fatalf("%d bytes of %d contracts: %v", got, trained, err)
	}
	if _, err = visit(t, s, 1000, "other", "sl-1"); err != nil {
		t.Errorf("another node: %v", err)
	}
}

func TestNodesOfOneSPIFFEIDAreBounded(t *testing.T) {
	register := func(i int, id string) state.RegisterNode {
		name := fmt.Sprintf("sl-%d", i)
		return state.RegisterNode{Node: state.Node{Name: name, Role: naming.RoleSL, PeerID: "key-" + name, SPIFFEID: id}, TokenHash: hexOf("1", 64)}
	}
	const shared = "spiffe://a.example/swarm/sl"
	s := state.New()
	for i := range state.MaxNodesOfID {
		s = mustApply(t, s, register(i, shared))
	}
	if _, _, err := s.Apply(register(2000, shared)); state.ReasonOf(err) != state.ReasonQuota {
		t.Errorf("one more key: %v", err)
	}
	s = mustApply(t, s, register(0, shared))
	mustApply(t, s, register(2000, "spiffe://b.example/swarm/sl"))
}

// TestForgettingIsTheSameEverywhere has one command end sessions in many contracts at once, of a node that has as many ended ones as it
// may: which of them are forgotten must not differ from one SN to the next.
func TestForgettingIsTheSameEverywhere(t *testing.T) {
	s := applied(t, "register sl-0; register sl-1")
	var err error
	for i := range state.MaxEndedOfNode {
		if s, err = visit(t, s, i, fmt.Sprintf("study-%d", i%state.MaxSessions), "sl-0"); err != nil {
			t.Fatal(err)
		}
	}
	for i := range state.MaxSessions {
		o := hoarder(state.MaxEndedOfNode+i, fmt.Sprintf("study-%d", i), "sl-0")
		o.Terms.Layout = []byte("a")
		s = mustApply(t, s, o)
	}
	leave := state.LeaveNode{Node: "sl-0", TokenHash: s.Nodes["sl-0"].TokenHashes[0], Reason: "done", AtMS: 5}
	var first []byte
	for i := range 5 {
		b, err := state.EncodeSnapshot(mustApply(t, s, leave))
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 && !bytes.Equal(first, b) {
			t.Fatal("the same command on the same state gives two states")
		}
		first = b
	}
}
