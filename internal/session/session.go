package session

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session/begun"
	"github.com/swarmd/swarmd/internal/session/models"
	"github.com/swarmd/swarmd/internal/session/sent"
	"github.com/swarmd/swarmd/merge"
)

// Modes of contribution after a program's training ended.
const (
	modeInactive = "inactive"
	modeActive   = "active"
)

// offer is a Sync that the program waits for.
type offer struct {
	seq    uint64
	weight uint32
}

// session is one program's membership of a contract. Its methods whose names end in Locked need Engine.mu.
type session struct {
	engine   *Engine
	id       string
	contract string
	run      uint64
	open     *round.Open
	form     models.Form // the method is nil until the contract is known
	slots    models.Slots
	cancel   context.CancelFunc // ends the watch, the exchange and the fetch
	ctx      context.Context    //nolint:containedctx // the session's own lifetime, shared by its three tasks

	resumed   bool // from an earlier life of the daemon
	before    before
	localName string // the local slot's name, for the record

	view    *round.View   // newest view
	changed chan struct{} // closed and replaced at each change that a waiting program may care for

	base     round.Model    // what the program's training started from
	held     round.Model    // what the committed slot holds
	leaves   []merge.Digest // of held
	turn     uint64         // of the slots
	heldSlot string
	copies   copies
	norm     norm
	offered  *offer
	sent     *sent.Record // what may have gone to whom of what is offered, or frozen
	begun    *begun.Record
	lastSeq  uint64
	last     *Result // answer to lastSeq
	closing  bool    // the program called Close
	closed   bool    // the contract knows
	finished bool    // the program was given the final model
	final    *Result // the answer that gave it
	told     bool    // the contract was told so, or could not be
	deleted  bool    // the contract is gone
	err      error   // why the session ended, nil while it lives

	tasks   sync.WaitGroup // the watch, the exchange, the fetch, the calls to the contract
	attempt attemptState
	named   struct { // by Exchange.Planned
		plan *round.Plan
		as   string
	}
	fetching    bool
	learning    bool      // Trust asks for something
	refused     []string  // nodes that this one takes part in nothing with
	missed      error     // why the last fetch of the committed model failed; nil once it is held
	lostSince   time.Time // since when nobody alive holds the final model
	progress    round.Progress
	spoken      lastSaid // what the last report was, and its signature
	shown       bool     // the newest view shows this session
	laterRun    int      // how many heartbeats in a row the SNs have known only an earlier run
	reopening   bool     // it is being opened anew
	closesAgain bool     // it tells the contract once more that it has closed, or finished
	moved       bool     // it went to another run, as an SN had told a wrong one
	doubted     bool     // an SN has told what does not hold, or what others do not, and they have not agreed since
}

// Result is the answer to a Sync or Close.
type Result struct {
	Round        uint64   `json:"round"`
	Slot         string   `json:"slot"` // name of the slot that holds the model
	Digest       string   `json:"digest"`
	Interval     uint32   `json:"interval"`
	Participants []string `json:"participants,omitempty"`
	Contributed  bool     `json:"contributed,omitempty"`
	TrainingOver bool     `json:"training_over,omitempty"`
	Skipped      bool     `json:"skipped,omitempty"` // no new model: Round, Slot and Digest are those that training started from
}

func (s *session) ended() bool { return s.err != nil || s.finished }

// notifyLocked wakes the program's waiting calls.
func (s *session) notifyLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// terminateLocked ends the session with the reason that the program will see.
func (s *session) terminateLocked(err error) {
	s.cancel() // also when it was given up: nobody waits for its last words any more
	if s.err != nil {
		return
	}
	s.err = err
	s.recordLocked()
	s.notifyLocked()
}

// spawnLocked runs fn as a task of the session, which Run and a replacing session wait for. A no-op once Run is ending.
func (s *session) spawnLocked(fn func()) {
	e := s.engine
	if e.ctx == nil {
		return
	}
	e.tasks.Add(1)
	s.tasks.Add(1)
	go func() {
		defer e.tasks.Done()
		defer s.tasks.Done()
		fn()
	}()
}

