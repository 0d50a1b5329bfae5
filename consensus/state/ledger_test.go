package state_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/naming"
)

// chained applies commands and returns the last state, the ledger's lines and the kinds of their records.
func chained(t *testing.T, commands ...state.Command) (s *state.State, lines [][]byte, kinds []string) {
	t.Helper()
	s = state.New()
	head := ledger.Head{}
	for i, c := range commands {
		next, result, err := s.Apply(viaLog(t, c))
		if err != nil {
			t.Fatalf("command %d %s: %v", i, c.Type(), err)
		}
		for _, line := range result.Records {
			if head, err = ledger.Follow(head, line); err != nil {
				t.Fatalf("command %d %s: %v", i, c.Type(), err)
			}
			r, _, err := ledger.Parse(line)
			if err != nil {
				t.Fatalf("command %d %s: %v", i, c.Type(), err)
			}
			lines, kinds = append(lines, line), append(kinds, r.Kind)
		}
		if got := next.LedgerHead(); got != head {
			t.Fatalf("command %d %s: the state's head is %+v, the records' %+v", i, c.Type(), got, head)
		}
		if err := state.Check(next); err != nil {
			t.Fatalf("command %d %s: %v", i, c.Type(), err)
		}
		s = next
	}
	return s, lines, kinds
}

func proven(name string) state.RegisterNode {
	return state.RegisterNode{
		Node:      state.Node{Name: name, Role: naming.RoleSL, SPIFFEID: "spiffe://a.example/swarm/sl", PeerID: "key-" + name, Host: name},
		TokenHash: hexOf("ab", 64), AtMS: 5, Signature: []byte("signed"), Chain: [][]byte{[]byte("leaf")},
	}
}

// trained is a history with a record of each kind but one.
func trained() []state.Command {
	open := func(session, node string) state.OpenSession {
		return state.OpenSession{
			Session: hexOf(session, 32), Contract: "study", Node: node, Terms: terms("a", 2), SyncFrequency: 10, Weight: 7, AtMS: 6,
		}
	}
	parts := []state.Participant{
		{Session: hexOf("1", 32), Node: "sl-0", Weight: 1, ShardLeaves: terms("a", 2).Leaves},
		{Session: hexOf("2", 32), Node: "sl-1", Weight: 3, ShardFirst: terms("a", 2).Leaves},
	}
	return []state.Command{
		state.InitSwarm{SwarmID: "swarm-1", AtMS: 1},
		state.BundleOf("a.example", [][]byte{{2}, {1}, {2}}, 2),
		proven("sl-0"), proven("sl-1"), proven("sl-2"),
		proven("sl-0"), // registers again: nothing new is proven
		open("1", "sl-0"), open("2", "sl-1"),
		state.PlanRound{Contract: "study", Run: 1, Round: 1, Attempt: 1, Participants: parts, AtMS: 7},
		state.BanNode{PeerID: "key-sl-2", By: "spiffe://a.example/swarm/swci", AtMS: 8},
		state.CommitRound{
			Contract: "study", Run: 1, Round: 1, Attempt: 1, Digest: hexOf("d", 64), NextInterval: 1, AtMS: 9,
			ShardDigests: []string{hexOf("e", 64), hexOf("f", 64)}, Signatures: [][]byte{{1}, {2}}, StateDigest: hexOf("c", 64),
		},
		state.LoseModel{Contract: "study", Run: 1, Round: 1, Digest: hexOf("d", 64), AtMS: 10},
		state.ResetContract{Contract: "study", Run: 1, Force: true, AtMS: 11},
		state.UnbanNode{PeerID: "key-sl-2", AtMS: 12},
		state.ForgetNode{Node: "sl-2", AtMS: 13},
		state.BundleOf("a.example", [][]byte{{1}, {2}}, 14), // the same
		state.BundleOf("a.example", [][]byte{{3}}, 15),
	}
}

