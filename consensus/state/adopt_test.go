package state_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
)

// restored is a swarm of five SLs whose contract was restored at round 1, which a plan of the next round was made for.
func restored(t *testing.T) *state.State {
	t.Helper()
	leaves := terms("a", 2).Leaves
	var parts []state.Participant
	commands := []state.Command{state.InitSwarm{SwarmID: "swarm-1", AtMS: 1}, state.BundleOf("a.example", [][]byte{{1}}, 2)}
	for i, name := range []string{"sl-0", "sl-1", "sl-2", "sl-3", "sl-4"} {
		session := hexOf(string(rune('1'+i)), 32)
		commands = append(commands, proven(name), state.OpenSession{
			Session: session, Contract: "study", Node: name, Terms: terms("a", 2), SyncFrequency: 10, Weight: 7, KeepKey: true, AtMS: 6,
		})
		p := state.Participant{Session: session, Node: name, Weight: 1, Seq: 1, ShardFirst: leaves}
		if i == 0 {
			p.ShardFirst, p.ShardLeaves = 0, leaves
		}
		parts = append(parts, p)
	}
	plan := func(round uint64) state.PlanRound {
		return state.PlanRound{Contract: "study", Run: 1, Round: round, Attempt: 1, Participants: parts, AtMS: 7}
	}
	commands = append(commands, proven("sl-5"), plan(1),
		state.CommitRound{Contract: "study", Run: 1, Round: 1, Attempt: 1, Digest: hexOf("d", 64), NextInterval: 1, AtMS: 9}, plan(2))
	s, _, _ := chained(t, commands...)
	return s
}

// adoption of round 71 as 72, signed by these nodes.
func adoption(s *state.State, signers ...string) state.AdoptRound {
	c := s.Contracts["study"]
	a := state.AdoptRound{Contract: "study", Run: 1, Last: 1, Round: 72, NextInterval: 3, AtMS: 50, Proof: ledger.Round{
		Contract: "study", Run: 1, Round: 71, Attempt: 2, Method: c.Terms.Method, Layout: c.Terms.LayoutDigest, Model: hexOf("e", 64),
		Shards: []string{hexOf("1", 64)}, Witnessed: ledger.Witness{Hash: hexOf("f", 64)},
	}}
	for i, x := range c.Active() {
		p := ledger.Participant{Node: x.Node, PeerID: s.Nodes[x.Node].PeerID, Session: x.ID, Weight: 1, ShardFirst: c.Terms.Leaves}
		if i == 0 {
			p.ShardFirst, p.ShardLeaves = 0, c.Terms.Leaves
		}
		if slices.Contains(signers, x.Node) {
			p.Signature = []byte("signed by " + x.Node)
		}
		a.Proof.Participants = append(a.Proof.Participants, p)
	}
	return a
}

// TestAdoptedRound: most of the SLs prove a round that the state was restored from before. It goes on from that, under a number of its
// own, and the ledger keeps what was signed.
func TestAdoptedRound(t *testing.T) {
	s := restored(t)
	a := adoption(s, "sl-0", "sl-2", "sl-4")
	next, result, err := s.Apply(a)
	if err != nil || !result.Changed {
		t.Fatalf("%+v, %v", result, err)
	}
	if err := state.Check(next); err != nil {
		t.Fatal(err)
	}
	c := next.Contracts["study"]
	want := &state.CommittedRound{Round: 72, Digest: hexOf("e", 64), Participants: []string{"sl-0", "sl-2", "sl-4"}, NextInterval: 3, CommittedMS: 50, PlannedMS: 50}
	if d := cmp.Diff(want, c.Committed); d != "" {
		t.Errorf("committed (-want +got):\n%s", d)
	}
	if c.Plan != nil || c.Attempt != 0 || !strings.Contains(c.PendingReason, "the model of round 71, which 3 nodes have signed, as round 72") {
		t.Errorf("plan %+v, attempt %d, reason %q", c.Plan, c.Attempt, c.PendingReason)
	}
	if len(result.Records) != 1 {
		t.Fatalf("%d records", len(result.Records))
	}
	_, body, err := ledger.Parse(result.Records[0])
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(ledger.AdoptedRound{Round: 72, Last: 1, Proof: a.Proof}, body); d != "" {
		t.Errorf("record (-want +got):\n%s", d)
	}
	if _, again, err := next.Apply(a); err != nil || again.Changed {
		t.Errorf("the same once more: %+v, %v", again, err)
	}
	back, err := state.DecodeSnapshot([]byte(encode(t, next)))
	if err != nil || back.Contracts["study"].Adopted.Proven != 71 {
		t.Errorf("read back: %v", err)
	}
	if _, _, err := next.Apply(state.LoseModel{Contract: "study", Run: 1, Round: 72, Digest: hexOf("e", 64), AtMS: 51}); err != nil {
		t.Errorf("what was adopted is lost: %v", err)
	}
	lost := apply(t, next, state.LoseModel{Contract: "study", Run: 1, Round: 72, Digest: hexOf("e", 64), AtMS: 51})
	if r := lost.Contracts["study"].Committed; r.Round != 73 || r.Digest != "" {
		t.Errorf("after the loss: %+v", r)
	}
}

