package planner

import (
	"slices"
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/state"
)

// TestExclusions shows how long who sits out, and that a copy for another call shares nothing.
func TestExclusions(t *testing.T) {
	t.Parallel()
	first := exclusions{}.in(7)
	first.causesSkip("a", 1)
	first.causesSkip("a", 1)
	if first.sitting("a") {
		t.Error("one attempt counts twice")
	}
	second := first.in(7)
	second.causesSkip("a", 2)
	second.breaks("a", "b")
	second.freeze("session")
	if !second.sitting("a") || first.sitting("a") || len(first.broken) > 0 || first.frozen["session"] {
		t.Errorf("got %+v, the one before %+v", second, first)
	}
	if got := second.links(); len(got) != 2 {
		t.Errorf("links %v", got)
	}
	if later := second.in(7 + sitOutRounds); !later.sitting("a") {
		t.Error("does not sit out the last of its rounds")
	}
	if later := second.in(8 + sitOutRounds); later.sitting("a") {
		t.Error("sits out one round too many")
	}
	second.readmit("a")
	if second.sitting("a") || slices.Contains(second.excluded, "a") {
		t.Error("was not readmitted")
	}
}

// TestDoubts shows that who is unsettled in three of the last ten rounds is found, and only who is most often.
func TestDoubts(t *testing.T) {
	t.Parallel()
	e := exclusions{}
	for round := uint64(1); round <= 4; round++ {
		e = e.in(round)
		e.unsettled("a")
		if round < 4 {
			e.unsettled("b")
		}
	}
	if got := e.doubted([]string{"a", "b", "c"}); !slices.Equal(got, []string{"a"}) {
		t.Errorf("got %v, want a", got)
	}
	e = e.in(3 + doubtRounds)
	e.unsettled("b")
	if got := e.doubted([]string{"b"}); len(got) > 0 {
		t.Errorf("got %v, its other doubts are long past", got)
	}
}

// TestAnswerKeepsTheTime shows that a reason that lasts keeps the time at which it began, and another one does not.
func TestAnswerKeepsTheTime(t *testing.T) {
	t.Parallel()
	var said saidReason
	begin := time.UnixMilli(1000)
	wait := func(at time.Time, w Waiting) Waiting {
		a := &answer{facts: newFacts(Inputs{Now: at, Brief: true}, &state.Contract{}), said: &said}
		a.wait(w)
		return a.decision.Waiting
	}
	wait(begin, Waiting{Kind: WaitPeers})
	if got := wait(begin.Add(time.Second), Waiting{Kind: WaitPeers}).Since; !got.Equal(begin) {
		t.Errorf("since %v, want %v", got, begin)
	}
	if got := wait(begin.Add(time.Second), Waiting{Kind: WaitSessions}).Since; !got.Equal(begin.Add(time.Second)) {
		t.Errorf("another reason is since %v", got)
	}
}

// TestQuorumWait shows that slow peers are waited for in the first and every fifth round, and else as long as rounds take.
func TestQuorumWait(t *testing.T) {
	t.Parallel()
	at := func(round uint64, enough bool) time.Duration {
		c := &state.Contract{}
		if round > 1 {
			c.Committed = &state.CommittedRound{Round: round - 1}
		}
		o := &opening{
			facts: newFacts(Inputs{Config: Config{QuorumWait: time.Minute}}, c),
			times: &waitTimes{paces: []time.Duration{time.Second, 4 * time.Second, time.Hour}},
		}
		return o.quorumWait(enough)
	}
	for _, tt := range []struct {
		round  uint64
		enough bool
		want   time.Duration
	}{{1, false, time.Minute}, {2, false, 8 * time.Second}, {2, true, 2 * time.Second}, {5, false, time.Minute}, {5, true, 2 * time.Second}} {
		if got := at(tt.round, tt.enough); got != tt.want {
			t.Errorf("round %d, enough %v: got %s, want %s", tt.round, tt.enough, got, tt.want)
		}
	}
}
