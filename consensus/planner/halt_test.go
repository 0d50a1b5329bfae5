package planner_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/planner/explain"
	"github.com/swarmd/swarmd/consensus/planner/reports"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
)

// order is that of an operator's.
func order() *ledger.Order {
	return &ledger.Order{By: "spiffe://a.example/swarm/swci/dr-who", Request: []byte("{}")}
}

func (b *table) pause() {
	b.t.Helper()
	b.apply(state.PauseContract{Contract: contractName, AtMS: b.now.UnixMilli(), Order: order()})
}

func (b *table) resume() {
	b.t.Helper()
	b.apply(state.ResumeContract{HaltOrder: state.HaltOrder{Contract: contractName, AtMS: b.now.UnixMilli(), Order: order()}, KeepPace: true})
}

func (b *table) end() {
	b.t.Helper()
	b.apply(state.EndContract{Contract: contractName, AtMS: b.now.UnixMilli(), Order: order()})
}

// halted are the reasons that come from operators.
func halted() []waitingCase {
	return []waitingCase{
		{"paused, all are ready", func(t *testing.T) *table {
			b := newTable(t, 2, 3)
			b.round(0, 1, 2)
			b.pause()
			b.ready(1, 0, 1, 2)
			return b
		}},
		{"paused while it enrols", func(t *testing.T) *table {
			b := newTable(t, 2, 1)
			b.pause()
			return b
		}},
		{"paused while it merges", func(t *testing.T) *table {
			b := newTable(t, 2, 2)
			b.ready(1, 0, 1)
			b.follow()
			b.pause()
			return b
		}},
		{"ended in the middle of an interval", func(t *testing.T) *table {
			b := newTable(t, 2, 3)
			b.round(0, 1, 2)
			b.round(0, 1, 2)
			b.end()
			b.ready(1, 2)
			return b
		}},
		{"ended before there is a model", func(t *testing.T) *table {
			b := newTable(t, 2, 3)
			b.end()
			b.ready(1, 2)
			return b
		}},
		{"ended and over", func(t *testing.T) *table {
			b := newTable(t, 2, 2)
			b.round(0, 1)
			b.end()
			b.round(0, 1)
			return b
		}},
	}
}

// TestNothingIsPlannedWhilePaused, however long, and no wait has counted when training goes on.
func TestNothingIsPlannedWhilePaused(t *testing.T) {
	b := newTableOf(t, state.Rules{MinPeersTimeoutMS: 60_000, QuorumWaitMS: 30_000}, 3, func(int, *state.OpenSession) {})
	b.round(0, 1, 2)
	b.ready(1, 0, 1)
	b.follow() // the quorum wait runs, for sl-2
	b.now = b.now.Add(2 * time.Second)
	b.pause()
	for _, dead := range []bool{false, true} { // then also below minPeers
		b.apply(state.SetLive{Node: "sl-1", Live: !dead, AtMS: b.now.UnixMilli()})
		b.apply(state.SetLive{Node: "sl-2", Live: !dead, AtMS: b.now.UnixMilli()})
		for range 100 {
			b.now = b.now.Add(time.Hour)
			d := b.decide()
			if d.Command != nil || d.Waiting.Kind != planner.WaitPaused || d.Waiting.Phase != state.PhasePaused {
				t.Fatalf("while it is paused: %+v", d)
			}
		}
	}
	b.resume()
	if w := b.follow(); w.Kind != planner.WaitPeers || !w.Until.Equal(b.now.Add(time.Minute)) || !w.Fails {
		t.Errorf("below minPeers after the pause: %s", w)
	}
	b.apply(state.SetLive{Node: "sl-1", Live: true, AtMS: b.now.UnixMilli()})
	b.apply(state.SetLive{Node: "sl-2", Live: true, AtMS: b.now.UnixMilli()})
	b.ready(1, 0, 1)
	if w := b.follow(); w.Kind != planner.WaitTraining || !w.Since.Equal(b.now) || !w.Until.After(b.now) {
		t.Errorf("the quorum wait after the pause: %s", w)
	}
	b.ready(1, 0, 1, 2)
	if w := b.follow(); w.Kind != planner.WaitMerging || b.contract().Plan == nil {
		t.Errorf("all are ready: %s", w)
	}
}

