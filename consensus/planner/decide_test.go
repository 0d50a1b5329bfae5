package planner_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/planner/reports"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/round"
)

var update = flag.Bool("update", false, "rewrite golden files")

// table builds a state by commands and asks Decide with a clock that stands where the test puts it.
type table struct {
	t       *testing.T
	s       *state.State
	now     time.Time
	memory  planner.Memory
	reports map[string]reports.Report
}

func newTable(t *testing.T, minPeers uint32, n int) *table {
	t.Helper()
	return newTableOf(t, state.Rules{}, n, func(_ int, o *state.OpenSession) { o.Terms.MinPeers = minPeers })
}

// newTableOf has n sessions under rules; with changes the i-th before it is opened.
func newTableOf(t *testing.T, rules state.Rules, n int, with func(i int, o *state.OpenSession)) *table {
	t.Helper()
	b := &table{t: t, s: state.New(), now: time.Date(2026, 3, 1, 12, 3, 10, 0, time.UTC), reports: map[string]reports.Report{}}
	b.apply(state.CreateContract{Contract: contractName, Rules: rules})
	for i := range n {
		node := fmt.Sprintf("sl-%d", i)
		b.apply(state.RegisterNode{Node: state.Node{Name: node, Role: naming.RoleSL, PeerID: node}, TokenHash: strings.Repeat("1", 64)})
		o := state.OpenSession{
			Session: id(i), Contract: contractName, Node: node, SyncFrequency: 16, Weight: 1, AtMS: b.now.UnixMilli(),
			Terms: state.Terms{LayoutDigest: strings.Repeat("a", 64), Layout: []byte("a"), Leaves: 10, Method: "mean", MinPeers: 2},
		}
		with(i, &o)
		b.apply(o)
	}
	return b
}

func id(i int) string { return fmt.Sprintf("%032x", i+1) }

func (b *table) apply(c state.Command) {
	b.t.Helper()
	next, _, err := b.s.Apply(c)
	if err != nil {
		b.t.Fatalf("apply %s: %v", c.Type(), err)
	}
	b.s = next
}

func (b *table) contract() *state.Contract { return b.s.Contracts[contractName] }

// ready has sessions report that they wait for the next round.
func (b *table) ready(weight uint32, sessions ...int) {
	for _, i := range sessions {
		r := round.Ready{Seq: b.contract().Sessions[id(i)].LastSeq + 1, Weight: weight}
		if done := b.contract().Committed; done != nil {
			r.BaseRound, r.BaseDigest = done.Round, done.Digest
		}
		b.reports[id(i)] = reports.Report{Ready: &r, At: b.now}
	}
}

// decide decides twice from the same: the leader does so without the snapshot, and once more when somebody asks how things stand.
func (b *table) decide() planner.Decision {
	b.t.Helper()
	in := planner.Inputs{Now: b.now, View: b.s, Contract: contractName, Reports: b.reports, Memory: b.memory, Brief: true}
	brief := planner.Decide(in)
	in.Brief = false
	d := planner.Decide(in)
	plain := d.Waiting
	plain.Snapshot = planner.Snapshot{}
	if diff := cmp.Diff([]any{brief.Command, brief.Waiting}, []any{d.Command, plain}); diff != "" {
		b.t.Errorf("with the snapshot it decides something else:\n%s", diff)
	}
	b.memory = brief.Memory
	return d
}

// follow applies what Decide says until it says nothing more.
func (b *table) follow() planner.Waiting {
	b.t.Helper()
	for range 10 {
		b.train()
		d := b.decide()
		if d.Command == nil {
			return d.Waiting
		}
		b.apply(d.Command)
	}
	b.t.Fatal("Decide goes on and on")
	return planner.Waiting{}
}

// train has programs whose Sync was answered without a model train on and offer anew.
func (b *table) train() {
	for session, r := range b.reports {
		if skipped := b.contract().Sessions[session].SkippedSeq; r.Ready != nil && r.Ready.Seq <= skipped {
			again := *r.Ready
			again.Seq, r.Ready = skipped+1, &again
			b.reports[session] = r
		}
	}
}

