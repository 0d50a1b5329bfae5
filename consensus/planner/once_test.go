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

// closes has the training of sessions end, each with the mode.
func (b *table) closes(mode string, sessions ...int) {
	b.t.Helper()
	for _, i := range sessions {
		s := b.contract().Sessions[id(i)]
		b.apply(state.CloseSession{Session: s.ID, Contract: contractName, Run: 1, CheckinMode: mode, Seq: s.LastSeq})
		delete(b.reports, s.ID)
	}
}

// planned has sessions offer, and returns the weights of the attempt that follows, in order of opening.
func (b *table) planned(sessions ...int) string {
	b.t.Helper()
	b.ready(1, sessions...)
	b.follow()
	if b.contract().Plan == nil { // the others are waited for
		b.now = b.now.Add(time.Minute)
		b.follow()
	}
	return b.weights()
}

func (b *table) weights() string {
	if b.contract().Plan == nil {
		return "none"
	}
	var list []string
	for _, p := range b.contract().Plan.Participants {
		list = append(list, fmt.Sprintf("%s:%d", p.Node, p.Weight))
	}
	return strings.Join(list, " ")
}

// commits ends the running attempt as its participants agree.
func (b *table) commits() {
	b.t.Helper()
	p := b.contract().Plan
	for _, q := range p.Participants {
		b.reports[q.Session] = reports.Report{At: b.now, Done: &round.Done{Round: p.Round, Attempt: p.Attempt, ModelDigest: fmt.Sprintf("%064x", p.Round)}}
	}
	b.follow()
	if b.contract().Round() != p.Round {
		b.t.Fatalf("round %d was not committed", p.Round)
	}
	for _, q := range p.Participants { // closed sessions are heard no more: they are ready
		delete(b.reports, q.Session)
	}
	b.now = b.now.Add(10 * time.Second)
}

// attempts checks the weights of an attempt and of what follows from it.
func (b *table) attempts(want string, sessions ...int) {
	b.t.Helper()
	if got := b.planned(sessions...); got != want {
		b.t.Fatalf("round %d: %s, want %s", b.contract().Round()+1, got, want)
	}
}

// TestOnce: what a session left counts until it was in one committed round.
func TestOnce(t *testing.T) {
	b := newTable(t, 3, 3)
	b.round(0, 1, 2)
	b.closes(state.CheckinOnce, 2)
	b.attempts("sl-0:1 sl-1:1 sl-2:1", 0, 1)
	b.commits()
	for range 3 {
		b.memory = planner.Memory{} // another leader decides the same
		b.attempts("sl-0:1 sl-1:1 sl-2:0", 0, 1)
		b.commits()
	}
	// At the end it counts no more either.
	b.closes(state.CheckinOnce, 0, 1)
	b.attempts("sl-0:1 sl-1:1 sl-2:0")
	if !b.contract().Plan.Final {
		t.Error("the plan is not final")
	}
	b.commits()
	if !b.contract().Over {
		t.Error("training does not end")
	}
}

// TestOnceAfterAFailedAttempt: an attempt that was not committed does not count.
func TestOnceAfterAFailedAttempt(t *testing.T) {
	b := newTable(t, 3, 4)
	b.round(0, 1, 2, 3)
	b.closes(state.CheckinOnce, 3)
	b.attempts("sl-0:1 sl-1:1 sl-2:1 sl-3:1", 0, 1, 2)
	b.dies(2)
	b.follow()
	if got := b.weights(); got != "sl-0:1 sl-1:1 sl-3:1" || b.contract().Plan.Attempt != 2 {
		t.Fatalf("attempt %d: %s", b.contract().Plan.Attempt, got)
	}
	b.commits()
	b.attempts("sl-0:1 sl-1:1 sl-3:0", 0, 1)
}

// TestOnceCountsAgain where fewer than two others would contribute, so that the model does not become one peer's own.
func TestOnceCountsAgain(t *testing.T) {
	b := newTable(t, 3, 3)
	b.round(0, 1, 2)
	b.closes(state.CheckinOnce, 2)
	b.attempts("sl-0:1 sl-1:1 sl-2:1", 0, 1)
	b.commits()
	b.closes(state.CheckinOnce, 1)
	b.attempts("sl-0:1 sl-1:1 sl-2:0", 0)
	b.commits()
	for range 2 {
		b.attempts("sl-0:1 sl-1:1 sl-2:1", 0)
		b.commits()
	}
	b.closes(state.CheckinOnce, 0)
	b.attempts("sl-0:1 sl-1:1 sl-2:1")
	b.commits()
	if !b.contract().Over {
		t.Error("training does not end")
	}
}