// TestAPauseLetsTheAttemptEnd: what is merged is committed; what fails is not tried again until training goes on.
func TestAPauseLetsTheAttemptEnd(t *testing.T) {
	for _, fails := range []bool{false, true} {
		t.Run(fmt.Sprintf("fails=%t", fails), func(t *testing.T) {
			b := newTable(t, 2, 2)
			b.round(0, 1)
			b.ready(1, 0, 1)
			b.follow()
			plan := b.contract().Plan
			b.pause()
			if w := b.follow(); w.Kind != planner.WaitMerging || b.contract().Plan == nil {
				t.Fatalf("the attempt does not go on: %s", w)
			}
			for i := range 2 {
				r := reports.Report{Done: &round.Done{Round: plan.Round, Attempt: plan.Attempt, ModelDigest: strings.Repeat("7", 64)}, At: b.now}
				if fails {
					r = reports.Report{Failed: &round.Failed{Round: plan.Round, Attempt: plan.Attempt, Reason: "no byte"}, At: b.now, FailedAt: b.now}
				}
				b.reports[id(i)] = r
			}
			b.follow()
			b.now = b.now.Add(time.Minute)
			w := b.follow()
			want := uint64(2)
			if fails {
				want = 1
			}
			if w.Kind != planner.WaitPaused || b.contract().Plan != nil || b.contract().Round() != want {
				t.Fatalf("after the attempt: %s, round %d", w, b.contract().Round())
			}
			b.resume()
			b.ready(1, 0, 1)
			if w := b.follow(); w.Kind != planner.WaitMerging || b.contract().Plan.Round != want+1 {
				t.Errorf("after the pause: %s", w)
			}
		})
	}
}

// TestALostModelIsNotGivenUpWhilePaused: who is away during a pause may have it.
func TestALostModelIsNotGivenUpWhilePaused(t *testing.T) {
	b := newTable(t, 2, 3)
	b.round(0, 1, 2)
	b.pause()
	for i := range 3 { // they were started anew and hold nothing
		b.reports[id(i)] = reports.Report{At: b.now, Ready: &round.Ready{Seq: 2, Weight: 1}}
	}
	for range 20 {
		b.now = b.now.Add(time.Minute)
		if d := b.decide(); d.Command != nil {
			t.Fatalf("it proposes %s", d.Command.Type())
		}
	}
	b.resume()
	if d := b.decide(); d.Command != nil || d.Waiting.Kind == planner.WaitPaused {
		t.Fatalf("at once after the pause: %+v", d)
	}
}

// TestAnEndIsTheNextRound of those who are ready, by the usual rules.
func TestAnEndIsTheNextRound(t *testing.T) {
	b := newTable(t, 2, 3)
	b.round(0, 1, 2)
	b.ready(1, 0, 1, 2)
	b.follow()
	if b.contract().Plan.Final {
		t.Fatal("it is final before anybody ends it")
	}
	b.end()
	b.round(0, 1, 2) // that was planned before
	if c := b.contract(); c.Over || c.Round() != 2 {
		t.Fatalf("round %d, over: %t", c.Round(), c.Over)
	}
	b.round(0, 1, 2)
	if c := b.contract(); !c.Over || c.Round() != 3 || !c.Committed.Final {
		t.Errorf("round %d, over: %t", c.Round(), c.Over)
	}
}

