package session

import (
	"context"
	"fmt"
	"sync"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/bridge/wire"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session/models"
)

// offer is a Sync that the program waits for.
type offer struct {
	seq    uint64
	weight uint32
}

// session is one program's membership of a contract: what all its parts go by. Methods whose names end in Locked need Engine.mu, as do the
// parts' own.
type session struct {
	engine   *Engine
	id       string
	contract string
	run      uint64
	open     *round.Open
	view     *round.View // newest view
	err      error       // why the session ended, nil while it lives

	lifecycle  lifecycle
	program    program
	model      inventory
	attempts   attempts
	membership membership
	norm       norms
	peers      peers
	reports    reports
}

// sessionOf returns a session of an engine, with its parts.
func sessionOf(ctx context.Context, cancel context.CancelFunc, e *Engine, open *round.Open, form models.Form) *session {
	s := &session{engine: e, id: open.Session, contract: open.Contract, open: open, view: &round.View{}}
	s.lifecycle = lifecycle{s: s, ctx: ctx, cancel: cancel, changed: make(chan struct{})}
	s.program.s, s.attempts.s, s.membership.s, s.norm.s, s.peers.s, s.reports.s, s.program.training.s = s, s, s, s, s, s, s
	s.model = inventory{s: s, form: form, copies: copies{s: s, store: e.store()}}
	return s
}

// lifecycle is how long a session's tasks run.
type lifecycle struct {
	s       *session
	cancel  context.CancelFunc // ends the watch, the exchange and the fetch
	ctx     context.Context    //nolint:containedctx // the session's own lifetime, shared by its tasks
	tasks   sync.WaitGroup     // the watch, the exchange, the fetch, the calls to the contract
	changed chan struct{}      // closed and replaced at each change that a waiting program may care for
}

// program is where a session's program stands: what it has offered, what it was answered, whether it has closed.
type program struct {
	s         *session
	localName string // the local slot's name, for the record
	offered   *offer
	lastSeq   uint64
	last      *wire.SyncResponse // answer to lastSeq
	closing   bool               // the program called Close
	closed    bool               // the contract knows
	finished  bool               // the program was given the final model
	final     *wire.SyncResponse // the answer that gave it
	told      bool               // the contract was told so, or could not be
	deleted   bool               // the contract is gone
	progress  round.Progress
	training  training
}

func (s *session) ended() bool { return s.err != nil || s.program.finished }

// beginLocked has the lifecycle be a part of another.
func (l *lifecycle) beginLocked(of context.Context) { l.ctx, l.cancel = context.WithCancel(of) }

// notifyLocked wakes the program's waiting calls.
func (l *lifecycle) notifyLocked() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// terminateLocked ends the session with the reason that the program will see.
func (s *session) terminateLocked(err error) {
	s.lifecycle.cancel() // also when it was given up: nobody waits for its last words any more
	if s.err != nil {
		return
	}
	s.err = err
	s.recordLocked()
	s.lifecycle.notifyLocked()
}

// spawnLocked runs fn as a task of the session, which Run and a replacing session wait for. A no-op once Run is ending.
func (l *lifecycle) spawnLocked(fn func()) {
	s := l.s
	e := s.engine
	if e.ctx == nil {
		return
	}
	e.tasks.Add(1)
	l.tasks.Add(1)
	go func() {
		defer e.tasks.Done()
		defer l.tasks.Done()
		fn()
	}()
}

func (inv *inventory) closeSlots() {
	s := inv.s
	if inv.slots == nil {
		return
	}
	if err := inv.slots.Close(); err != nil {
		s.engine.cfg.Log.Warn("could not close the weight files", "err", err)
	}
	inv.slots = nil
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
	s.membership.shown = shows(v, s.id)
	s.membership.before.refounded(s.engine.cfg.Swarm)
	next, missing := s.membership.placeLocked().after(v.Run, standingIn(v, s.id).state)
	if missing {
		s.membership.missingLocked()
	}
	switch next {
	case follow:
		s.engine.cfg.Log.Warn("this session is of another run than an SN had said", "contract", s.contract, "session", s.id, "run", v.Run, "said", s.run)
		s.membership.goLocked(v)
		s.recordLocked()
	case ignore:
		return
	}
	if v.Run == s.run && s.model.held.Exists() && v.Committed.Round < s.model.held.Round || !s.membership.recognisedLocked(v) {
		return
	}
	s.logLossLocked(v)
	s.logAdoptionLocked(v)
	s.view = v
	close(s.engine.viewed)
	s.engine.viewed = make(chan struct{})
	if next == reset {
		s.terminateLocked(&Error{"RESET", fmt.Sprintf("contract %s was reset (run %d, this session belongs to run %d)", s.contract, v.Run, s.run), "start the program again"})
		return
	}
	s.membership.closeAgainLocked(v)
	switch m := v.Session(s.id); {
	case m == nil:
	case m.State == "ended" && !s.program.finished:
		s.terminateLocked(&Error{"SESSION_ENDED", "the swarm ended this session: " + m.EndReason, "see `swarmctl get contract status " + s.contract + "`"})
	case m.State == "closed":
		s.program.closed = true
	}
}

func (pr *program) closedWeight() uint32 {
	s := pr.s
	if s.checkinLocked() == state.CheckinInactive {
		return 0
	}
	return s.open.Weight
}

func (pr *program) phaseLocked() string {
	s := pr.s
	switch {
	case pr.finished:
		return "finished"
	case s.attempts.newest.running():
		return "merging"
	case pr.closing:
		return "closed"
	case pr.offered != nil:
		return "ready"
	}
	return "training"
}

// finalLocked reports whether the held model is the contract's final one. A view can be ahead of what is held.
func (inv *inventory) finalLocked() bool { return inv.s.view.Over && inv.held == inv.s.view.Model() }

// refLocked names a model of this session's contract and run.
func (s *session) refLocked(m round.Model) round.Ref {
	return round.Ref{Contract: s.contract, Run: s.run, Model: m}
}
