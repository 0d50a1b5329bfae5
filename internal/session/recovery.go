package session

import (
	"errors"
	"fmt"
	"time"

	"github.com/swarmd/swarmd/internal/round"
)

// rollBackLocked follows the swarm back to an older model, which counts as a new round, if nothing needs to be fetched for it:
// this node holds that model, or nobody holds any. What its program learned from that model is still of use: its Sync is not
// answered by the step back, but by the round that it contributes to.
func (inv *inventory) rollBackLocked(want round.Model) bool {
	s := inv.s
	if inv.fetching || want.Exists() && (inv.held.Digest != want.Digest || inv.held.State != want.State) {
		return false
	}
	if s.attempts.newest.running() {
		s.attempts.newest.stop() // its task calls for the next reconciliation when it has ended
		return true
	}
	if inv.base == inv.held || !want.Exists() {
		inv.base = want
	}
	inv.held, inv.fetchErr, inv.fetchLog = want, nil, fetchLog{}
	s.recordLocked()
	inv.copies.keepLocked()
	s.lifecycle.notifyLocked()
	signal(s.engine.toReport)
	return true
}

// logLossLocked says in this node's log that the swarm lost a model. It is called before the view is taken.
func (s *session) logLossLocked(v *round.View) {
	lost, old := v.Lost, s.view.Lost
	if lost.Round == 0 || v.Run != s.run && s.run != 0 || old.Round == lost.Round && old.Digest == lost.Digest {
		return
	}
	if lost.ResumedRound == 0 {
		s.engine.cfg.Log.Warn("the committed model was lost: no node that is alive held it, nor an older one; training began anew",
			"contract", s.contract, "lost_round", lost.Round, "round", lost.Round+1)
		return
	}
	s.engine.cfg.Log.Warn("the committed model was lost: no node that is alive held it; training goes on from an older one",
		"contract", s.contract, "lost_round", lost.Round, "resumed_round", lost.ResumedRound, "round", lost.Round+1)
}

// CodeModelLost is the reason of a session that ends as its contract is completed and nobody holds the final model.
const CodeModelLost = "MODEL_LOST"

// errNowhere is wrapped when every holder that may have a model is there to say that it has not.
var errNowhere = errors.New("no live node holds the model")

// refused reports whether a holder has answered that it does not give the model, rather than not at all.
func refused(err error) bool {
	var r interface{ Refused() bool }
	return errors.As(err, &r) && r.Refused()
}

// fetchFailedLocked notes that the committed model could not be had. A final model that nobody alive holds will not come back:
// the others have ended, or miss it as this node does, and a session that is started anew knows no model.
func (inv *inventory) fetchFailedLocked(want round.Model, err error) {
	s := inv.s
	inv.fetchErr = err
	inv.fetchLog.note(s.engine.cfg.Log.With("contract", s.contract, "round", want.Round), err)
	if !s.view.Over || !errors.Is(err, errNowhere) {
		inv.lostSince = time.Time{}
		return
	}
	if inv.lostSince.IsZero() {
		inv.lostSince = time.Now()
	}
	if time.Since(inv.lostSince) >= s.engine.cfg.GiveUpFetch {
		s.giveUpLocked(&Error{
			CodeModelLost,
			fmt.Sprintf("the final model of contract %s (round %d) is held by no node that is alive: the other peers ended while this one was away", s.contract, want.Round),
			"take the model that another peer saved; or train again: swarmctl reset contract " + s.contract,
		})
	}
}
