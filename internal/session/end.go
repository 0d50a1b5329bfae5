package session

import (
	"context"
	"fmt"
	"time"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/bridge/wire"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/text"
)

// tellLimit bounds how long a finished node tries to say so before it leaves: its silence says the same, later.
const tellLimit = 10 * time.Second

// lateAfter is how long a finished node waits for one that was started again while training ended: its program must start.
const lateAfter = 2 * time.Minute

// Outcome says how a node's session stands.
type Outcome int

// Outcomes of a session.
const (
	NoSession Outcome = iota // the program never opened one
	Open                     // opened, not finished
	Finished                 // the program was given the final model
	Failed                   // ended before that
)

// Outcome returns how the newest session stands, and why it failed.
func (e *Engine) Outcome() (Outcome, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch s := e.current; {
	case s == nil && !e.seen:
		return NoSession, nil
	case s == nil:
		return Failed, nil
	case s.program.finished:
		return Finished, nil
	case s.err != nil:
		return Failed, s.err
	}
	return Open, nil
}

// finishLocked marks that the program has the final model and tells the contract.
func (pr *program) finishLocked(r *wire.SyncResponse) {
	s, e := pr.s, pr.s.engine
	if pr.finished {
		return
	}
	pr.finished, pr.final = true, r
	s.recordLocked()
	e.cfg.Log.Info("final model is with the program", "contract", s.contract,
		"round", s.model.held.Round, "digest", s.model.held.Digest)
	s.tellFinishedLocked()
}

// tellFinishedLocked tells the contract that this node is done.
func (s *session) tellFinishedLocked() {
	e := s.engine
	s.lifecycle.spawnLocked(func() {
		ctx, cancel := context.WithTimeout(s.lifecycle.ctx, tellLimit)
		defer cancel()
		if err := e.cfg.Control.End(ctx, s.endRequest("finished", 0)); err != nil && s.lifecycle.ctx.Err() == nil {
			e.cfg.Log.Warn("could not tell the contract that the session is finished", "err", err)
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		s.program.told = true
		s.lifecycle.notifyLocked()
	})
}

func (s *session) endRequest(reason string, code int32) round.End {
	const limit = 4 << 10
	reason = text.Cut(reason, limit) // a text cut in a character can not be sent
	return round.End{Session: s.id, Contract: s.contract, Run: s.run, Reason: reason, ExitCode: code}
}

// end ends a session at the contract, then here.
func (e *Engine) end(ctx context.Context, s *session, reason string, code int32) error {
	err := e.cfg.Control.End(ctx, s.endRequest(reason, code))
	e.mu.Lock()
	defer e.mu.Unlock()
	s.terminateLocked(&Error{"SESSION_ENDED", reason, ""})
	return err
}

// ProgramExited ends the session of a program that is gone. It does nothing when the session ended already.
func (e *Engine) ProgramExited(ctx context.Context, code int, why string) error {
	e.mu.Lock()
	s := e.current
	over := s == nil || s.ended()
	e.mu.Unlock()
	if over {
		return nil
	}
	return e.end(ctx, s, fmt.Sprintf("failed: %s", why), int32(code)) //nolint:gosec // exit codes are small
}

// Leave ends the session because the node is stopped. It does nothing when the session ended already.
func (e *Engine) Leave(ctx context.Context, reason string) error {
	e.mu.Lock()
	s := e.current
	over := s == nil || s.ended()
	e.mu.Unlock()
	if over {
		return nil
	}
	return e.end(ctx, s, reason, 0)
}

// Linger blocks until no live session of the contract needs this node any more: every one has ended, or its node is
// dead, and the contract was told that this one is finished; or the contract was deleted. A node whose session its own restart has
// ended is given lateAfter to ask for the model once more. It returns at once when this node never had a session.
func (e *Engine) Linger(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.current
	if s == nil {
		return nil
	}
	began := time.Now()
	wake := time.AfterFunc(lateAfter, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		s.lifecycle.notifyLocked()
	})
	defer wake.Stop()
	_, err := s.await(ctx, func() *wire.SyncResponse {
		if !s.program.finished || s.program.deleted || s.program.told && s.program.neededLocked(time.Since(began) < lateAfter) == "" {
			return &wire.SyncResponse{}
		}
		return nil
	})
	return err
}

// neededLocked names a node that may still come for the final model, "" when there is none. Those that were started again are
// counted if they may still be on their way.
func (pr *program) neededLocked(late bool) string {
	s := pr.s
	if s.view.Index == 0 {
		return "a node that this one has not heard of yet"
	}
	if s.view.Run != s.run {
		return ""
	}
	last := map[string]*round.Session{} // of each node; the view has them in the order of their opening
	for _, m := range s.view.Sessions {
		if m.ID != s.id && m.Live && m.State != "ended" {
			return m.Node
		}
		last[m.Node] = m
	}
	for _, m := range s.view.Sessions {
		if late && last[m.Node] == m && m.Live && m.EndReason == state.EndRestarted {
			return m.Node
		}
	}
	return ""
}

// View returns the newest view of the contract; while there is none it shows nothing.
func (e *Engine) View() *round.View {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.current == nil {
		return &round.View{}
	}
	return e.current.view
}

// AwaitView blocks until ok holds for the newest view of the contract, which shows nothing while there is no session, and
// returns that view. When ctx ends first it returns the newest view and ctx's error.
func (e *Engine) AwaitView(ctx context.Context, ok func(*round.View) bool) (*round.View, error) {
	for {
		e.mu.Lock()
		viewed := e.viewed
		e.mu.Unlock()
		v := e.View()
		if ok(v) {
			return v, nil
		}
		select {
		case <-ctx.Done():
			return v, ctx.Err()
		case <-viewed:
		}
	}
}

// Live reports whether the session with this ID is open.
func (e *Engine) Live(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.current
	return s != nil && s.id == id && !s.ended()
}

// Status describes the node's session for `GET /v1/status` and for people.
func (e *Engine) Status() map[string]any {
	e.mu.Lock()
	defer e.mu.Unlock()
	sent, received := e.cfg.Exchange.Traffic()
	st := map[string]any{"peer": e.cfg.Peer, "phase": "idle", "merge_sent_bytes": sent, "merge_received_bytes": received}
	if s := e.current; s != nil {
		st["session"], st["contract"], st["run"], st["phase"] = s.id, s.contract, s.run, s.program.phaseLocked()
		st["round"], st["digest"], st["model_bytes"] = s.model.held.Round, s.model.held.Digest, s.model.form.Layout.Bytes()
		if s.err != nil {
			st["error"] = s.err.Error()
		}
	}
	return st
}

// Waiting says in words what the session waits for.
func (e *Engine) Waiting(ctx context.Context) string {
	e.mu.Lock()
	s := e.current
	fetch := ""
	if s != nil && s.model.fetchErr != nil {
		fetch = fmt.Sprintf("fetching the model of round %d: %v", s.view.Model().Round, s.model.fetchErr)
	}
	e.mu.Unlock()
	if s == nil || fetch != "" {
		return fetch
	}
	why, err := e.cfg.Explainer.Waiting(ctx, s.contract)
	if err != nil {
		return "no answer from the swarm: " + err.Error()
	}
	return why
}
