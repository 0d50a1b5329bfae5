package session

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/bridge/wire"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session/models"
	"github.com/swarmd/swarmd/merge"
)

// Opened is what the program needs to know of its session.
type Opened struct {
	Session string
	Slots   models.Slots
}

// Open enrols a new session with a model of this layout; it blocks until the contract has it or refuses it. What the program asks for is in
// the request, its method in any spelling; what the node asks for is added here. A program that is started again by hand
// replaces the session that its predecessor left open.
func (e *Engine) Open(ctx context.Context, req round.Open, layout *merge.Layout) (*Opened, error) {
	e.mu.Lock()
	parent := e.ctx
	old := e.current
	late := req.Contract != e.cfg.Settled && !(old != nil && old.program.finished && old.contract == req.Contract)
	e.mu.Unlock()
	if parent == nil {
		return nil, &Error{"DAEMON_STOPPED", "the daemon is not running", "start the node again"}
	}
	if old != nil {
		e.replace(old)
	}
	s, err := e.newSession(parent, req, layout)
	if err != nil {
		return nil, err
	}
	s.open.Late = late // not for another training by who has this one's final model
	view, err := e.cfg.Control.Open(ctx, s.open)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		s.model.closeSlots()
		s.lifecycle.spawnLocked(func() { s.membership.abortOpening() })
		return nil, reasoned(err, "OPEN_REFUSED")
	}
	s.run = view.Run
	s.answeredLocked(view)
	if s.err != nil {
		s.model.closeSlots()
		return nil, s.err
	}
	visible := s.model.slots // before what only the daemon sees
	if err := s.model.equipFor(view); err != nil {
		s.model.closeSlots()
		s.lifecycle.spawnLocked(func() { s.membership.abortOpening() })
		return nil, reasoned(err, "NO_SPACE")
	}
	e.current, e.seen = s, true
	s.recordLocked()
	s.lifecycle.spawnLocked(func() { s.membership.watch() })
	s.lifecycle.spawnLocked(func() { s.membership.watchMinPeers() })
	s.lifecycle.spawnLocked(func() { s.membership.compare() })
	e.cfg.Log.Info("session opened", "contract", s.contract, "session", s.id, "model_bytes", s.model.form.Layout.Bytes())
	e.poke()
	s.lifecycle.spawnLocked(func() { s.model.copies.look(view.Run) })
	return &Opened{Session: s.id, Slots: visible}, nil
}

func (e *Engine) newSession(parent context.Context, req round.Open, layout *merge.Layout) (*session, error) {
	var err error
	if req.Terms.Method, err = canonical(req.Terms.Method); err != nil {
		return nil, err
	}
	slots, err := e.cfg.NewSlots(layout.Bytes())
	if err != nil {
		return nil, reasoned(err, "NO_SPACE")
	}
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	ctx, cancel := context.WithCancel(parent)
	req.Session = hex.EncodeToString(id)
	req.Terms.LayoutDigest, req.Terms.Layout = layout.Digest().String(), layout.Canonical()
	req.ExpectedPeers, req.Isolation, req.CheckinDefault = e.cfg.ExpectedPeers, e.cfg.Isolation, e.cfg.CheckinDefault
	if e.cfg.Program != nil {
		req.Program = e.cfg.Program()
	}
	e.cfg.Timeouts.request(&req)
	s := sessionOf(ctx, cancel, e, &req, models.Form{Layout: layout})
	s.model.slots, s.program.localName, s.program.progress.TotalEpochs = slots, slots.LocalName(), req.TotalEpochs
	return s, nil
}

// replace ends a session whose program is gone and waits until none of its tasks uses its files any more.
func (e *Engine) replace(old *session) {
	e.mu.Lock()
	ended := old.ended()
	old.terminateLocked(&Error{"REPLACED", "another program opened a session at this node", "run one program per node"})
	e.current = nil
	e.mu.Unlock()
	if !ended {
		e.cfg.Log.Warn("a new program replaces an open session", "contract", old.contract, "session", old.id)
	}
	old.lifecycle.tasks.Wait()
	e.cfg.Exchange.Forget(old.contract)
	e.mu.Lock()
	old.model.copies.keepLast()
	old.model.closeSlots()
	e.mu.Unlock()
}

// watch follows the contract until the session's end.
func (mb *membership) watch() {
	s, e := mb.s, mb.s.engine
	for {
		err := e.cfg.Control.Watch(s.lifecycle.ctx, s.contract, func(v *round.View) {
			e.mu.Lock()
			defer e.mu.Unlock()
			s.viewLocked(v)
			s.lifecycle.notifyLocked()
			signal(e.wake)
		})
		if err == nil || s.lifecycle.ctx.Err() != nil {
			return
		}
		e.mu.Lock()
		again := mb.unknownLocked(err)
		if !again {
			s.lostContractLocked(err)
		}
		e.mu.Unlock()
		if !again {
			return
		}
		pause(s.lifecycle.ctx, reopenAfter)
		mb.reopen()
	}
}

// lostContractLocked ends the session because its contract can't be followed any more. One that is unknown once it had a session of
// this node was deleted.
func (s *session) lostContractLocked(err error) {
	if own, ok := errors.AsType[*Error](err); ok && own.Code == codeContractUnknown {
		s.program.deleted = true
		err = &Error{"DELETED", fmt.Sprintf("contract %s was deleted, and this session of its run %d with it", s.contract, s.run), "ask who deleted it; to train anew start the program again"}
	}
	s.terminateLocked(reasoned(err, "CONTRACT_LOST"))
}

