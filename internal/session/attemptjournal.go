package session

import (
	"errors"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session/recipients"
)

// journalLocked keeps that an attempt is begun, and to whom leaves go in it, before it begins. If it was begun before, or what is offered
// may not go to these nodes too, the attempt is not begun, and the leader is told so: it skips that Sync then, and what is offered next is
// bound by nothing that an SN said before.
func (at *attempts) journalLocked(job Job) bool {
	s := at.s
	p, gone, code := job.Plan, at.sent, ""
	next, err := at.begun.After(s.run, p.Round, p.Attempt, s.model.passedLocked(), at.plannedLocked(p))
	if err == nil && p.Participants[job.Self].Weight > 0 && !s.program.publicLocked() { // Else nothing goes out that the others have not got.
		if gone, err = at.sent.After(s.program.contributionLocked(), p, job.Self); err != nil {
			code = state.ReasonThirdOwner
			s.membership.doubted = s.membership.doubted || errors.Is(err, recipients.ErrRule)
		}
	}
	if err == nil {
		at.begun, at.sent = next, gone
		s.recordLocked()
		return true
	}
	at.newest = at.attemptOfLocked(p)
	at.newest.failed = &round.Failed{Round: p.Round, Attempt: p.Attempt, Code: code, Reason: err.Error()}
	s.engine.cfg.Log.Warn("attempt of a round is not begun", "contract", s.contract, "round", p.Round, "attempt", p.Attempt, "err", err)
	signal(s.engine.toReport)
	return false
}

// passedLocked is the newest round of this run of which this node has had the model; 0: none.
func (inv *inventory) passedLocked() (newest uint64) {
	for _, m := range []round.Model{inv.base, inv.held} {
		if m.Exists() {
			newest = max(newest, m.Round)
		}
	}
	return newest
}

// publicLocked reports whether this node contributes the committed model.
func (pr *program) publicLocked() bool {
	s := pr.s
	return pr.closed && s.checkinLocked() == state.CheckinActive && s.model.held.Exists()
}
