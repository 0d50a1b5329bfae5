package session

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/session/begun"
	"github.com/swarmd/swarmd/internal/session/proof"
	"github.com/swarmd/swarmd/internal/session/sent"
	"github.com/swarmd/swarmd/merge"
)

// Modes of contribution after a program's training ended.
const (
	modeInactive = "inactive"
	modeActive   = "active"
)

// model names a committed model; the zero value is "none yet".
type model struct {
	round  uint64
	digest string // hex; empty with a round: training began anew, since no node held a model any more
	state  string // hex digest of the optimiser's state that belongs to it; empty if the method has none
}

// exists tells whether there are weights.
func (m model) exists() bool { return m.digest != "" }

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
	open     *swarmv1.OpenSessionRequest
	openJSON json.RawMessage // open as it is recorded
	layout   *merge.Layout
	method   *merge.Method
	slots    Slots
	cancel   context.CancelFunc // ends the watch, the exchange and the fetch
	ctx      context.Context    //nolint:containedctx // the session's own lifetime, shared by its three tasks

	resumed   bool   // from an earlier life of the daemon
	known     uint64 // index of the newest view of that life
	localName string // the local slot's name, for the record

	view    *swarmv1.ContractView // newest view
	changed chan struct{}         // closed and replaced at each change that a waiting program may care for

	base      model          // what the program's training started from
	held      model          // what the committed slot holds
	leaves    []merge.Digest // of held
	turn      uint64         // of the slots
	heldSlot  string
	kept      model   // what was last copied to disk
	keptFinal bool    // … as the final one, synced
	keeping   bool    // a copy is under way
	copies    []model // that lie on disk
	norm      norm
	offered   *offer
	sent      *sent.Record // what may have gone to whom of what is offered, or frozen
	begun     *begun.Record
	signed    proof.Book // the newest committed rounds that this node merged
	lastSeq   uint64
	last      *Result // answer to lastSeq
	closing   bool    // the program called Close
	closed    bool    // the contract knows
	finished  bool    // the program was given the final model
	final     *Result // the answer that gave it
	told      bool    // the contract was told so, or could not be
	deleted   bool    // the contract is gone
	err       error   // why the session ended, nil while it lives

	tasks   sync.WaitGroup // the watch, the exchange, the fetch, the calls to the contract
	attempt attemptState
	named   struct { // by Exchange.Planned
		plan *swarmv1.Plan
		as   string
	}
	fetching    bool
	learning    bool              // Trust asks for something
	refused     []string          // nodes that this one takes part in nothing with
	missed      error             // why the last fetch of the committed model failed; nil once it is held
	lostSince   time.Time         // since when nobody alive holds the final model
	progress    *swarmv1.Progress // never nil
	spoken      lastSaid          // what the last report was, and its signature
	shown       bool              // the newest view shows this session
	laterRun    int               // how many heartbeats in a row the SNs have known only an earlier run
	reopening   bool              // it is being opened anew
	closesAgain bool              // it tells the contract once more that it has closed, or finished
	moved       bool              // it went to another run, as an SN had told a wrong one
	doubted     bool              // an SN has told what does not hold, or what others do not, and they have not agreed since
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
func (s *session) answeredLocked(v *swarmv1.ContractView) {
	if s.view == nil || v.Index >= s.view.Index {
		s.viewLocked(v)
	}
}

// viewLocked takes a view of the contract as the next one. Their order is the client's matter, as far as it rests on what SNs
// say; an SN that lags must not take back the session's run, or a model that this node has.
func (s *session) viewLocked(v *swarmv1.ContractView) {
	s.shown = shows(v, s.id)
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
	if v.Run == s.run && s.held.exists() && v.GetCommitted().GetRound() < s.held.round || !s.recognisedLocked(v) {
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
	for _, m := range v.Sessions {
		if m.Id == s.id && m.State == "ended" && !s.finished {
			s.terminateLocked(&Error{"SESSION_ENDED", "the swarm ended this session: " + m.EndReason, "see `swarmctl get contract status " + s.contract + "`"})
		}
		if m.Id == s.id && m.State == "closed" {
			s.closed = true
		}
	}
}

// reportLocked is this session's part of a heartbeat.
func (s *session) reportLocked() *swarmv1.SessionReport {
	r := &swarmv1.SessionReport{Session: s.id, Contract: s.contract, Run: s.run, Progress: s.progressLocked()}
	r.Held = s.heldLocked()
	if s.engine.prove {
		r.Proofs = s.signed.Told()
	}
	of, offers := s.offersLocked()
	if norm, known := s.normLocked(of); offers && known && !s.finished {
		r.Ready = &swarmv1.Ready{Seq: of.seq, BaseRound: of.base.round, BaseDigest: of.base.digest, UpdateNorm: norm, Refuses: s.refusedLocked()}
		if of.closed {
			r.Ready.Seq, r.Ready.Weight = s.lastSeq, s.closedWeight()
		} else {
			r.Ready.Weight = s.offered.weight
		}
	}
	if p := s.view.GetPlan(); p != nil && s.atLocked(p) {
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

func (s *session) progressLocked() *swarmv1.Progress {
	p, _ := proto.Clone(s.progress).(*swarmv1.Progress)
	p.Phase = s.phaseLocked()
	return p
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

// committedLocked is the contract's last committed model as this node knows it.
func (s *session) committedLocked() model {
	c := s.view.GetCommitted()
	return model{round: c.GetRound(), digest: c.GetDigest(), state: c.GetStateDigest()}
}
