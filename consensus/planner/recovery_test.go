package planner_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/planner/reports"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
)

// survivorsOfTwo has sl-0 and sl-1 commit three rounds and die; sl-2 and sl-3 are there instead.
func survivorsOfTwo(t *testing.T) *table {
	t.Helper()
	b := newTable(t, 2, 4)
	live := func(up bool, nodes ...int) {
		for _, i := range nodes {
			b.apply(state.SetLive{Node: fmt.Sprintf("sl-%d", i), Live: up, AtMS: 1})
		}
	}
	live(false, 2, 3)
	b.round(0, 1)
	b.round(0, 1)
	b.round(0, 1)
	live(false, 0, 1)
	live(true, 2, 3)
	return b
}

// holds has sessions report that their nodes hold the models of these rounds.
func (b *table) holds(session int, rounds ...uint64) {
	r := reports.Report{Session: id(session), At: b.now}
	for _, n := range rounds {
		r.Held = append(r.Held, round.Model{Round: n, Digest: fmt.Sprintf("%064x", n)})
	}
	b.reports[id(session)] = r
}

// wait lets time pass, in which the reports go on, and returns the command that Decide wants at the end of it.
func (b *table) wait(d time.Duration, report func()) planner.Decision {
	for end := b.now.Add(d); b.now.Before(end); b.now = b.now.Add(time.Second) {
		report()
		if out := b.decide(); out.Command != nil {
			return out
		}
	}
	report()
	return b.decide()
}

// TestLostModel holds that training goes back to the newest model that is held, once the grace is over and not before.
func TestLostModel(t *testing.T) {
	tests := []struct {
		name   string
		report func(b *table)
		round  uint64 // that is resumed
		says   string
	}{
		{"older models", func(b *table) { b.holds(2, 1); b.holds(3, 2, 1) }, 2, "goes back to the model of round 2, which sl-3 has"},
		{"none", func(b *table) { b.holds(2); b.holds(3) }, 0, "begins anew, as nobody holds an older one"},
		{"no digest, and a round to come", func(b *table) {
			b.holds(2, 7)
			b.reports[id(3)] = reports.Report{Held: []round.Model{{Round: 2, Digest: "x"}}, At: b.now}
		}, 0, "begins anew"},
		{"a state that the method has not", func(b *table) {
			b.holds(2, 1)
			b.reports[id(3)] = reports.Report{At: b.now, Held: []round.Model{{Round: 2, Digest: strings.Repeat("a", 64), State: strings.Repeat("b", 64)}}}
		}, 1, "round 1, which sl-2 has"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := survivorsOfTwo(t)
			report := func() { tt.report(b) }
			d := b.wait(50*time.Second, report)
			if d.Command != nil || d.Waiting.Kind != planner.WaitModel || !strings.Contains(d.Waiting.String(), tt.says) {
				t.Fatalf("within the grace: %+v: %s", d.Command, d.Waiting)
			}
			d = b.wait(20*time.Second, report)
			lose, ok := d.Command.(state.LoseModel)
			if !ok || lose.Round != 3 || lose.ResumedRound != tt.round {
				t.Fatalf("after it: %+v", d.Command)
			}
			b.apply(lose)
			if c := b.contract(); c.Round() != 4 || c.HasModel() != (tt.round > 0) || !strings.Contains(c.PendingReason, "round 3 was lost") {
				t.Errorf("committed %+v (%s)", c.Committed, c.PendingReason)
			}
			// Both go on from there, and the next round has the next number.
			b.ready(1, 2, 3)
			b.follow()
			if p := b.contract().Plan; p == nil || p.Round != 5 || p.Attempt != 1 {
				t.Errorf("plan %+v", p)
			}
		})
	}
}

// TestModelIsNotLost holds the cases in which waiting is right.
func TestModelIsNotLost(t *testing.T) {
	tests := []struct {
		name   string
		report func(b *table)
	}{
		{"a node that trains holds it", func(b *table) { b.holds(2, 1); b.holds(3, 3) }},
		{"one that is ready trained from it", func(b *table) { b.holds(2, 1); b.ready(1, 3) }},
		{"too few would be left", func(b *table) { b.holds(2, 1); b.apply(state.SetLive{Node: "sl-3", AtMS: 1}) }},
		{"holders come and go", func(b *table) {
			b.holds(2, 1)
			if b.holds(3); b.now.Second() == 0 {
				b.holds(3, 3)
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := survivorsOfTwo(t)
			if d := b.wait(5*time.Minute, func() { tt.report(b) }); d.Command != nil {
				t.Errorf("%+v: %s", d.Command, d.Waiting)
			}
		})
	}
}

// TestLostModelHearsNoLiar holds a report against what the leader saw committed.
func TestLostModelHearsNoLiar(t *testing.T) {
	b := survivorsOfTwo(t)
	recent := []state.CommittedRound{{Round: 2, Digest: fmt.Sprintf("%064x", 2)}}
	var d planner.Decision
	for range 70 {
		b.holds(2, 1)
		b.reports[id(3)] = reports.Report{At: b.now, Held: []round.Model{{Round: 2, Digest: strings.Repeat("e", 64)}}}
		d = planner.Decide(planner.Inputs{Now: b.now, View: b.s, Contract: contractName, Reports: b.reports, Memory: b.memory, Recent: recent})
		b.memory, b.now = d.Memory, b.now.Add(time.Second)
	}
	if lose, ok := d.Command.(state.LoseModel); !ok || lose.ResumedRound != 1 {
		t.Errorf("%+v", d.Command)
	}
}
