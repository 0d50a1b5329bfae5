package session

import (
	"fmt"
	"time"
)

// missLocked notes that the committed model could not be had. A final model that nobody alive holds will not come back:
// the others have ended, and a session that is started anew knows no model.
func (s *session) missLocked(want model, err error) {
	if s.missed == nil || s.missed.Error() != err.Error() {
		s.engine.cfg.Log.Warn("fetch the committed model; trying again", "contract", s.contract, "round", want.round, "err", err)
	}
	s.missed = err
	if !s.view.Over || len(s.holdersLocked()) > 0 {
		s.lostSince = time.Time{}
		return
	}
	if s.lostSince.IsZero() {
		s.lostSince = time.Now()
	}
	if time.Since(s.lostSince) >= s.engine.cfg.GiveUpFetch {
		s.giveUpLocked(&Error{
			"MODEL_LOST",
			fmt.Sprintf("the final model of contract %s (round %d) is held by no node that is alive: the other peers ended while this one was away", s.contract, want.round),
			"take the model that another peer saved; or train again: swarmctl reset contract " + s.contract,
		})
	}
}
