package session

import (
	"encoding/json"
	"testing"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
)

// TestPlansKeepToOneRuleOnWitnesses: an SN that says another one later is not followed, so that no more nodes get to see what is offered,
// also after a restart. One that lied first keeps the node from the round, and not from those after it.
func TestPlansKeepToOneRuleOnWitnesses(t *testing.T) {
	plan := &swarmv1.Plan{Witnesses: 3, Participants: []*swarmv1.Participant{
		{Node: "me", PeerId: "me", ShardLeaves: 1}, {Node: "a", PeerId: "a", ShardFirst: 1, ShardLeaves: 1}, {Node: "b", PeerId: "b"},
	}}
	s := &session{offered: &offer{seq: 7}}
	holds := func(when string, rules map[uint32]bool) {
		t.Helper()
		for n, good := range rules {
			if err := s.sameWitnessesLocked(n); (err == nil) != good {
				t.Errorf("%s: %d: %v", when, n, err)
			}
		}
	}
	holds("nothing was sent", map[uint32]bool{0: true, 3: true, 8: true})
	sent, err := s.sent.After(7, plan, 0)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := json.Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	s = &session{offered: &offer{seq: 7}}
	if err := json.Unmarshal(kept, &s.sent); err != nil {
		t.Fatal(err)
	}
	holds("a plan of 3", map[uint32]bool{0: false, 3: true, 8: false})
	s.offered.seq = 8
	holds("the next contribution", map[uint32]bool{0: true, 3: true, 8: true})
}