// TestUnprovenRounds: what a minority says, what is of others than it names, and what does not fit the contract proves nothing.
func TestUnprovenRounds(t *testing.T) {
	most := []string{"sl-0", "sl-1", "sl-2"}
	for name, tt := range map[string]struct {
		signers []string
		before  []state.Command
		change  func(a *state.AdoptRound)
		want    string
	}{
		"a minority":               {signers: []string{"sl-0", "sl-1"}, want: "2 of its 5 participants have signed"},
		"nobody":                   {want: "0 of its 5 participants have signed"},
		"a minority among itself":  {signers: []string{"sl-0", "sl-1"}, change: func(a *state.AdoptRound) { a.Proof.Participants = a.Proof.Participants[:2] }, want: "2 have signed, and 5 nodes with a session are alive"},
		"an invented key":          {signers: most, change: func(a *state.AdoptRound) { a.Proof.Participants[1].PeerID = "key-x" }, want: "sl-1 has signed with a node key that is not its own"},
		"a node that nobody knows": {signers: most, change: func(a *state.AdoptRound) { a.Proof.Participants[1].Node = "sl-9" }, want: "not its own"},
		"a node without session":   {signers: most, change: func(a *state.AdoptRound) { p := &a.Proof.Participants[1]; p.Node, p.PeerID = "sl-5", "key-sl-5" }, want: "sl-5 has signed and has no session"},
		"a banned key":             {signers: most, before: []state.Command{state.BanNode{PeerID: "key-sl-1", By: "spiffe://a.example/swarm/swci", AtMS: 20}}, want: "or is banned"},
		"one counts twice":         {signers: most, change: func(a *state.AdoptRound) { a.Proof.Participants[3] = a.Proof.Participants[0] }, want: "takes part twice"},
		"another run":              {signers: most, change: func(a *state.AdoptRound) { a.Run, a.Proof.Run = 2, 2 }, want: "in run 1, not 2"},
		"a proof of another run":   {signers: most, change: func(a *state.AdoptRound) { a.Proof.Run = 2 }, want: "can't follow"},
		"another contract":         {signers: most, change: func(a *state.AdoptRound) { a.Proof.Contract = "other" }, want: "can't follow"},
		"another method":           {signers: most, change: func(a *state.AdoptRound) { a.Proof.Method = "krum(f=1)" }, want: "the contract's are"},
		"another layout":           {signers: most, change: func(a *state.AdoptRound) { a.Proof.Layout = hexOf("9", 64) }, want: "the contract's are"},
		"a part of the model":      {signers: most, change: func(a *state.AdoptRound) { a.Proof.Participants[0].ShardLeaves-- }, want: "own 6 of 7 leaves"},
		"no weight": {signers: most, change: func(a *state.AdoptRound) {
			for i := range a.Proof.Participants {
				a.Proof.Participants[i].Weight = 0
			}
		}, want: "the weight 0"},
		"an optimiser's state":      {signers: most, change: func(a *state.AdoptRound) { a.Proof.State = hexOf("8", 64) }, want: "optimiser's state"},
		"an old round":              {signers: most, change: func(a *state.AdoptRound) { a.Proof.Round = 1 }, want: "can't follow"},
		"no number of its own":      {signers: most, change: func(a *state.AdoptRound) { a.Round = 71 }, want: "can't follow"},
		"a number without measure":  {signers: most, change: func(a *state.AdoptRound) { a.Round = 1 << 40 }, want: "can't follow"},
		"behind another last round": {signers: most, change: func(a *state.AdoptRound) { a.Last = 2 }, want: "is at round 1, not 2"},
		"no attempt":                {signers: most, change: func(a *state.AdoptRound) { a.Proof.Attempt = 0 }, want: "out of bounds"},
		"no digest":                 {signers: most, change: func(a *state.AdoptRound) { a.Proof.Model = "x" }, want: "out of bounds"},
		"a long signature":          {signers: most, change: func(a *state.AdoptRound) { a.Proof.Participants[0].Signature = make([]byte, 2000) }, want: "out of bounds"},
		"no interval":               {signers: most, change: func(a *state.AdoptRound) { a.NextInterval = 0 }, want: "interval"},
	} {
		t.Run(name, func(t *testing.T) {
			s := restored(t)
			a := adoption(s, tt.signers...)
			for _, c := range tt.before {
				s = apply(t, s, c)
			}
			if tt.change != nil {
				tt.change(&a)
			}
			next, _, err := s.Apply(a)
			if state.ReasonOf(err) == "" || !strings.Contains(err.Error(), tt.want) || next != s {
				t.Errorf("%v, want it rejected with %q", err, tt.want)
			}
		})
	}
}

// TestAdoptionKeepsRules: a node that is required for every round must have signed.
func TestAdoptionKeepsRules(t *testing.T) {
	s := restored(t)
	rules := &state.Rules{Required: []string{"sl-3"}}
	c := *s.Contracts["study"]
	c.Rules = rules
	for signer, want := range map[string]string{"sl-2": "sl-3 is required for every round and has not signed", "sl-3": ""} {
		err := c.Proves(s, adoption(s, "sl-0", "sl-1", signer).Proof)
		if got := ""; err != nil {
			if got = err.Error(); got != want {
				t.Errorf("%s: %q, want %q", signer, got, want)
			}
		} else if want != "" {
			t.Errorf("%s: it proves, want %q", signer, want)
		}
	}
}

func apply(t *testing.T, s *state.State, c state.Command) *state.State {
	t.Helper()
	next, _, err := s.Apply(c)
	if err != nil {
		t.Fatalf("%s: %v", c.Type(), err)
	}
	return next
}
