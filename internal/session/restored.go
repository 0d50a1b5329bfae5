package session

import (
	"slices"

	"github.com/swarmd/swarmd/internal/round"
)

// laterRunLimit is how many SNs in a row may know only an earlier run before that is told: one that lags does so for less.
const laterRunLimit = 5

// proveTo follows what an SN says to a heartbeat: whether it asks for proofs of what is held, as it knows nothing of that, and which
// sessions it does not know either.
func (rp *reporter) proveTo(a round.Answer) {
	e := rp.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if a.Prove && !rp.prove {
		signal(e.toReport)
	}
	rp.prove = a.Prove
	s := e.current
	if s == nil {
		return
	}
	switch unknown := slices.Contains(a.Unknown, s.id); {
	case !unknown:
		s.membership.laterRun = 0
	case rp.prove:
		s.membership.reopenLocked()
	default:
		if s.membership.laterRun++; s.membership.laterRun == laterRunLimit {
			e.cfg.Log.Error("the SNs know only an earlier run of this contract, so they were restored from a backup of before it was reset",
				"contract", s.contract, "run", s.run, "remedy", "swarmctl reset contract "+s.contract+" force")
		}
	}
}

// reopenLocked has a session opened anew, unless a view shows it soon.
func (mb *membership) reopenLocked() {
	s := mb.s
	if !mb.reopening && !s.ended() {
		mb.shown = false
		mb.missingLocked()
	}
}

// logAdoptionLocked says in this node's log that the SNs went on from what the SLs had. It is called before the view is taken.
func (s *session) logAdoptionLocked(v *round.View) {
	a := v.Adopted
	if a.Round == 0 || v.Run != s.run && s.run != 0 || s.view.Adopted.Round == a.Round {
		return
	}
	s.engine.cfg.Log.Warn("the SNs were restored from a backup; training goes on from the newest model that most nodes have signed",
		"contract", s.contract, "last_round", a.LastRound, "proven_round", a.ProvenRound, "round", a.Round)
}

// closeAgainLocked tells the contract once more what it has forgotten since the SNs were restored from a backup: that this session's
// training has ended, and that its program has the final model.
func (mb *membership) closeAgainLocked(v *round.View) {
	s := mb.s
	if v.Adopted.Round == 0 || mb.closesAgain || v.Run != s.run {
		return
	}
	state := standingIn(v, s.id).state
	switch {
	case state == "open" && s.program.closed:
		mb.closesAgain = true
		s.lifecycle.spawnLocked(func() { s.membership.closeAnew() })
	case state == "closed" && s.program.finished && s.program.told && v.Over:
		mb.closesAgain = true
		s.tellFinishedLocked()
	}
}
