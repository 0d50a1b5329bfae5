package planner_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/planner/reports"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
)

// TestMinPeersTimeoutBeginsAnew: whoever enrols after everybody has left gets the whole time, not what those before left of it.
func TestMinPeersTimeoutBeginsAnew(t *testing.T) {
	b := newTableOf(t, state.Rules{MinPeersTimeoutMS: 60_000}, 1, func(int, *state.OpenSession) {})
	b.follow()
	b.now = b.now.Add(time.Minute)
	if w := b.follow(); w.Kind != planner.WaitSessions {
		t.Fatalf("after the timeout: %s", w)
	}
	b.now = b.now.Add(time.Hour)
	b.follow()
	old := b.contract().Sessions[id(0)]
	b.apply(state.OpenSession{
		Session: id(1), Contract: contractName, Node: old.Node, SyncFrequency: 16, Weight: 1,
		Terms: state.Terms{LayoutDigest: strings.Repeat("a", 64), Layout: []byte("a"), Leaves: 10, Method: "mean", MinPeers: 2},
	})
	if w := b.follow(); w.Kind != planner.WaitPeers || !w.Fails || w.Until.Sub(b.now) != time.Minute {
		t.Errorf("an hour later: %s", w)
	}
}

// TestModelIsNotLostTwice: who holds the older model that training went back to, by the round in which that was merged, holds
// the committed model.
func TestModelIsNotLostTwice(t *testing.T) {
	b := survivorsOfTwo(t)
	report := func() { b.holds(2, 1); b.holds(3, 2, 1) } // copies on disk, while the programs train from nothing
	lose, ok := b.wait(70*time.Second, report).Command.(state.LoseModel)
	if !ok || lose.ResumedRound != 2 {
		t.Fatalf("%+v", lose)
	}
	b.apply(lose)
	if d := b.wait(5*time.Minute, report); d.Command != nil || d.Waiting.Kind != planner.WaitTraining {
		t.Errorf("%+v: %s", d.Command, d.Waiting)
	}
}

// TestModelIsNotLostToANewLeader: one that has heard of nobody yet gives the holders the time to find it, however short the
// contract's stall grace is.
func TestModelIsNotLostToANewLeader(t *testing.T) {
	b := newTableOf(t, state.Rules{StallGraceMS: 100}, 2, func(int, *state.OpenSession) {})
	b.round(0, 1)
	b.memory, b.reports = planner.Memory{}, map[string]reports.Report{}
	for range 8 {
		if d := b.decide(); d.Command != nil {
			t.Fatalf("%+v: %s", d.Command, d.Waiting)
		}
		b.now = b.now.Add(time.Second)
	}
	b.holds(0, 1)
	b.holds(1, 1)
	if d := b.decide(); d.Command != nil || d.Waiting.Kind != planner.WaitTraining {
		t.Errorf("once they are heard: %+v: %s", d.Command, d.Waiting)
	}
}

// TestOverflowingUpdateIsNotItsOwnersFault: an update whose squares are beyond any number is one that its owners measured.
func TestOverflowingUpdateIsNotItsOwnersFault(t *testing.T) {
	b := clipping(t, math.Inf(1), 4, 4)
	b.report([]float64{math.Inf(1), 0, 5}, []float64{math.Inf(1), 16, 5}, []float64{math.Inf(1), 0, 6})
	if w := b.follow(); b.contract().Round() != 1 {
		t.Errorf("declared so: %s", w)
	}
	b = clipping(t, 4, 4, 4)
	b.report([]float64{math.Inf(1), 0, 5}, []float64{0, 16, 5}, []float64{0, 0, 6})
	if w := b.follow(); b.contract().Round() != 0 || !strings.Contains(w.String(), "sl-0: its update has norm +Inf") {
		t.Errorf("declared less, round %d: %s", b.contract().Round(), w)
	}
}

