package session

import (
	"io"
	"slices"
	"time"

	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session/models"
	"github.com/swarmd/swarmd/internal/session/proof"
)

// maxHeld is how many models a report lists.
const maxHeld = 8

// settle is how long the first model of a session must last before it is copied, unless it is final. Afterwards copying
// takes a tenth of the time at most: rounds that follow each other faster than disks write would only fight the exchange
// for memory and processors.
const settle = 2 * time.Second

// copies has committed models of a session copied to disk, and knows which lie there. Engine.mu guards it.
type copies struct {
	s      *session
	store  models.Store
	last   round.Model   // what was last copied
	final  bool          // … as the final one, synced
	busy   bool          // a copy is under way
	there  []round.Model // that lie on disk
	signed proof.History // the newest committed rounds that this node merged
}

// keepLocked has the held model copied to disk: one copy at a time, and a model that was replaced meanwhile is skipped.
func (c *copies) keepLocked() {
	if c.store.Dir == "" || c.busy || !c.s.model.held.Exists() {
		return
	}
	c.busy = true
	c.s.lifecycle.spawnLocked(func() {
		pause := settle
		for c.settled(pause) {
			began := time.Now()
			if !c.keepOne() {
				return
			}
			pause = max(settle, 10*time.Since(began))
		}
	})
}

// keepLast copies the held model to disk at a session's end, if its newest copy is older, so that the node's next session can
// start from it even if no other node holds it any more. Nothing else uses the session's files then.
func (c *copies) keepLast() {
	s := c.s
	if c.store.Dir == "" || s.model.slots == nil || !s.model.held.Exists() || c.last == s.model.held {
		return
	}
	err := c.store.Keep(s.refLocked(s.model.held), io.NewSectionReader(s.model.slots.Committed(), 0, s.model.form.Bytes()), c.signed.Of(s.model.held), false)
	if err != nil {
		s.engine.cfg.Log.Warn("could not keep the committed model on disk", "dir", c.store.Dir, "round", s.model.held.Round, "err", err)
	}
}

// settled waits for the pause, or until the held model is final. It is false when the session ended first.
func (c *copies) settled(pause time.Duration) bool {
	s, timer := c.s, time.NewTimer(pause)
	defer timer.Stop()
	for {
		s.engine.mu.Lock()
		final, changed := s.model.finalLocked(), s.lifecycle.changed
		s.engine.mu.Unlock()
		if final && s.lifecycle.ctx.Err() == nil {
			return true
		}
		select {
		case <-s.lifecycle.ctx.Done():
			return false
		case <-timer.C:
			return true
		case <-changed:
		}
	}
}

// keepOne copies what is held now and reports whether there is more to do.
func (c *copies) keepOne() bool {
	s, e := c.s, c.s.engine
	e.mu.Lock()
	m, final := s.model.held, s.model.finalLocked()
	if (c.last == m && c.final == final) || s.model.slots == nil || s.lifecycle.ctx.Err() != nil {
		c.busy = false
		e.mu.Unlock()
		return false
	}
	r := &guarded{engine: e, session: s, model: m, r: io.NewSectionReader(s.model.slots.Committed(), 0, s.model.form.Bytes())}
	ref, signed := s.refLocked(m), c.signed.Of(m)
	e.mu.Unlock()
	err := c.store.Keep(ref, r, signed, final)
	if err == nil {
		c.look(ref.Run)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil && s.model.held == m {
		e.cfg.Log.Error("could not keep the committed model on disk; it is served from memory until there is space", "dir", c.store.Dir, "round", m.Round, "err", err)
	}
	if s.model.held == m {
		c.last, c.final = m, final // tried: a full disk must not keep Close waiting for ever
		s.lifecycle.notifyLocked()
	}
	return true
}

// heldLocked lists the committed models of this run that the node can give out: the newest in memory, then its copies.
func (c *copies) heldLocked() []round.Model {
	var all []round.Model
	if s := c.s; s.model.slots != nil && s.model.held.Exists() {
		all = append(all, s.model.held)
	}
	for _, m := range c.there {
		if !slices.Contains(all, m) {
			all = append(all, m)
		}
	}
	return all[:min(len(all), maxHeld)]
}

// look notes which models of the contract's run lie on disk. It reads a directory, so it is called off the lock.
func (c *copies) look(run uint64) {
	if c.store.Dir == "" {
		return
	}
	s := c.s
	there, proofs := c.store.List(s.contract, run, s.model.form.Bytes())
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	c.there = there
	for _, p := range proofs {
		c.signed.Put(p)
	}
	signal(s.engine.toReport)
}
