package session

import (
	"slices"

	"github.com/swarmd/swarmd/internal/round"
)

// laterRunPatience is how many SNs in a row may know only an earlier run before that is told: one that lags does so for less.
const laterRunPatience = 5

// proveTo follows what an SN says to a heartbeat: whether it asks for proofs of what is held, as it knows nothing of that, and which
// sessions it does not know either.
func (e *Engine) proveTo(a round.Answer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if a.Prove && !e.prove {
		signal(e.beat)
	}
	e.prove = a.Prove
	s := e.current
	if s == nil {
		return
	}
	switch unknown := slices.Contains(a.Unknown, s.id); {
	case !unknown:
		s.laterRun = 0
	case e.prove:
		s.reopenLocked()
	default:
		if s.laterRun++; s.laterRun == laterRunPatience {
			e.cfg.Log.Error("the SNs know only an earlier run of this contract, so they were restored from a backup of before it was reset",
				"contract", s.contract, "run", s.run, "remedy", "swarmctl reset contract "+s.contract+" force")
		}
	}
}

// reopenLocked has a session opened anew, unless a view shows it soon.
func (s *session) reopenLocked() {
	if !s.reopening && !s.ended() {
		s.shown = false
		s.missingLocked()
	}
}

// noteAdoptedLocked says in this node's log that the SNs went on from what the SLs had. It is called before the view is taken.
func (s *session) noteAdoptedLocked(v *round.View) {
	a := v.Adopted
	if a.Round == 0 || v.Run != s.run && s.run != 0 || s.view.Adopted.Round == a.Round {
		return
	}
	s.engine.cfg.Log.Warn("the SNs were restored from a backup; training goes on from the newest model that most nodes have signed",
		"contract", s.contract, "last_round", a.LastRound, "proven_round", a.ProvenRound, "round", a.Round)
}

// closeAgainLocked tells the contract once more what it has forgotten since the SNs were restored from a backup: that this session's
// training has ended, and that its program has the final model.
func (s *session) closeAgainLocked(v *round.View) {
	if v.Adopted.Round == 0 || s.closesAgain || v.Run != s.run {
		return
	}
	state := standingIn(v, s.id).state
	switch {
	case state == "open" && s.closed:
		s.closesAgain = true
		s.spawnLocked(func() { s.engine.closeAnew(s) })
	case state == "closed" && s.finished && s.told && v.Over:
		s.closesAgain = true
		s.tellFinishedLocked()
	}
}
