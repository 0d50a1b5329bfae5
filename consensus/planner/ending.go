package planner

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/swarmd/swarmd/internal/text"
)

// endLimit is how long programs are waited for at most when an operator ends a training, unless its stall grace, which is for merges and for
// most programs too short, or its min-peers-timeout is longer. Whoever ends it wants to know when it is over, also if a program hangs.
const endLimit = time.Hour

// endFailures is how often the stall grace attempts of that final round may fail: with the same peers, and with those who reach each other.
const endFailures = 2

// holdOn waits; a final round that can't be held for one quorum wait ends the contract with the last model. One that an operator ends
// waits as long for those who still train as endsBy says, and fails if it has no model then.
func (o *opening) holdOn(w Waiting) {
	model := o.facts.c.HasModel()
	if o.facts.c.FinalDue() && (model || o.facts.c.Halt.Ending()) {
		if o.times.finalSince.IsZero() {
			o.times.finalSince = o.facts.in.Now
		}
		if w.Until = o.heldUntil(w); !o.facts.in.Now.Before(w.Until) {
			reason := w.Rule
			if reason == "" {
				reason = fmt.Sprintf("%d of %d peers for the final round", len(w.Have), w.Need)
			}
			o.giveUp(reason)
			return
		}
		w.Ends, w.Fails = model, !model
	}
	o.answer.wait(w)
}

// giveUp ends a training whose final round can't be held.
func (o *opening) giveUp(reason string) {
	if o.facts.c.HasModel() {
		o.answer.finish(reason)
	} else {
		o.answer.fail("failed: ended by an operator before there was a model: "+reason, false)
	}
}

// heldUntil is until when a final round is waited for that can't be held.
func (o *opening) heldUntil(w Waiting) time.Time {
	until := o.times.finalSince.Add(o.facts.cfg.QuorumWait)
	if !o.facts.c.Halt.Ending() {
		return until
	}
	last := o.endsBy()
	if trains := len(w.For) > 0 && w.Kind != WaitPeers; trains || last.Before(until) {
		return last
	}
	return until
}

// endsBy is until when those who still train are waited for when an operator ends the training, whether or not the others could hold the
// final round: nobody gets into a later one, so what they have trained since their last merge would be lost. It counts from the order, or
// from the commit after which the final round is due, whoever leads. Behind that time a leader still hears everybody, and
// after an attempt that failed those who are to be started again have the quorum wait.
func (o *opening) endsBy() time.Time {
	c, cfg := o.facts.c, o.facts.cfg
	if o.times.endSeen.IsZero() || o.times.endAttempt != c.Attempt {
		o.times.endSeen, o.times.endAttempt = o.facts.in.Now, c.Attempt
	}
	due := c.Halt.AtMS
	if c.Committed != nil {
		due = max(due, c.Committed.CommittedMS)
	}
	begun := time.UnixMilli(due)
	if begun.After(o.times.endSeen) { // by another leader's clock
		begun = o.times.endSeen
	}
	until, least := begun.Add(o.facts.endWait()), o.times.endSeen.Add(max(cfg.QuorumWait, 2*cfg.HeartbeatTimeout))
	if least.After(until) {
		return least
	}
	return until
}

// endWait is how long programs have whose training an operator ends. They know nothing of it until their next Sync: they have twice the
// usual time between rounds, or the stall grace while too few rounds tell of one, and the quorum wait in any case.
func (f *facts) endWait() time.Duration {
	wait, limit := f.cfg.StallGrace, max(endLimit, f.cfg.StallGrace)
	if usual := time.Duration(f.c.MedianIntervalMS()) * time.Millisecond; usual > 0 {
		wait = 2 * usual
	}
	if f.c.Rules != nil {
		limit = max(limit, time.Duration(f.c.Rules.MinPeersTimeoutMS)*time.Millisecond)
	}
	return max(f.cfg.QuorumWait, min(wait, limit))
}

// weightless waits for those who may bring a weight to the final round that an operator asked for: all who are ready have none.
func (o *opening) weightless(w Waiting) {
	o.times.readySince = time.Time{}
	w.Kind, w.Rule = WaitWeight, "all peers that are ready have weight 0: "+text.Names(w.Have)
	if w.For = slices.Concat(w.For, w.Sitting); len(w.For) > 0 {
		w.Kind = WaitTraining
	}
	o.holdOn(w)
}

// vain reports whether attempts of the final round that an operator asked for have failed for so long that it is given up, or, if few are left
// of this one, since the first of which that was so: each has those who come back waited for anew, and one may come and go for ever.
func (at *attempt) vain(few bool) bool {
	if !at.facts.c.Halt.Ending() || !at.facts.c.Plan.Final {
		return false
	}
	since := at.tries.failSince
	if few {
		at.tries.fewSince = cmp.Or(at.tries.fewSince, at.facts.in.Now)
		since = at.tries.fewSince
	}
	return !since.IsZero() && at.facts.in.Now.Sub(since) >= endFailures*at.facts.cfg.StallGrace
}
