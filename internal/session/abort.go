package session

import (
	"context"
	"time"

	"github.com/swarmd/swarmd/internal/round"
)

const (
	// abortTimeout is well beyond what an SN goes on proposing for a caller that has gone.
	abortTimeout = 30 * time.Second
	abortPause   = time.Second
)

// abortOpening ends a session whose opening failed here. It may have been committed all the same, and the contract would wait for
// it as long as this node lives. It blocks until the session has ended, or no longer can be on its way.
func (mb *membership) abortOpening() {
	s, e := mb.s, mb.s.engine
	defer s.lifecycle.cancel()
	ctx, cancel := context.WithTimeout(s.lifecycle.ctx, abortTimeout)
	defer cancel()
	for {
		switch s.membership.committed(ctx) {
		case "ended":
			return
		case "":
		default:
			e.cfg.Log.Info("ending a session whose program was told that it could not be opened", "contract", s.contract, "session", s.id)
			if err := e.cfg.Control.End(ctx, s.endRequest("failed: it could not be opened in time", 1)); err != nil && s.lifecycle.ctx.Err() == nil {
				e.cfg.Log.Warn("could not tell the contract that the session failed", "err", err)
			}
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(abortPause): // the contract itself may not be there yet
		}
	}
}

// committed waits until the contract shows the session and returns the session's state then, "" if the contract is gone or
// ctx ends before.
func (mb *membership) committed(ctx context.Context) string {
	s, e := mb.s, mb.s.engine
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	shown := ""
	_ = e.cfg.Control.Watch(ctx, s.contract, func(v *round.View) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if m := v.Session(s.id); m != nil {
			shown, s.run = m.State, v.Run
			cancel()
		}
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	return shown
}
