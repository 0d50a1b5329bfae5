package state_test

import (
	"fmt"
	"testing"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/naming"
)

// TestPlansWithWitnesses: a plan has the rule's number and tells parties apart, as the round's record does, and there is none with
// fewer parties.
func TestPlansWithWitnesses(t *testing.T) {
	s := state.New()
	s = mustApply(t, s, state.InitSwarm{SwarmID: "swarm-1"})
	s = mustApply(t, s, state.BundleOf("td", [][]byte{{1}}, 1))
	s = mustApply(t, s, state.CreateContract{Contract: "study", Rules: state.Rules{Witnesses: 2}})
	var parts []state.Participant
	for i, path := range []string{"/swarm/sl", "/swarm/sl/sl-1", "/swarm/sl/sl-1"} {
		node, session := fmt.Sprintf("sl-%d", i), hexOf(fmt.Sprint(i+1), 32)
		s = mustApply(t, s, state.RegisterNode{
			Node: state.Node{Name: node, Role: naming.RoleSL, PeerID: "key" + node, SPIFFEID: "spiffe://td" + path}, TokenHash: hexOf("1", 64), AtMS: 1,
		})
		s = mustApply(t, s, state.OpenSession{Session: session, Contract: "study", Node: node, Terms: terms("a", 1), SyncFrequency: 1, Weight: 1, AtMS: 1})
		parts = append(parts, state.Participant{Session: session, Node: node, Weight: 1, Seq: 1})
	}
	plan := func(parts []state.Participant) (state.PlanRound, error) {
		allotted, err := s.Allot(s.Contracts["study"], parts)
		return state.PlanRound{Contract: "study", Run: 1, Round: 1, Attempt: 1, Participants: allotted, Allotted: true}, err
	}
	if _, err := plan(parts[1:]); state.ReasonOf(err) != state.ReasonWitnesses {
		t.Errorf("two nodes of one party: %v", err)
	}
	two := state.PlanRound{Contract: "study", Run: 1, Round: 1, Attempt: 1, Participants: parts[1:], Allotted: true}
	half := s.Contracts["study"].Terms.Leaves / 2
	two.Participants[0].ShardLeaves, two.Participants[1].ShardFirst, two.Participants[1].ShardLeaves = s.Contracts["study"].Terms.Leaves-half, s.Contracts["study"].Terms.Leaves-half, half
	if next, _, err := s.Apply(two); state.ReasonOf(err) != state.ReasonWitnesses || next != s {
		t.Errorf("a plan of one party: %v", err)
	}
	loose := state.PlanRound{Contract: "study", Run: 1, Round: 1, Attempt: 1, Participants: []state.Participant{parts[0]}}
	loose.Participants[0].ShardLeaves = s.Contracts["study"].Terms.Leaves
	if next, _, err := s.Apply(loose); state.ReasonOf(err) != state.ReasonBadShards || next != s {
		t.Errorf("a plan as of before allotment: %v", err)
	}
	parts[0].ShardLeaves = 0
	three, err := plan(parts)
	if err != nil {
		t.Fatal(err)
	}
	three.Participants[0].SPIFFEID = "spiffe://td/swarm/sl/another" // is for Apply to say
	s = mustApply(t, s, three)
	p := s.Contracts["study"].Plan
	if p.Witnesses != 2 || p.Participants[0].SPIFFEID != "" || p.Participants[1].SPIFFEID != "spiffe://td/swarm/sl/sl-1" {
		t.Errorf("planned %+v", p)
	}
	var units []string
	for _, part := range p.Participants {
		units = append(units, s.Unit(part))
	}
	if got, want := fmt.Sprint(units), "[keysl-0 spiffe://td/swarm/sl/sl-1 spiffe://td/swarm/sl/sl-1]"; got != want {
		t.Errorf("units %s, want %s", got, want)
	}
	snapshot, err := state.EncodeSnapshot(s)
	if err != nil {
		t.Fatal(err)
	}
	again, err := state.DecodeSnapshot(snapshot)
	if err != nil || again.Contracts["study"].Plan.Witnesses != 2 {
		t.Errorf("after a snapshot: %v", err)
	}
	_, result, err := s.Apply(state.CommitRound{Contract: "study", Run: 1, Round: 1, Attempt: 1, Digest: hexOf("ab", 64), NextInterval: 1})
	if err != nil || len(result.Records) != 1 {
		t.Fatalf("%v: %d records", err, len(result.Records))
	}
	_, body, err := ledger.Parse(result.Records[0])
	if r, ok := body.(ledger.Round); err != nil || !ok || r.Witnesses != 2 || r.Participants[0].SPIFFEID != "" || r.Participants[1].SPIFFEID != "spiffe://td/swarm/sl/sl-1" {
		t.Errorf("%v: recorded %+v", err, body)
	}
}