// TestOnceCountsAgainInTheNextAttempt: whom it is done without may be the second of two.
func TestOnceCountsAgainInTheNextAttempt(t *testing.T) {
	b := newTable(t, 2, 3)
	b.round(0, 1, 2)
	b.closes(state.CheckinOnce, 2)
	b.attempts("sl-0:1 sl-1:1 sl-2:1", 0, 1)
	b.commits()
	b.attempts("sl-0:1 sl-1:1 sl-2:0", 0, 1)
	b.dies(1)
	b.follow()
	if got := b.weights(); got != "sl-0:1 sl-2:1" {
		t.Errorf("%s, want sl-2 to count again", got)
	}
}

// TestOnceUnderRules: what would forbid a round without those who have counted has them count again, so that training goes on and ends.
func TestOnceUnderRules(t *testing.T) {
	krum := func(_ int, o *state.OpenSession) { o.Terms.Method, o.Terms.MinPeers, o.Terms.Least = "krum(f=0)", 3, 3 }
	for _, tt := range []struct {
		name  string
		rules state.Rules
		with  func(int, *state.OpenSession)
	}{
		{"method", state.Rules{}, krum},
		{"weight cap", state.Rules{WeightCapPPM: 400_000}, func(_ int, o *state.OpenSession) { o.Terms.MinPeers = 3 }},
		{"weight share", state.Rules{MinWeightSharePPM: 900_000}, func(_ int, o *state.OpenSession) { o.Terms.MinPeers = 3 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newTableOf(t, tt.rules, 3, tt.with)
			b.round(0, 1, 2)
			b.closes(state.CheckinOnce, 2)
			for range 3 {
				if got := b.planned(0, 1); strings.Contains(got, ":0") || len(b.contract().Plan.Participants) != 3 {
					t.Fatalf("round %d: %s", b.contract().Round()+1, got)
				}
				b.commits()
			}
			b.closes(state.CheckinOnce, 0, 1)
			b.planned()
			b.commits()
			if !b.contract().Over {
				t.Error("training does not end")
			}
		})
	}
}

// TestOnceUnderACap: weights are made anew for each attempt, but for those who rest.
func TestOnceUnderACap(t *testing.T) {
	b := newTableOf(t, state.Rules{WeightCapPPM: 600_000}, 3, func(_ int, o *state.OpenSession) { o.Terms.MinPeers = 3 })
	b.round(0, 1, 2)
	b.closes(state.CheckinOnce, 2)
	b.planned(0, 1)
	b.commits()
	if got := b.planned(0, 1); !strings.HasSuffix(got, "sl-2:0") || strings.Contains(got, "sl-0:0") {
		t.Errorf("%s, want all but sl-2 to count", got)
	}
}

// TestOnceAndALostModel: a round whose model is lost has not counted, whoever leads; one whose model is left has.
func TestOnceAndALostModel(t *testing.T) {
	for _, tt := range []struct {
		to   uint64
		want string
	}{{1, "sl-0:1 sl-1:1 sl-2:1"}, {0, "sl-0:1 sl-1:1 sl-2:1"}, {2, "sl-0:1 sl-1:1 sl-2:0"}} {
		t.Run(fmt.Sprintf("back to round %d", tt.to), func(t *testing.T) {
			b := newTable(t, 3, 3)
			b.round(0, 1, 2)
			b.closes(state.CheckinOnce, 2)
			for _, want := range []string{"sl-0:1 sl-1:1 sl-2:1", "sl-0:1 sl-1:1 sl-2:0"} {
				b.attempts(want, 0, 1)
				b.commits()
			}
			lose := state.LoseModel{Contract: contractName, Run: 1, Round: 3, Digest: b.contract().Committed.Digest, ResumedRound: tt.to, AtMS: b.now.UnixMilli()}
			if tt.to > 0 {
				lose.ResumedDigest = fmt.Sprintf("%064x", tt.to)
			}
			b.apply(lose)
			b.memory = planner.Memory{}
			b.attempts(tt.want, 0, 1)
			b.commits()
			b.attempts("sl-0:1 sl-1:1 sl-2:0", 0, 1)
		})
	}
}

// TestOnceWithoutOthers: who has nothing beside what has counted goes on with it.
func TestOnceWithoutOthers(t *testing.T) {
	b := newTable(t, 2, 2)
	b.round(0, 1)
	b.closes(state.CheckinOnce, 1)
	for range 3 {
		b.attempts("sl-0:1 sl-1:1", 0)
		b.commits()
	}
	b.closes(state.CheckinInactive, 0)
	b.attempts("sl-0:0 sl-1:1")
	b.commits()
	if !b.contract().Over {
		t.Error("training does not end")
	}
}