// round has a whole round done by all sessions given.
func (b *table) round(sessions ...int) {
	b.t.Helper()
	b.ready(1, sessions...)
	b.follow()
	b.now = b.now.Add(time.Second)
	plan := b.contract().Plan
	for _, p := range plan.Participants {
		digest := fmt.Sprintf("%064x", plan.Round)
		b.reports[p.Session] = reports.Report{Done: &round.Done{Round: plan.Round, Attempt: plan.Attempt, ModelDigest: digest}}
	}
	b.follow()
	if b.contract().Round() != plan.Round {
		b.t.Fatalf("round %d was not committed", plan.Round)
	}
	b.now = b.now.Add(10 * time.Second)
}

// waitingCase leads to a state in which something is waited for.
type waitingCase struct {
	name string
	run  func(t *testing.T) *table
}

func waitingToPlan() []waitingCase {
	return []waitingCase{
		{"nobody", func(t *testing.T) *table { return newTable(t, 3, 0) }},
		{"enrolling", func(t *testing.T) *table { return newTable(t, 3, 2) }},
		{"enrolling two more", func(t *testing.T) *table { return newTable(t, 3, 1) }},
		{"one is lost", func(t *testing.T) *table {
			b := newTable(t, 3, 3)
			b.apply(state.SetLive{Node: "sl-1"})
			return b
		}},
		{"training", func(t *testing.T) *table {
			b := newTable(t, 2, 3)
			b.ready(1, 0)
			return b
		}},
		{"minPeers are ready", func(t *testing.T) *table {
			b := newTable(t, 2, 3)
			b.ready(1, 0, 2)
			return b
		}},
		{"weights", func(t *testing.T) *table {
			b := newTable(t, 2, 2)
			b.round(0, 1)
			b.ready(0, 0, 1)
			return b
		}},
		{"weights of the first round", func(t *testing.T) *table {
			b := newTable(t, 2, 2)
			b.ready(0, 0, 1)
			return b
		}},
		{"weights of the first round, others to come", func(t *testing.T) *table {
			b := newTable(t, 2, 3)
			b.ready(0, 0, 1)
			b.follow()
			b.now = b.now.Add(time.Minute)
			return b
		}},
	}
}

func waitingToCommit() []waitingCase {
	fail := func(b *table, i int, blamed, reason string) {
		plan := b.contract().Plan
		b.reports[id(i)] = reports.Report{
			Failed: &round.Failed{Round: plan.Round, Attempt: plan.Attempt, Blamed: blamed, Reason: reason}, At: b.now, FailedAt: b.now,
		}
	}
	return []waitingCase{
		{"merging", func(t *testing.T) *table {
			b := newTable(t, 2, 2)
			b.ready(1, 0, 1)
			return b
		}},
		{"failed", func(t *testing.T) *table {
			b := newTable(t, 2, 2)
			b.ready(1, 0, 1)
			b.follow()
			fail(b, 0, "sl-1", "no byte for 10 s")
			fail(b, 1, "sl-0", "no byte for 10 s")
			return b
		}},
		{"one has failed", func(t *testing.T) *table {
			b := newTable(t, 2, 2)
			b.ready(1, 0, 1)
			b.follow()
			fail(b, 0, "sl-1", "no byte for 10 s")
			return b
		}},
		{"lost while merging", func(t *testing.T) *table {
			b := newTable(t, 2, 2)
			b.ready(1, 0, 1)
			b.follow()
			b.apply(state.SetLive{Node: "sl-1"})
			return b
		}},
		{"final round", func(t *testing.T) *table {
			b := newTable(t, 2, 3)
			b.round(0, 1, 2)
			b.apply(state.CloseSession{Session: id(0), Contract: contractName, Run: 1})
			b.apply(state.CloseSession{Session: id(1), Contract: contractName, Run: 1})
			b.apply(state.SetLive{Node: "sl-0"})
			b.apply(state.SetLive{Node: "sl-1"})
			return b
		}},
		{"completed", func(t *testing.T) *table {
			b := newTable(t, 1, 1)
			b.round(0)
			b.apply(state.CloseSession{Session: id(0), Contract: contractName, Run: 1, CheckinMode: state.CheckinInactive})
			return b
		}},
	}
}