func TestRecordsOfAHistory(t *testing.T) {
	s, lines, kinds := chained(t, trained()...)
	want := []string{
		"swarm", "bundle", "registration", "registration", "registration", "ban", "round", "lost_model", "reset", "unban", "forget", "bundle",
	}
	if d := cmp.Diff(want, kinds); d != "" {
		t.Fatalf("records differ (-want +got):\n%s", d)
	}
	if s.Nodes["sl-1"].Recorded != 4 {
		t.Errorf("sl-1's registration is record %d, want 4", s.Nodes["sl-1"].Recorded)
	}
	_, body, err := ledger.Parse(lines[6])
	if err != nil {
		t.Fatal(err)
	}
	round, _ := body.(ledger.Round)
	if round.Witnessed.Length != 5 || round.Witnessed.Hash != ledger.Hash(lines[4]) {
		t.Errorf("the round is planned on %+v, want the head before the ban", round.Witnessed)
	}
	if len(round.Participants) != 2 || round.Participants[1].Weight != 3 || round.Participants[1].PeerID != "key-sl-1" ||
		string(round.Participants[1].Signature) != "\x02" || round.State != hexOf("c", 64) || len(round.Shards) != 2 {
		t.Errorf("the round's record is %+v", round)
	}
	if s.Contracts["study"].Committed != nil {
		t.Error("the reset left a model")
	}
}

// TestOldLogsHaveNoLedger: servers that replay a log of an earlier version from its start and those that begin with its
// snapshot must agree, so nothing is recorded before a command says so.
func TestOldLogsHaveNoLedger(t *testing.T) {
	old := trained()
	old = append(old[:1:1], old[2:len(old)-2]...)
	s, lines, _ := chained(t, old...)
	if s.Ledger != nil || len(lines) != 0 {
		t.Fatalf("a log without trust bundles made %d records", len(lines))
	}
	_, _, kinds := chained(t, append(old, state.BundleOf("a.example", [][]byte{{1}}, 20), proven("sl-0"))...)
	if d := cmp.Diff([]string{"swarm", "bundle", "registration"}, kinds); d != "" {
		t.Errorf("the late ledger differs (-want +got):\n%s", d)
	}
}

func TestRegistrationsAreRecordedAnew(t *testing.T) {
	own := proven("sl-0")
	own.Node.SPIFFEID += "/sl-0"
	bare := proven("sl-1")
	bare.Signature, bare.Chain = nil, nil
	forged := proven("sl-2")
	forged.Node.Recorded = 99
	s, _, kinds := chained(t, state.InitSwarm{SwarmID: "s", AtMS: 1}, state.BundleOf("a.example", [][]byte{{1}}, 2), proven("sl-0"), own, bare, forged)
	if d := cmp.Diff([]string{"swarm", "bundle", "registration", "registration", "registration"}, kinds); d != "" {
		t.Errorf("records differ (-want +got):\n%s", d)
	}
	if s.Nodes["sl-0"].Recorded != 4 || s.Nodes["sl-1"].Recorded != 0 || s.Nodes["sl-2"].Recorded != 5 {
		t.Errorf("recorded as %d, %d and %d", s.Nodes["sl-0"].Recorded, s.Nodes["sl-1"].Recorded, s.Nodes["sl-2"].Recorded)
	}
}

func TestLedgerBounds(t *testing.T) {
	long := proven("sl-0")
	long.Chain = [][]byte{make([]byte, state.MaxChainBytes+1)}
	many := proven("sl-0")
	many.Chain = [][]byte{{1}, {1}, {1}, {1}, {1}}
	half := proven("sl-0")
	half.Chain = nil
	for name, c := range map[string]state.Command{
		"long chain": long, "many certificates": many, "signature without a chain": half,
		"empty bundle": state.BundleOf("a.example", nil, 1), "huge bundle": state.BundleOf("a.example", [][]byte{make([]byte, state.MaxBundleBytes+1)}, 1),
		"no domain":     state.BundleOf("", [][]byte{{1}}, 1),
		"bad shard":     state.CommitRound{Contract: "study", Run: 1, Round: 1, Attempt: 1, Digest: hexOf("d", 64), NextInterval: 1, ShardDigests: []string{"x"}},
		"bad shards":    state.CommitRound{Contract: "study", Run: 1, Round: 1, Attempt: 1, Digest: hexOf("d", 64), NextInterval: 1, ShardsDigest: "x"},
		"bad state":     state.CommitRound{Contract: "study", Run: 1, Round: 1, Attempt: 1, Digest: hexOf("d", 64), NextInterval: 1, StateDigest: "x"},
		"bad signature": state.CommitRound{Contract: "study", Run: 1, Round: 1, Attempt: 1, Digest: hexOf("d", 64), NextInterval: 1, Signatures: [][]byte{make([]byte, state.MaxSignature+1)}},
	} {
		if _, _, err := state.New().Apply(c); state.ReasonOf(err) != state.ReasonBadCommand {
			t.Errorf("%s: got %v, want %s", name, err, state.ReasonBadCommand)
		}
	}
}
