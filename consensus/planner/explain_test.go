package planner_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/planner/explain"
	"github.com/swarmd/swarmd/consensus/planner/reports"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
)

// TestExplain holds what users read, three seconds after each reason came up.
func TestExplain(t *testing.T) {
	var got strings.Builder
	for _, tt := range append(waitingToPlan(), slices.Concat(waitingToCommit(), explained(), ruled())...) {
		t.Run(tt.name, func(t *testing.T) {
			b := tt.run(t)
			w := b.follow()
			lines := explain.Lines(w, b.now.Add(3*time.Second))
			fmt.Fprintf(&got, "%s:\n  %s\n", tt.name, strings.Join(lines, "\n  "))
		})
	}
	golden(t, "testdata/explain.golden", got.String())
}

// explained are cases whose reason is known from elsewhere and whose peers differ.
func explained() []waitingCase {
	return []waitingCase{
		{"a leader that has heard of nobody", func(t *testing.T) *table {
			b := newTable(t, 2, 3)
			b.round(0, 1, 2)
			b.reports = map[string]reports.Report{}
			return b
		}},
		{"some train, one left, one is dead, one fetches", func(t *testing.T) *table {
			b := newTable(t, 3, 5)
			b.round(0, 1, 2, 3, 4)
			b.ready(1, 0)
			b.reports[id(1)] = reports.Report{At: b.now, Ready: &round.Ready{Seq: 9, Weight: 1}}
			b.reports[id(2)] = reports.Report{At: b.now}
			b.apply(state.SetLive{Node: "sl-3", AtMS: b.now.Add(-4 * time.Second).UnixMilli()})
			b.apply(state.LeaveNode{Node: "sl-4", TokenHash: strings.Repeat("1", 64), Reason: "stopped"})
			return b
		}},
		{"one trains and one is not heard from", func(t *testing.T) *table {
			b := newTable(t, 2, 3)
			b.round(0, 1, 2)
			b.ready(1, 0)
			b.reports[id(1)] = reports.Report{At: b.now.Add(-3 * time.Second)}
			b.reports[id(2)] = reports.Report{At: b.now.Add(-2 * time.Second)}
			return b
		}},
		{"one merges and one is not heard from", func(t *testing.T) *table {
			b := newTable(t, 2, 2)
			b.ready(1, 0, 1)
			b.follow()
			b.now = b.now.Add(4 * time.Second)
			b.ready(1, 0)
			return b
		}},
		{"one has counted once", func(t *testing.T) *table {
			b := newTable(t, 2, 4)
			b.round(0, 1, 2, 3)
			b.closes(state.CheckinOnce, 3)
			b.planned(0, 1, 2)
			b.commits()
			return b
		}},
		{"one has counted once, and once more", func(t *testing.T) *table {
			b := newTable(t, 2, 2)
			b.round(0, 1)
			b.closes(state.CheckinOnce, 1)
			for range 2 {
				b.planned(0)
				b.commits()
			}
			return b
		}},
		{"second attempt", func(t *testing.T) *table {
			b := newTable(t, 2, 3)
			b.ready(1, 0, 1, 2)
			b.follow()
			b.apply(state.SetLive{Node: "sl-1", AtMS: b.now.Add(-15 * time.Second).UnixMilli()})
			b.follow()
			plan := b.contract().Plan
			b.reports[id(0)] = reports.Report{
				Done: &round.Done{Round: 1, Attempt: plan.Attempt, ModelDigest: strings.Repeat("1", 64)}, At: b.now,
			}
			return b
		}},
	}
}

func TestExplainBeforeTheFirstDecision(t *testing.T) {
	if got := explain.Lines(planner.Waiting{}, time.Now()); len(got) != 1 {
		t.Errorf("got %q, want one line", got)
	}
}