// Sync offers the weights in the local slot and blocks until the swarm has committed a newer model, the session ends, or
// ctx ends (then ctx's error: ask again, the call is idempotent by seq).
func (e *Engine) Sync(ctx context.Context, id string, seq uint64, weight uint32) (*wire.SyncResponse, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s, err := e.sessionLocked(id)
	if err != nil {
		return nil, err
	}
	switch {
	case seq == s.program.lastSeq && s.program.last != nil:
		return s.program.last, nil
	case s.program.closing:
		return nil, &Error{"SESSION_CLOSED", "sync after close", "open a new session"}
	case s.program.offered != nil && seq == s.program.offered.seq:
	case s.program.offered == nil && seq == s.program.lastSeq+1:
		s.program.offered = &offer{seq: seq, weight: weight}
		s.weighLocked(weight)
		s.program.training.contributesLocked(seq, false)
		s.recordLocked()
		e.poke()
	default:
		return nil, &Error{"BAD_SEQ", fmt.Sprintf("sync number %d, want %d", seq, s.program.lastSeq+1), "number Sync calls 1, 2, 3, … without gaps"}
	}
	return s.await(ctx, func() *wire.SyncResponse {
		if s.program.lastSeq == seq {
			return s.program.last
		}
		return nil
	})
}

// await blocks until ready returns a result, the session ends, or ctx ends. Called with Engine.mu held, which it releases
// while it waits.
func (s *session) await(ctx context.Context, ready func() *wire.SyncResponse) (*wire.SyncResponse, error) {
	for {
		if r := ready(); r != nil {
			return r, nil
		}
		if s.err != nil {
			return nil, s.err
		}
		changed := s.lifecycle.changed
		s.engine.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-changed:
		}
		s.engine.mu.Lock()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

func (e *Engine) sessionLocked(id string) (*session, error) {
	s := e.current
	if s == nil || s.id != id {
		return nil, &Error{"NO_SESSION", "no such session at this node", "open a session first"}
	}
	if s.err != nil {
		return nil, s.err
	}
	return s, nil
}

// Report takes what the program measured. Loss and metric of an earlier call stay when p has none.
func (e *Engine) Report(id string, p round.Progress) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	s, err := e.sessionLocked(id)
	if err != nil {
		return err
	}
	if p.HasLoss {
		s.program.progress.Loss, s.program.progress.HasLoss, s.program.progress.Round = p.Loss, true, p.Round
	}
	if p.HasMetric {
		s.program.progress.Metric, s.program.progress.HasMetric, s.program.progress.Round = p.Metric, true, p.Round
		s.program.progress.MetricName = p.MetricName
	}
	s.program.progress.EpochsDone = p.EpochsDone
	if p.TotalEpochs > 0 {
		s.program.progress.TotalEpochs = p.TotalEpochs
	}
	signal(e.toReport)
	return nil
}

// Close commits that training ended and blocks until the final model is here (then that is the answer), the session ends, or ctx
// ends (then ctx's error: ask again).
func (e *Engine) Close(ctx context.Context, id, mode string) (*wire.SyncResponse, error) {
	e.mu.Lock()
	s, err := e.sessionLocked(id)
	if err != nil {
		e.mu.Unlock()
		return nil, err
	}
	if s.program.finished && s.program.final != nil {
		e.mu.Unlock()
		return s.program.final, nil // asked again: the answer was lost
	}
	if !s.program.closing {
		s.program.closing = true
		s.program.training.contributesLocked(s.program.lastSeq, true)
	}
	if mode != "" {
		s.open.CheckinMode = mode
	}
	s.recordLocked()
	committed := s.program.closed
	req := s.closeRequestLocked()
	e.mu.Unlock()
	if !committed {
		view, err := e.cfg.Control.Close(ctx, req)
		if ctx.Err() != nil && err != nil {
			return nil, ctx.Err() // no SN has answered in time, which is no refusal
		}
		if err != nil {
			return nil, reasoned(err, "CLOSE_REFUSED")
		}
		e.mu.Lock()
		s.program.closed = true
		s.answeredLocked(view)
		e.mu.Unlock()
		e.poke()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	r, err := s.await(ctx, func() *wire.SyncResponse {
		if !s.program.training.busy && s.model.finalLocked() && (s.model.copies.last == s.model.held && s.model.copies.final || e.cfg.ModelDir == "") { // the final model is on disk before the program is told
			return s.program.resultLocked(s.program.lastSeq)
		}
		return nil
	})
	if err == nil && !s.program.finished {
		e.reporter.exchangeLocked(ctx)
		s.program.finishLocked(r)
	}
	return r, err
}

// Weigh takes the number of samples that a program names with its Close.
func (e *Engine) Weigh(id string, samples uint32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s := e.current; s != nil && s.id == id && !s.program.closed {
		s.weighLocked(samples)
	}
}

// weighLocked makes the newest number of samples the session's weight, which it keeps when it is closed or opened anew.
func (s *session) weighLocked(weight uint32) {
	if s.open.Terms.Weights == state.WeightsSamples {
		s.open.Weight = weight
	}
}

// samples is the session's weight if it is a number of samples, else nil.
func (s *session) samples() *uint32 {
	if s.open.Terms.Weights == state.WeightsSamples {
		return new(s.open.Weight)
	}
	return nil
}

// Abort ends the session because the program says that it can not go on.
func (e *Engine) Abort(ctx context.Context, id, reason string) error {
	e.mu.Lock()
	s, err := e.sessionLocked(id)
	e.mu.Unlock()
	if err != nil {
		return err
	}
	reason = abortReason(reason)
	e.cfg.Log.Warn("the program gave its session up", "contract", s.contract, "session", s.id, "reason", reason)
	return e.end(ctx, s, reason, 1)
}
