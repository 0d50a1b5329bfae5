package state

import (
	"errors"
	"fmt"

	"github.com/swarmd/swarmd/consensus/ledger"
)

// LoseModel goes back from a committed model that no node holds any more to the newest one that is held, or to none. It takes
// the next round's number: a number never names two models, so whoever was away learns from the number alone that training
// went on without what was lost. That round was merged by nobody and has attempt 0.
type LoseModel struct {
	Contract string `json:"contract"`
	Run      uint64 `json:"run"`
	Round    uint64 `json:"round"`  // the last committed one, whose model is lost
	Digest   string `json:"digest"` // of that model
	// ResumedRound is the round whose model training goes on from, 0: training begins anew. Digests are in hex.
	ResumedRound       uint64 `json:"resumed_round,omitempty"`
	ResumedDigest      string `json:"resumed_digest,omitempty"`
	ResumedStateDigest string `json:"resumed_state_digest,omitempty"` // empty if the method has no optimiser state
	AtMS               int64  `json:"at_ms"`
}

// Type implements Command.
func (LoseModel) Type() string { return "lose_model" }

func (l LoseModel) apply(s *State) (Result, error) {
	if err := l.check(); err != nil {
		return Result{}, err
	}
	c, err := s.contractRun(l.Contract, l.Run)
	if err != nil {
		return Result{}, err
	}
	result := Result{Contract: c.Name, Run: c.Run}
	if c.Lost != nil && c.Lost.Round == l.Round && c.Lost.Digest == l.Digest {
		return result, nil
	}
	switch {
	case c.Over:
		return Result{}, contractOver(c.Name)
	case !c.HasModel():
		return Result{}, reject(ReasonNoModel, "", "contract %s has no committed model to lose", c.Name)
	case c.Committed.Round != l.Round || c.Committed.Digest != l.Digest:
		return Result{}, reject(ReasonStalePlan, "", "contract %s is at round %d, not %d", c.Name, c.Committed.Round, l.Round)
	case c.Plan != nil: // whoever merges holds the model
		return Result{}, reject(ReasonStalePlan, "", "contract %s: round %d is being merged", c.Name, c.Plan.Round)
	}
	c.Committed = &CommittedRound{
		Round: l.Round + 1, Digest: l.ResumedDigest, StateDigest: l.ResumedStateDigest, Participants: []string{},
		NextInterval: c.Committed.NextInterval, CommittedMS: l.AtMS, PlannedMS: l.AtMS,
	}
	c.Lost = &LostModel{Round: l.Round, Digest: l.Digest, ResumedRound: l.ResumedRound, AtMS: l.AtMS}
	c.Attempt, c.Due, c.PendingReason = 0, nil, Clip(c.Lost.String(), maxShort)
	uncount(c, l.ResumedRound)
	c.settle()
	result.Changed = true
	return result, nil
}

func (l LoseModel) records(_, _ *State) (int64, []ledger.Body) { //nolint:unparam // it implements recorder
	return l.AtMS, nil
}

func (l LoseModel) check() error {
	anew := l.ResumedRound == 0
	switch {
	case l.Round < 1 || !validHex(l.Digest, 64):
		return reject(ReasonBadCommand, "", "bad lost round %d or digest %q", l.Round, clip(l.Digest, 80))
	case l.ResumedRound >= l.Round, anew != (l.ResumedDigest == ""), !anew && !validHex(l.ResumedDigest, 64),
		l.ResumedStateDigest != "" && (anew || !validHex(l.ResumedStateDigest, 64)):
		return reject(ReasonBadCommand, "", "round %d can't go back to round %d with digest %q", l.Round, l.ResumedRound, clip(l.ResumedDigest, 80))
	}
	return nil
}

// String says in one line what happened.
func (l *LostModel) String() string {
	if l.ResumedRound == 0 {
		return fmt.Sprintf("the model of round %d was lost, as no node that is alive holds it, nor an older one: training began anew as round %d", l.Round, l.Round+1)
	}
	return fmt.Sprintf("the model of round %d was lost, as no node that is alive holds it: training went back to that of round %d, which counts as round %d",
		l.Round, l.ResumedRound, l.Round+1)
}

// HasModel reports whether there is a committed model: not before the first round, nor when training began anew since.
func (c *Contract) HasModel() bool { return c.Committed != nil && c.Committed.Digest != "" }

// checkCommitted holds what must be true of the last committed round.
func (c *Contract) checkCommitted() error {
	r := c.Committed
	switch {
	case r == nil:
		if c.Lost != nil || c.Adopted != nil {
			return errors.New("a model was lost or adopted, and none was committed")
		}
	case r.Round < 1 || c.Terms == nil:
		return errors.New("bad committed round")
	case r.Attempt == 0 && c.adopts(r):
	case r.Attempt == 0: // it resumes an older model
		anew := r.Digest == ""
		if c.Lost == nil || r.Round != c.Lost.Round+1 || anew != (c.Lost.ResumedRound == 0) || !anew && !validHex(r.Digest, 64) {
			return errors.New("bad round after a lost model")
		}
	case !validHex(r.Digest, 64):
		return errors.New("bad committed round")
	}
	if c.Over && !c.HasModel() {
		return errors.New("over without a model")
	}
	return nil
}
