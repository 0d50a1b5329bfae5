package state_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/ledger/audit"
	"github.com/swarmd/swarmd/consensus/state"
)

// TestOldLogsRecordProgramsAtOnce, each with its session and once, and nothing of a session whose SL says nothing.
func TestOldLogsRecordProgramsAtOnce(t *testing.T) {
	open := state.OpenSession{
		Session: hexOf("7", 32), Contract: "other", Node: "sl-0", Terms: terms("a", 2), SyncFrequency: 10, Weight: 7, AtMS: 20, Program: "train.py sha256:00",
	}
	silent := open
	silent.Session, silent.Node, silent.Program = hexOf("8", 32), "sl-1", ""
	s, lines, kinds := chained(t, append(trained(), open, open, silent)...)
	n := len(kinds)
	if d := cmp.Diff([]string{"bundle", "program"}, kinds[n-2:]); d != "" {
		t.Fatalf("records differ (-want +got):\n%s", d)
	}
	want := ledger.Body(ledger.Program{Contract: "other", Run: 1, Session: open.Session, Node: "sl-0", PeerID: "key-sl-0", Program: "train.py sha256:00"})
	if _, body, err := ledger.Parse(lines[n-1]); err != nil || !cmp.Equal(body, want) {
		t.Errorf("recorded %+v, %v", body, err)
	}
	for _, bad := range []string{strings.Repeat("a", state.MaxProgram+1), "two\nlines"} {
		c := open
		c.Session, c.Program = hexOf("9", 32), bad
		if _, _, err := s.Apply(c); state.ReasonOf(err) != state.ReasonBadCommand {
			t.Errorf("%.20q: %v", bad, err)
		}
	}
}

// merging are commands that open sessions of sl-0 for a program, one after the other, and merge the last one's model with sl-1's.
func merging(run, round uint64, program string, opened ...string) (commands []state.Command) {
	for _, id := range opened {
		commands = append(commands, state.OpenSession{
			Session: hexOf(id, 32), Contract: "study", Node: "sl-0", Terms: terms("a", 2), SyncFrequency: 10, Weight: 7, AtMS: 20, Program: program, KeepProgram: true,
		})
	}
	return append(commands, state.PlanRound{
		Contract: "study", Run: run, Round: round, Attempt: 1, AtMS: 21, Participants: []state.Participant{
			{Session: hexOf(opened[len(opened)-1], 32), Node: "sl-0", Weight: 1, Seq: round, ShardLeaves: terms("a", 2).Leaves},
			{Session: hexOf(fmt.Sprintf("f%d", run), 32), Node: "sl-1", Weight: 1, Seq: round, ShardFirst: terms("a", 2).Leaves},
		},
	}, state.CommitRound{
		Contract: "study", Run: run, Round: round, Attempt: 1, Digest: hexOf(fmt.Sprint(round), 64), NextInterval: 1, AtMS: 22,
		ShardDigests: []string{hexOf("e", 64), hexOf("f", 64)}, Signatures: [][]byte{{1}, {2}},
	})
}

// beside opens the session of sl-1, whose SL says nothing.
func beside(run uint64) state.Command {
	return state.OpenSession{
		Session: hexOf(fmt.Sprintf("f%d", run), 32), Contract: "study", Node: "sl-1", Terms: terms("a", 2), SyncFrequency: 10, Weight: 7, AtMS: 19,
	}
}