// TestWaiting holds the lines that users read.
func TestWaiting(t *testing.T) {
	var got strings.Builder
	for _, tt := range append(waitingToPlan(), waitingToCommit()...) {
		t.Run(tt.name, func(t *testing.T) {
			b := tt.run(t)
			w := b.follow()
			fmt.Fprintf(&got, "%s: [%s] %s\n", tt.name, w.Phase, w)
		})
	}
	golden(t, "testdata/waiting.golden", got.String())
}

// golden compares text with a file, which -update rewrites.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("lines differ (-want +got):\n%s", diff)
	}
}

func TestSinceStandsStillWhileTheReasonLasts(t *testing.T) {
	b := newTable(t, 3, 2)
	first := b.now
	for range 5 {
		if w := b.follow(); !w.Since.Equal(first) {
			t.Fatalf("since %s, want %s", w.Since, first)
		}
		b.now = b.now.Add(time.Second)
	}
}

func TestCheckinModes(t *testing.T) {
	tests := []struct {
		mode   string
		stale  bool // the closed session reports an older base
		weight uint32
		in     bool
	}{
		{state.CheckinSnapshot, false, 1, true},
		{state.CheckinSnapshot, true, 1, true},
		{state.CheckinActive, false, 1, true},
		{state.CheckinActive, true, 1, false},
		{state.CheckinInactive, false, 0, true},
		{state.CheckinOnce, false, 1, true},
		{state.CheckinOnce, true, 1, true},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s stale=%t", tt.mode, tt.stale), func(t *testing.T) {
			b := newTable(t, 2, 3)
			b.round(0, 1, 2)
			b.apply(state.CloseSession{Session: id(2), Contract: contractName, Run: 1, CheckinMode: tt.mode, Seq: 1})
			b.ready(1, 0, 1)
			delete(b.reports, id(2))
			if tt.stale {
				b.reports[id(2)] = reports.Report{Ready: &round.Ready{Seq: 2, Weight: 1}}
			}
			b.follow()
			b.now = b.now.Add(time.Minute)
			b.follow()
			part := b.contract().Plan.Participant(id(2))
			if (part != nil) != tt.in {
				t.Fatalf("participant %+v", part)
			}
			if tt.in && (part.Weight != tt.weight || part.Seq != 2) {
				t.Errorf("weight %d seq %d", part.Weight, part.Seq)
			}
		})
	}
}

// TestClosedPeerThatFetchesIsNotPlanned: an attempt with it would only fail.
func TestClosedPeerThatFetchesIsNotPlanned(t *testing.T) {
	b := newTable(t, 2, 3)
	b.round(0, 1, 2)
	b.apply(state.CloseSession{Session: id(2), Contract: contractName, Run: 1, CheckinMode: state.CheckinInactive, Seq: 1})
	b.ready(1, 0, 1)
	b.reports[id(2)] = reports.Report{At: b.now}
	if w := b.follow(); w.Kind != planner.WaitTraining || strings.Join(w.For, " ") != "sl-2" {
		t.Fatalf("waits for %s %v, want sl-2", w.Kind, w.For)
	}
	b.now = b.now.Add(time.Minute)
	b.follow()
	if p := b.contract().Plan; p == nil || len(p.Participants) != 2 || p.Participant(id(2)) != nil {
		t.Fatalf("plan %+v, want one without sl-2", p)
	}
}

// TestDisagreementIsMergedAnew: two peers that hold different bytes hold all of them, so to resume would change nothing.
func TestDisagreementIsMergedAnew(t *testing.T) {
	b := newTable(t, 2, 2)
	b.ready(1, 0, 1)
	b.follow()
	first := b.contract().Plan
	for i, p := range first.Participants {
		b.reports[p.Session] = reports.Report{Done: &round.Done{Round: 1, Attempt: 1, ModelDigest: fmt.Sprintf("%064x", i), ShardDigests: []string{"as asked"}}}
	}
	b.follow()
	b.now = b.now.Add(time.Minute)
	b.follow()
	p := b.contract().Plan
	if diff := cmp.Diff(first.Participants, p.Participants); p.Attempt != 2 || first.Epoch != 0 || p.Epoch != 1 || diff != "" {
		t.Fatalf("plan %+v, want the same owners in another epoch: %s", p, diff)
	}
	b.reports[id(0)] = reports.Report{Failed: &round.Failed{Round: 1, Attempt: 2, Blamed: "sl-1"}, At: b.now, FailedAt: b.now}
	b.follow()
	b.now = b.now.Add(time.Second)
	b.follow()
	b.now = b.now.Add(time.Minute)
	b.follow()
	if again := b.contract().Plan; again.Attempt != 3 || again.Participants[0].Session != p.Participants[0].Session {
		t.Fatalf("plan %+v, want the same order: what was merged since is good", again)
	}
}