// TestLyingOwnerExpelsNoMajority: one owner whose sums put most of the participants in the wrong can't be told from an honest
// one, but it is likelier that it lies than that most do: nobody is left out for it.
func TestLyingOwnerExpelsNoMajority(t *testing.T) {
	b := clipping(t, 3, 3, 3, 3, 3)
	for range 12 {
		plan := b.contract().Plan
		if plan == nil || len(plan.Participants) != 5 {
			t.Fatalf("plan %+v, want one of all five", plan)
		}
		own := map[string][]float64{}
		for _, p := range plan.Participants {
			for _, x := range plan.Participants {
				square := 9.0 / 5
				if p.Node == "sl-4" && x.Node != "sl-4" && x.Node != "sl-3" {
					square = 100
				}
				own[p.Session] = append(own[p.Session], square)
			}
		}
		for _, p := range plan.Participants {
			b.reports[p.Session] = reports.Report{Ready: b.reports[p.Session].Ready, At: b.now, Done: &round.Done{
				Round: 1, Attempt: plan.Attempt, ModelDigest: strings.Repeat("1", 64), UpdateSquares: own[p.Session],
			}}
		}
		if w := b.follow(); w.Kind != planner.WaitRetry || !strings.Contains(w.String(), "sl-0: its update has norm") {
			t.Fatalf("waits for %s", w)
		}
		b.now = b.now.Add(10 * time.Second)
		b.follow()
	}
}

// TestModelIsNotLostToWhomItCantHelp: while the rules forbid a round of those who are there, nothing is won by giving the model
// up; a required node that comes back brings it.
func TestModelIsNotLostToWhomItCantHelp(t *testing.T) {
	for _, tt := range []struct {
		name  string
		rules state.Rules
		says  string
	}{
		{"required", state.Rules{Required: []string{"sl-0"}}, "required for every round and not ready: sl-0"},
		{"share", state.Rules{MinWeightSharePPM: 600_000}, "hold 2 of 4 of the weight"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newTableOf(t, tt.rules, 4, func(int, *state.OpenSession) {})
			b.round(0, 1, 2, 3)
			b.apply(state.SetLive{Node: "sl-0", AtMS: 1})
			b.apply(state.SetLive{Node: "sl-1", AtMS: 1})
			d := b.wait(5*time.Minute, func() { b.holds(2); b.holds(3) })
			if d.Command != nil || d.Waiting.Kind != planner.WaitModel || !strings.Contains(d.Waiting.String(), tt.says) {
				t.Fatalf("%+v: %s", d.Command, d.Waiting)
			}
			b.apply(state.SetLive{Node: "sl-0", Live: true, AtMS: 1})
			b.apply(state.SetLive{Node: "sl-1", Live: true, AtMS: 1})
			b.ready(1, 0, 1, 2, 3)
			b.follow()
			if p := b.contract().Plan; p == nil || p.Round != 2 {
				t.Errorf("plan %+v", p)
			}
		})
	}
}

// TestStallGraceBeginsAnew: a peer that comes back after the swarm was too small for long is not left out for its first stall.
func TestStallGraceBeginsAnew(t *testing.T) {
	b := newTable(t, 3, 4)
	stall := func() {
		plan := b.contract().Plan
		b.reports[id(0)] = reports.Report{
			Failed: &round.Failed{Round: 1, Attempt: plan.Attempt, Blamed: "sl-1", Reason: "no byte for 10 s"}, At: b.now, FailedAt: b.now,
			Ready: b.reports[id(0)].Ready,
		}
		b.now = b.now.Add(time.Second)
		b.follow()
	}
	b.ready(1, 0, 1, 2, 3)
	b.follow()
	stall()
	for _, n := range []string{"sl-1", "sl-3"} {
		b.apply(state.SetLive{Node: n, AtMS: 1})
	}
	if w := b.follow(); w.Kind != planner.WaitPeers {
		t.Fatalf("waits for %s", w)
	}
	b.now = b.now.Add(time.Hour)
	b.follow()
	for _, n := range []string{"sl-1", "sl-3"} {
		b.apply(state.SetLive{Node: n, Live: true, AtMS: 1})
	}
	b.ready(1, 0, 1, 2, 3)
	b.follow()
	stall()
	b.now = b.now.Add(10 * time.Second)
	b.follow()
	if plan := b.contract().Plan; plan == nil || len(plan.Participants) != 4 {
		t.Errorf("plan %+v, want one of all", plan)
	}
}
