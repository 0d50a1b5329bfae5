package session

import "github.com/swarmd/swarmd/internal/bridge/wire"

// skipLocked answers the waiting Sync without a model when the swarm has given up what it offered: the program goes on with its
// own weights, from the same base and for the same interval. If a newer model was committed meanwhile the program gets that.
func (pr *program) skipLocked() {
	s := pr.s
	o := pr.offered
	if o == nil || o.seq > pr.skippedLocked() || s.model.base != s.view.Model() || s.program.training.busy {
		return
	}
	if s.attempts.newest.running() {
		s.attempts.newest.stop() // The program is about to write what it reads. Its task calls for the next reconciliation.
		return
	}
	r := &wire.SyncResponse{Round: s.model.base.Round, Slot: s.model.heldSlot, Digest: s.model.base.Digest, Interval: max(int(s.open.SyncFrequency), 1), Skipped: true}
	if c := s.view.Committed; c.Round > 0 {
		r.Interval = max(int(c.NextInterval), 1)
	}
	pr.last, pr.lastSeq, pr.offered = r, o.seq, nil
	s.recordLocked()
	s.engine.cfg.Log.Warn("a round was skipped; the program trains on with its own weights", "contract", s.contract,
		"round", s.model.base.Round+1, "reason", s.view.Skipped)
	s.lifecycle.notifyLocked()
	signal(s.engine.toReport)
}

// skippedLocked is the newest Sync that the swarm has skipped.
func (pr *program) skippedLocked() uint64 {
	s := pr.s
	if m := s.view.Session(s.id); m != nil {
		return m.SkippedSeq
	}
	return 0
}
