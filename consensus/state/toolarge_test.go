package state_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/naming"
)

// crowd returns a swarm with a ledger whose contract "study" has n sessions, and the plan of all of them.
func crowd(t *testing.T, n int, key func(i int) string) (*state.State, state.PlanRound) {
	t.Helper()
	s := mustApply(t, state.New(), state.InitSwarm{SwarmID: "swarm-1", AtMS: 1})
	s = mustApply(t, s, state.BundleOf("a.example", [][]byte{{1}}, 2))
	plan := state.PlanRound{Contract: "study", Run: 1, Round: 1, Attempt: 1, AtMS: 4}
	for i := range n {
		name := fmt.Sprintf("%063d", i)
		s = mustApply(t, s, state.RegisterNode{Node: state.Node{Name: name, Role: naming.RoleSL, PeerID: key(i)}, TokenHash: hexOf("ab", 64), AtMS: 3})
		s = mustApply(t, s, state.OpenSession{
			Session: fmt.Sprintf("%032x", i), Contract: "study", Node: name, Terms: terms("a", 2), SyncFrequency: 1, Weight: 1, AtMS: 3,
		})
		plan.Participants = append(plan.Participants, state.Participant{
			Session: fmt.Sprintf("%032x", i), Node: name, Weight: state.MaxWeight, Seq: 1, ShardFirst: terms("a", 2).Leaves,
			FactorBits: 0x3ff0000000000000 - 12345, NormBits: 0x7fefffffffffffff,
		})
	}
	plan.Participants[0].ShardFirst, plan.Participants[0].ShardLeaves = 0, terms("a", 2).Leaves
	return s, plan
}

// committed is the longest word on a round of n participants.
func committed(n int) state.CommitRound {
	c := state.CommitRound{
		Contract: "study", Run: 1, Round: 1, Attempt: 1, Digest: hexOf("d", 64), StateDigest: hexOf("c", 64), NextInterval: 1, AtMS: 1 << 62,
	}
	for range n {
		c.ShardDigests = append(c.ShardDigests, hexOf("e", 64))
		c.Signatures = append(c.Signatures, make([]byte, state.MaxSignature))
	}
	return c
}

// withLongKeys is a state as an earlier version took it: peer IDs of 500 characters that JSON writes in six bytes each.
func withLongKeys(s *state.State) *state.State {
	old := *s
	old.Nodes = map[string]*state.Node{}
	for name, n := range s.Nodes {
		long := *n
		long.PeerID = strings.Repeat("<", 490) + fmt.Sprint(len(old.Nodes))
		old.Nodes[name] = &long
	}
	return &old
}

// TestRecordThatIsTooLongIsARejection: a command whose record is longer than one may be must not stop who applies it.
func TestRecordThatIsTooLongIsARejection(t *testing.T) {
	const n = 700
	s, plan := crowd(t, n, func(i int) string { return fmt.Sprintf("key-%d", i) })
	late := withLongKeys(mustApply(t, s, plan))
	if next, _, err := late.Apply(committed(n)); state.ReasonOf(err) != state.ReasonTooLarge || next != late {
		t.Errorf("commit: %v", err)
	}
	early := withLongKeys(s)
	if next, _, err := early.Apply(plan); state.ReasonOf(err) != state.ReasonTooLarge || next != early {
		t.Errorf("a round that could never be committed was planned: %v", err)
	}
}

// TestLargestRoundCanBeRecorded: whatever is planned can be committed.
func TestLargestRoundCanBeRecorded(t *testing.T) {
	s, plan := crowd(t, state.MaxParticipants, func(i int) string { return fmt.Sprintf("%0128d", i) })
	late := mustApply(t, s, state.RegisterNode{Node: state.Node{Name: "late", Role: naming.RoleSL, PeerID: "k"}, TokenHash: hexOf("ab", 64), AtMS: 3})
	_, _, err := late.Apply(state.OpenSession{
		Session: hexOf("ffff", 32), Contract: "study", Node: "late", Terms: terms("a", 2), SyncFrequency: 1, Weight: 1, AtMS: 3,
	})
	if state.ReasonOf(err) != state.ReasonBadCommand {
		t.Errorf("session %d was opened: %v", state.MaxParticipants+1, err)
	}
	s, result, err := mustApply(t, s, plan).Apply(committed(state.MaxParticipants))
	if err != nil || len(result.Records) != 1 {
		t.Fatalf("%d records, %v", len(result.Records), err)
	}
	if _, _, err := ledger.Parse(result.Records[0]); err != nil || len(result.Records[0]) > ledger.MaxRecord {
		t.Errorf("record of %d bytes: %v", len(result.Records[0]), err)
	}
	if s.Contracts["study"].Round() != 1 {
		t.Error("the round is not committed")
	}
}

func TestRegistrationFitsKeyAndRole(t *testing.T) {
	for name, tc := range map[string]struct {
		role, key, spiffeID string
		taken               bool
	}{
		"escapes in the key":    {naming.RoleSL, strings.Repeat("<", 100), "", false},
		"a long key":            {naming.RoleSL, strings.Repeat("k", 129), "", false},
		"a key":                 {naming.RoleSL, "12D3KooWEyoppNCUx8Yx66oV9fJnriXwCcXwDDUA2kj6vnc6iDEp", "", true},
		"SL with an SN's SVID":  {naming.RoleSL, "k", "spiffe://a.example/swarm/sn/x", false},
		"SL with an SNs' SVID":  {naming.RoleSL, "k", "spiffe://a.example/swarm/sn", false},
		"SN with an SL's SVID":  {naming.RoleSN, "k", "spiffe://a.example/swarm/sl/x", false},
		"a role that is longer": {naming.RoleSL, "k", "spiffe://a.example/swarm/slx", false},
		"SL with its SVID":      {naming.RoleSL, "k", "spiffe://a.example/swarm/sl/x", true},
		"no SPIFFE ID":          {naming.RoleSL, "k", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := state.New()
			next, _, err := s.Apply(state.RegisterNode{
				Node: state.Node{Name: "x", Role: tc.role, PeerID: tc.key, SPIFFEID: tc.spiffeID}, TokenHash: hexOf("1", 64),
			})
			if (err == nil) != tc.taken || !tc.taken && (state.ReasonOf(err) != state.ReasonBadCommand || next != s) {
				t.Errorf("got %v", err)
			}
		})
	}
}
