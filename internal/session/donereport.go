package session

import "github.com/swarmd/swarmd/internal/round"

// doneWith notes what came out of an attempt. Where parts have witnesses the plan itself asks for all that can be said of it.
func (a *attemptState) doneWith(job Job, done *round.Done) {
	a.done, a.job = done, job
	a.full = job.Plan.Witnesses > 0
	a.short = &round.Done{
		Round: done.Round, Attempt: done.Attempt, ModelDigest: done.ModelDigest, StateDigest: done.StateDigest,
		ShardsDigest: done.ShardsDigest, Signature: done.Signature, UpdateSquares: done.UpdateSquares,
	}
}

// says is what is reported of the attempt if it is done: that all have the same takes no more than what everybody signs of it.
func (a *attemptState) says() *round.Done {
	if a.done == nil || a.full {
		return a.done
	}
	return a.short
}

// askedLocked prepares to say all of an attempt that is done: before this node reports what owners have sealed it looks whether they have.
func (at *attempts) askedLocked(ask round.Asked) {
	s := at.s
	p, a := s.view.Plan, &at.newest
	if p == nil || !at.atLocked(p) || a.run != ask.Run || a.round != ask.Round || a.number != ask.Attempt || a.done == nil || a.asked || a.full {
		return
	}
	a.asked = true
	e, done, job := s.engine, a.done, a.job
	s.lifecycle.spawnLocked(func() {
		failed := e.cfg.Exchange.VerifySeals(job)
		e.mu.Lock()
		defer e.mu.Unlock()
		if at.newest.done != done { // it is decided
			return
		}
		if at.newest.full = failed == nil; failed != nil {
			at.newest.done, at.newest.failed = nil, failed
			e.cfg.Log.Warn("attempt of a round failed", "contract", s.contract, "round", failed.Round, "attempt", failed.Attempt,
				"blamed", failed.Blamed, "reason", failed.Reason)
		}
		e.poke()
	})
}
