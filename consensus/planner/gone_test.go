package planner_test

import (
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/planner/reports"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
)

// TestWhoIsSilentMayBeMerging: a participant that sends no heartbeats ends the attempt of the others, but not while others are late with theirs,
// unless it has been silent for so long that their streams would have told of it.
func TestWhoIsSilentMayBeMerging(t *testing.T) {
	done := func(b *table, nodes ...int) {
		for _, i := range nodes {
			b.reports[id(i)] = reports.Report{Done: &round.Done{Round: 1, Attempt: 1, ModelDigest: strings.Repeat("1", 64)}, At: b.now}
		}
	}
	hear := func(b *table, nodes ...int) {
		for _, i := range nodes {
			r := b.reports[id(i)]
			r.At = b.now
			b.reports[id(i)] = r
		}
	}
	live := func(b *table, live bool) {
		b.apply(state.SetLive{Node: "sl-1", Live: live, AtMS: b.now.UnixMilli()})
	}
	for name, tt := range map[string]struct {
		then    func(b *table)
		attempt uint64 // that runs then; 0: the round is committed
	}{
		"the others are late":   {func(*table) {}, 1},
		"one other is late":     {func(b *table) { hear(b, 0) }, 1},
		"the others are heard":  {func(b *table) { hear(b, 0, 2) }, 2},
		"who is late is done":   {func(b *table) { hear(b, 0); done(b, 2); b.now = b.now.Add(3 * time.Second); hear(b, 0) }, 2},
		"all others are done":   {func(b *table) { done(b, 0, 2) }, 2},
		"it comes back":         {func(b *table) { live(b, true); done(b, 0, 1, 2) }, 0},
		"it is done in silence": {func(b *table) { done(b, 0, 1, 2) }, 0},
		"it is silent for long": {func(b *table) { b.now = b.now.Add(15 * time.Second) }, 2},
		"it has left": {func(b *table) {
			b.apply(state.LeaveNode{Node: "sl-1", TokenHash: strings.Repeat("1", 64), Reason: "stopped", AtMS: b.now.UnixMilli()})
		}, 2},
		"its session has ended": {func(b *table) {
			b.apply(state.EndSession{Contract: contractName, Run: 1, Session: id(1), Reason: "its program failed", AtMS: b.now.UnixMilli()})
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			b := newTable(t, 2, 3)
			b.ready(1, 0, 1, 2)
			b.follow()
			hear(b, 0, 2)
			b.now = b.now.Add(3 * time.Second)
			live(b, false)
			tt.then(b)
			b.follow()
			attempt := uint64(0)
			if p := b.contract().Plan; p != nil {
				attempt = p.Attempt
			}
			if attempt != tt.attempt {
				t.Errorf("attempt %d, want %d", attempt, tt.attempt)
			}
		})
	}
}

// TestAmongManySilenceEndsNoAttempt: with sixteen, also where all others are heard.
func TestAmongManySilenceEndsNoAttempt(t *testing.T) {
	for n, attempt := range map[int]uint64{15: 2, 16: 1} {
		b := newTable(t, 2, n)
		all := make([]int, n)
		for i := range all {
			all[i] = i
		}
		b.ready(1, all...)
		b.follow()
		b.apply(state.SetLive{Node: "sl-1", AtMS: b.now.UnixMilli()})
		for i := range all {
			r := b.reports[id(i)]
			r.At = b.now
			b.reports[id(i)] = r
		}
		b.follow()
		if got := b.contract().Plan.Attempt; got != attempt {
			t.Errorf("%d participants: attempt %d, want %d", n, got, attempt)
		}
	}
}