// TestProgramsAreRecordedWithRounds, once for each session and none of sessions that merge nothing, so that opening sessions makes no ledger
// grow; and whoever verifies the ledger finds of every round which programs contributed.
func TestProgramsAreRecordedWithRounds(t *testing.T) {
	hundred := func(first int) (ids []string) {
		for i := range 100 {
			ids = append(ids, fmt.Sprintf("%x", first+i))
		}
		return ids
	}
	commands := []state.Command{state.InitSwarm{SwarmID: "s", AtMS: 1}, state.BundleOf("a.example", [][]byte{{1}}, 2), proven("sl-0"), proven("sl-1"), beside(1)}
	commands = append(commands, merging(1, 1, "one.py", hundred(1000)...)...)
	commands = append(commands, merging(1, 2, "one.py", "44b")...) // the last of these: it goes on, and opening it again is no news
	commands = append(commands, merging(1, 3, "two.py", hundred(2000)...)...)
	commands = append(commands, state.ResetContract{Contract: "study", Run: 1, Force: true, AtMS: 30}, beside(2))
	commands = append(commands, merging(2, 1, "two.py", hundred(3000)...)...)
	s, lines, kinds := chained(t, commands...)
	want := []string{"swarm", "bundle", "registration", "registration", "program", "round", "round", "program", "round", "reset", "program", "round"}
	if d := cmp.Diff(want, kinds); d != "" {
		t.Fatalf("records differ (-want +got):\n%s", d)
	}
	record := ledger.Body(ledger.Program{Contract: "study", Run: 1, Session: hexOf("44b", 32), Node: "sl-0", PeerID: "key-sl-0", Program: "one.py"})
	if _, body, err := ledger.Parse(lines[4]); err != nil || !cmp.Equal(body, record) {
		t.Errorf("recorded %+v, %v", body, err)
	}
	for _, x := range s.Contracts["study"].Sessions {
		if x.Program != "" {
			t.Errorf("session %s, %s, keeps %q for ever", x.ID, x.State, x.Program)
		}
	}
	r, err := audit.Verify(bytes.NewReader(bytes.Join(lines, nil)), audit.Options{Unsigned: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range r.Problems {
		if p.Kind != "bundle" { // its certificate is none
			t.Error(p)
		}
	}
	for _, tt := range []struct {
		run, round uint64
		want       []string // programs of the model of that round, and of those that it goes back to
	}{{1, 1, []string{"one.py"}}, {1, 2, []string{"one.py"}}, {1, 3, []string{"one.py", "two.py"}}, {2, 1, []string{"two.py"}}} {
		for _, c := range r.RunOf("study", tt.run).History(tt.round).Contributors {
			want := tt.want
			if c.Node == "sl-1" {
				want = nil
			}
			if !slices.Equal(c.Programs, want) {
				t.Errorf("run %d round %d: %s ran %q, want %q", tt.run, tt.round, c.Node, c.Programs, want)
			}
		}
	}
}

// TestProgramOfASessionThatEnds: what ended in the middle of a merge that was committed is recorded, and what ended before is forgotten.
func TestProgramOfASessionThatEnds(t *testing.T) {
	merge := merging(1, 1, "one.py", "1")
	end := state.EndSession{Session: hexOf("1", 32), Contract: "study", Run: 1, Reason: "failed: killed", AtMS: 22}
	begun := []state.Command{state.InitSwarm{SwarmID: "s", AtMS: 1}, state.BundleOf("a.example", [][]byte{{1}}, 2), proven("sl-0"), proven("sl-1"), beside(1)}
	if _, _, kinds := chained(t, append(slices.Clone(begun), merge[0], merge[1], end, merge[2])...); kinds[len(kinds)-2] != "program" {
		t.Errorf("records are %v", kinds)
	}
	if s, _, _ := chained(t, append(slices.Clone(begun), merge[0], end)...); s.Contracts["study"].Sessions[end.Session].Program != "" {
		t.Error("an ended session keeps its program")
	}
}

// TestProgramsOfALateLedger: what merges before there is a ledger is recorded with its first round after that.
func TestProgramsOfALateLedger(t *testing.T) {
	bare := func(c state.RegisterNode) state.RegisterNode {
		c.Signature, c.Chain = nil, nil
		return c
	}
	commands := []state.Command{state.InitSwarm{SwarmID: "s", AtMS: 1}, bare(proven("sl-0")), bare(proven("sl-1")), beside(1)}
	commands = append(commands, merging(1, 1, "one.py", "1")...)
	commands = append(commands, state.BundleOf("a.example", [][]byte{{1}}, 25))
	commands = append(commands, merging(1, 2, "one.py", "1")...)
	if _, _, kinds := chained(t, commands...); !slices.Equal(kinds, []string{"swarm", "bundle", "program", "round"}) {
		t.Errorf("records are %v", kinds)
	}
}

// TestProgramsOfAnAdoptedRound: sessions that were opened again after a backup was restored are recorded with the round that they prove.
func TestProgramsOfAnAdoptedRound(t *testing.T) {
	s := apply(t, restored(t), state.OpenSession{
		Session: hexOf("9", 32), Contract: "study", Node: "sl-2", Terms: terms("a", 2), SyncFrequency: 10, Weight: 7, AtMS: 20, Program: "one.py", KeepProgram: true,
	})
	next, result, err := s.Apply(adoption(s, "sl-0", "sl-2", "sl-4"))
	if err != nil || len(result.Records) != 2 {
		t.Fatalf("%d records, %v", len(result.Records), err)
	}
	want := ledger.Body(ledger.Program{Contract: "study", Run: 1, Session: hexOf("9", 32), Node: "sl-2", PeerID: "key-sl-2", Program: "one.py"})
	if _, body, err := ledger.Parse(result.Records[0]); err != nil || !cmp.Equal(body, want) {
		t.Errorf("recorded %+v, %v", body, err)
	}
	if x := next.Contracts["study"].Sessions[hexOf("9", 32)]; x.Program != "" {
		t.Errorf("%q would be recorded again", x.Program)
	}
}