func TestAnsweredReportIsNotReady(t *testing.T) {
	b := newTable(t, 2, 2)
	b.ready(1, 0, 1)
	old := map[string]reports.Report{id(0): b.reports[id(0)], id(1): b.reports[id(1)]}
	b.round(0, 1)
	b.reports = old
	if d := b.decide(); d.Command != nil {
		t.Errorf("planned with reports from before the round: %+v", d.Command)
	}
}

func TestDecideIsPure(t *testing.T) {
	b := newTable(t, 2, 3)
	b.round(0, 1, 2)
	b.ready(1, 0, 1, 2)
	memory := b.memory
	first := planner.Decide(planner.Inputs{Now: b.now, View: b.s, Contract: contractName, Reports: b.reports, Memory: memory})
	again := planner.Decide(planner.Inputs{Now: b.now, View: b.s, Contract: contractName, Reports: b.reports, Memory: memory})
	if diff := cmp.Diff(first.Command, again.Command); diff != "" {
		t.Errorf("the same inputs give another command:\n%s", diff)
	}
	if diff := cmp.Diff(first.Waiting, again.Waiting); diff != "" {
		t.Errorf("the same inputs give another reason:\n%s", diff)
	}
}

// TestFinalAttemptOutlivesAReopening: a peer that closed opens a new session while the final attempt runs, so that fewer
// than minPeers have closed.
func TestFinalAttemptOutlivesAReopening(t *testing.T) {
	b := newTable(t, 2, 3)
	b.round(0, 1, 2)
	for i := range 2 {
		b.apply(state.CloseSession{Session: id(i), Contract: contractName, Run: 1, Seq: 1})
	}
	b.ready(1, 2)
	b.follow()
	if p := b.contract().Plan; p == nil || !p.Final || len(p.Participants) != 3 {
		t.Fatalf("plan %+v, want the final round", p)
	}
	b.apply(state.OpenSession{
		Session: id(8), Contract: contractName, Node: "sl-0", SyncFrequency: 16, Weight: 1, Terms: *b.contract().Terms,
	})
	b.follow() // Fails when a command is rejected.
	if p := b.contract().Plan; p == nil || p.Attempt != 2 || p.Final || len(p.Participants) != 2 {
		t.Fatalf("plan %+v, want a second attempt without sl-0 that is not final", p)
	}
}

// TestBannedParticipant: a round in which everybody is done is held again without the one who was banned meanwhile.
func TestBannedParticipant(t *testing.T) {
	for _, done := range []int{0, 1, 3} {
		t.Run(fmt.Sprintf("%d done", done), func(t *testing.T) {
			b := newTable(t, 2, 3)
			b.ready(1, 0, 1, 2)
			b.follow()
			plan := b.contract().Plan
			if len(plan.Participants) != 3 {
				t.Fatalf("plan %+v", plan)
			}
			for _, p := range plan.Participants[:done] {
				b.reports[p.Session] = reports.Report{Done: &round.Done{Round: 1, Attempt: 1, ModelDigest: strings.Repeat("1", 64)}}
			}
			b.apply(state.BanNode{PeerID: "sl-1"})
			b.follow()
			plan = b.contract().Plan
			if plan == nil || plan.Attempt != 2 || len(plan.Participants) != 2 || plan.Participant(id(1)) != nil {
				t.Fatalf("plan after the ban %+v", plan)
			}
			if got := b.contract().PendingReason; got != "sl-1 is banned" {
				t.Errorf("reason %q", got)
			}
		})
	}
}
