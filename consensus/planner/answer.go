package planner

import (
	"fmt"
	"time"

	"github.com/swarmd/swarmd/consensus/state"
)

// answer is the decision in the making: what is proposed, and what is waited for.
type answer struct {
	facts    *facts
	said     *saidReason
	observer *observer
	decision Decision
}

// saidReason is what was waited for last, and since when.
type saidReason struct {
	key   string
	since time.Time
}

// wait sets the reason. One that began earlier keeps its time, unless w names its own.
func (a *answer) wait(w Waiting) {
	w.Phase = a.facts.c.Phase()
	if w.Round == 0 {
		w.Round = a.facts.c.Round() + 1
	}
	if key := w.key(); key != a.said.key {
		a.said.key, a.said.since = key, a.facts.in.Now
	}
	if w.Since.IsZero() {
		w.Since = a.said.since
	}
	if !a.facts.in.Brief {
		w.Snapshot = a.observer.snapshot()
	}
	a.decision.Waiting = w
}

// paused waits until an operator resumes the contract.
func (a *answer) paused() {
	h := haltOf(a.facts.c)
	a.wait(Waiting{Kind: WaitPaused, Since: h.Since, Rule: h.String()})
}

func (a *answer) propose(c state.Command, detail string) {
	a.decision.Command = c
	a.wait(Waiting{Kind: WaitCommand, Attempt: a.facts.c.Attempt, Detail: detail})
}

func (a *answer) finish(reason string) {
	a.propose(state.FinishContract{
		Contract: a.facts.c.Name, Run: a.facts.c.Run, Round: a.facts.c.Round(), Reason: reason, AtMS: a.facts.in.Now.UnixMilli(),
	}, "ending with the model of round "+fmt.Sprint(a.facts.c.Round())+": "+reason)
}

func (a *answer) fail(reason string, below bool) {
	a.propose(state.FailContract{
		Contract: a.facts.c.Name, Run: a.facts.c.Run, Reason: reason, Below: below, AtMS: a.facts.in.Now.UnixMilli(),
	}, "that all sessions end: "+reason)
}

// skip gives up the round for some sessions.
func (a *answer) skip(sessions map[string]uint64, why string) {
	a.propose(state.SkipRound{
		Contract: a.facts.c.Name, Run: a.facts.c.Run, Round: a.facts.c.Round() + 1, Attempt: a.facts.c.Attempt, Sessions: sessions, Reason: why, AtMS: a.facts.in.Now.UnixMilli(),
	}, fmt.Sprintf("skipping round %d: %s", a.facts.c.Round()+1, why))
}

// cancel gives the running attempt up.
func (a *answer) cancel(reason string) {
	p := a.facts.c.Plan
	a.propose(state.CancelPlan{
		Contract: a.facts.c.Name, Run: a.facts.c.Run, Round: p.Round, Attempt: p.Attempt, Reason: reason, AtMS: a.facts.in.Now.UnixMilli(),
	}, fmt.Sprintf("giving up round %d (attempt %d): %s", p.Round, p.Attempt, reason))
}