// TestAnEndHangsOnNobody: whoever does not come in time, the training is over.
func TestAnEndHangsOnNobody(t *testing.T) {
	type test struct {
		name  string
		lead  func(b *table)
		waits time.Duration // until it ends
		over  bool          // with the last model; else all sessions fail
	}
	for _, tt := range []test{
		{"programs that never reach their Sync", func(*table) {}, 60 * time.Second, true}, // the stall grace: too few rounds to know
		{"programs with a usual time between rounds", func(b *table) {
			b.round(0, 1, 2)
			b.now = b.now.Add(time.Minute)
			b.round(0, 1, 2)
			b.now = b.now.Add(time.Minute)
			b.round(0, 1, 2)
		}, 2 * (time.Minute + 11*time.Second), true},
		{"one of two that are needed", func(b *table) { b.ready(1, 0) }, 60 * time.Second, true},
		{"too few are alive", func(b *table) {
			b.ready(1, 0)
			b.apply(state.SetLive{Node: "sl-1"})
			b.apply(state.SetLive{Node: "sl-2"})
		}, 30 * time.Second, true},
		{"nobody trains any more", func(b *table) {
			for i := range 3 {
				b.apply(state.EndSession{Session: id(i), Contract: contractName, Run: 1, Reason: "failed: exit code 1"})
			}
		}, 30 * time.Second, true},
		{"paused for an hour before", func(b *table) {
			b.pause()
			b.follow()
			b.now = b.now.Add(time.Hour)
			b.follow()
		}, 60 * time.Second, true},
		{"all have weight 0", func(b *table) { b.ready(0, 0, 1, 2) }, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newTable(t, 2, 3)
			b.round(0, 1, 2)
			tt.lead(b)
			b.end()
			b.endsAfter(tt.waits)
			if c := b.contract(); !c.Over || !c.Committed.Final || !strings.HasPrefix(c.PendingReason, "ended without a final round: ") {
				t.Errorf("over: %t, %q", c.Over, c.PendingReason)
			}
		})
	}
	t.Run("no model yet", func(t *testing.T) {
		b := newTable(t, 2, 3)
		b.end()
		b.ready(1, 0)
		b.endsAfter(60 * time.Second)
		c := b.contract()
		if len(c.Active()) > 0 || c.Over || c.Halt != nil {
			t.Errorf("%d sessions, over: %t, halt: %+v", len(c.Active()), c.Over, c.Halt)
		}
		if got := c.Sessions[id(2)].EndReason; !strings.HasPrefix(got, "failed: ended by an operator before there was a model: 1 of 2 peers") {
			t.Errorf("sessions end because of %q", got)
		}
	})
	t.Run("no model yet and all are ready", func(t *testing.T) {
		b := newTable(t, 2, 3)
		b.end()
		b.round(0, 1, 2)
		if c := b.contract(); !c.Over || c.Round() != 1 {
			t.Errorf("round %d, over: %t", c.Round(), c.Over)
		}
	})
}

// endsAfter holds that nothing is proposed until this time, and then something that ends it.
func (b *table) endsAfter(wait time.Duration) {
	b.t.Helper()
	if wait > 0 {
		for range 2 {
			if d := b.decide(); d.Command != nil || !d.Waiting.Ends && !d.Waiting.Fails {
				b.t.Fatalf("it proposes %v, and waits: %s", d.Command, d.Waiting)
			}
		}
		b.now = b.now.Add(wait - time.Millisecond)
		if d := b.decide(); d.Command != nil {
			b.t.Fatalf("it proposes %s too early", d.Command.Type())
		}
		b.now = b.now.Add(time.Millisecond)
	}
	d := b.decide()
	if d.Command == nil {
		b.t.Fatalf("it goes on waiting: %s", d.Waiting)
	}
	b.apply(d.Command)
	b.follow()
}

// TestHaltsAreExplained holds what users read of them.
func TestHaltsAreExplained(t *testing.T) {
	var got strings.Builder
	for _, tt := range halted() {
		t.Run(tt.name, func(t *testing.T) {
			b := tt.run(t)
			w := b.follow()
			lines := explain.Lines(w, b.now.Add(3*time.Second))
			fmt.Fprintf(&got, "%s: [%s] %s\n  %s\n", tt.name, w.Phase, w, strings.Join(lines, "\n  "))
		})
	}
	golden(t, "testdata/halt.golden", got.String())
}