func (s *session) closeSlots() {
	if s.slots == nil {
		return
	}
	if err := s.slots.Close(); err != nil {
		s.engine.cfg.Log.Warn("close weight files", "err", err)
	}
	s.slots = nil
}

// answeredLocked takes the view that a call has returned, unless the watch has shown a newer one.
func (s *session) answeredLocked(v *round.View) {
	if v.Index >= s.view.Index {
		s.viewLocked(v)
	}
}

// viewLocked takes a view of the contract as the next one. Their order is the client's matter, as far as it rests on what SNs
// say; an SN that lags must not take back the session's run, or a model that this node has.
func (s *session) viewLocked(v *round.View) {
	s.shown = shows(v, s.id)
	s.before.refounded(s.engine.cfg.Swarm)
	next, missing := s.placeLocked().after(v.Run, standingIn(v, s.id).state)
	if missing {
		s.missingLocked()
	}
	switch next {
	case follow:
		s.engine.cfg.Log.Warn("this session is of another run than an SN had said", "contract", s.contract, "session", s.id, "run", v.Run, "said", s.run)
		s.goLocked(v)
		s.recordLocked()
	case ignore:
		return
	}
	if v.Run == s.run && s.held.Exists() && v.Committed.Round < s.held.Round || !s.recognisedLocked(v) {
		return
	}
	s.noteLostLocked(v)
	s.noteAdoptedLocked(v)
	s.view = v
	close(s.engine.viewed)
	s.engine.viewed = make(chan struct{})
	if next == reset {
		s.terminateLocked(&Error{"RESET", fmt.Sprintf("contract %s was reset (run %d, this session belongs to run %d)", s.contract, v.Run, s.run), "start the program again"})
		return
	}
	s.closeAgainLocked(v)
	switch m := v.Session(s.id); {
	case m == nil:
	case m.State == "ended" && !s.finished:
		s.terminateLocked(&Error{"SESSION_ENDED", "the swarm ended this session: " + m.EndReason, "see `swarmctl get contract status " + s.contract + "`"})
	case m.State == "closed":
		s.closed = true
	}
}

// reportLocked is this session's part of a heartbeat.
func (s *session) reportLocked() *round.Report {
	r := &round.Report{Session: s.id, Contract: s.contract, Run: s.run, Progress: s.progressLocked()}
	r.Held = s.copies.heldLocked()
	if s.engine.prove {
		r.Proofs = s.copies.signed.Told()
	}
	of, offers := s.offersLocked()
	if norm, known := s.normLocked(of); offers && known && !s.finished {
		r.Ready = &round.Ready{Seq: of.seq, BaseRound: of.base.Round, BaseDigest: of.base.Digest, UpdateNorm: norm, Refuses: s.refusedLocked()}
		if of.closed {
			r.Ready.Seq, r.Ready.Weight = s.lastSeq, s.closedWeight()
		} else {
			r.Ready.Weight = s.offered.weight
		}
	}
	if p := s.view.Plan; p != nil && s.atLocked(p) {
		r.Done, r.Failed = s.attempt.says(), s.attempt.failed
	}
	return r
}

func (s *session) closedWeight() uint32 {
	if s.open.CheckinMode == modeInactive {
		return 0
	}
	return s.open.Weight
}

func (s *session) progressLocked() *round.Progress {
	p := s.progress
	p.Phase = s.phaseLocked()
	return &p
}

func (s *session) phaseLocked() string {
	switch {
	case s.finished:
		return "finished"
	case s.attempt.running():
		return "merging"
	case s.closing:
		return "closed"
	case s.offered != nil:
		return "ready"
	}
	return "training"
}

// finalLocked reports whether the held model is the contract's final one. A view can be ahead of what is held.
func (s *session) finalLocked() bool { return s.view.Over && s.held == s.view.Model() }

// refLocked names a model of this session's contract and run.
func (s *session) refLocked(m round.Model) round.Ref {
	return round.Ref{Contract: s.contract, Run: s.run, Model: m}
}
