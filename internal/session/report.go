package session

import (
	"bytes"

	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session/statement"
)

// lastReport is what a session has reported last. Heartbeats repeat it: to sign each would cost more than to send it.
type lastReport struct {
	number  uint64
	message []byte // statement.Message without the number
	sig     []byte // nil: the SN that it was told leads, and nobody has asked for one
}

// reports is what a session tells the leader.
type reports struct {
	s    *session
	last lastReport // what the last report was, and its signature
}

// numberGap is far more than what a session can say between two entries in its journal: a later run begins so far behind the
// last number that is kept.
const numberGap = 1 << 20

// numberLocked numbers a report, and signs it if it is to be passed on.
func (rs *reports) numberLocked(r *round.Report, passedOn bool) {
	s := rs.s
	e := s.engine
	if e.cfg.Sign == nil {
		return
	}
	if message := statement.Message(e.cfg.Peer, r); rs.last.message == nil || !bytes.Equal(message, rs.last.message) {
		rs.last = lastReport{number: rs.last.number + 1, message: message}
	}
	r.Number = rs.last.number
	if passedOn && rs.last.sig == nil {
		sig, err := e.cfg.Sign(statement.Message(e.cfg.Peer, r))
		if err != nil { // the swarm refuses the report and says why
			e.cfg.Log.Error("could not sign what is reported", "contract", s.contract, "err", err)
			return
		}
		rs.last.sig = sig
	}
	if passedOn {
		r.Signature = rs.last.sig
	}
}

// reportLocked is this session's part of a heartbeat.
func (rs *reports) reportLocked() *round.Report {
	s := rs.s
	r := &round.Report{Session: s.id, Contract: s.contract, Run: s.run, Progress: rs.progressLocked()}
	r.Held, r.Trained = s.model.copies.heldLocked(), s.program.training.reportedLocked()
	if s.engine.reporter.prove {
		r.Proofs = s.model.copies.signed.Told()
	}
	of, offers := s.program.offersLocked()
	if norm, known := s.norm.normLocked(of); offers && known && !s.program.finished {
		r.Ready = &round.Ready{Seq: of.seq, BaseRound: of.base.Round, BaseDigest: of.base.Digest, UpdateNorm: norm, Refuses: s.peers.refusedLocked()}
		if of.closed {
			r.Ready.Seq, r.Ready.Weight = s.program.lastSeq, s.program.closedWeight()
		} else {
			r.Ready.Weight = s.program.offered.weight
		}
	}
	if p := s.view.Plan; p != nil && s.attempts.atLocked(p) {
		r.Done, r.Failed = s.attempts.newest.says(), s.attempts.newest.failed
	}
	rs.waysLocked(r)
	return r
}

// waysLocked adds whom this node can't reach, if the leader takes what came into reports together with what programs have trained:
// another can't verify a signature over it.
func (rs *reports) waysLocked(r *round.Report) {
	e := rs.s.engine
	switch {
	case !e.reporter.takesTrained && r.Failed != nil && r.Failed.Unreached != nil:
		plain := *r.Failed
		plain.Unreached = nil
		r.Failed = &plain
	case e.reporter.takesTrained && e.cfg.Unreached != nil:
		r.Unreached = e.cfg.Unreached(rs.s.contract)
	}
}

func (rs *reports) progressLocked() *round.Progress {
	s := rs.s
	p := s.program.progress
	p.Phase = s.program.phaseLocked()
	p.SentBytes, p.ReceivedBytes = s.engine.cfg.Exchange.Traffic()
	return &p
}
