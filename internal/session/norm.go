package session

import (
	"io"
	"math"

	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session/models"
	"github.com/swarmd/swarmd/merge"
)

// norm is the measured length of what is offered, counted from the base. It holds for one offer and one base.
type norm struct {
	of    measured
	value float64
	known bool
	busy  bool
}

// measured says what a norm is of.
type measured struct {
	seq    uint64 // of the Sync; 0: a closed session's
	base   round.Model
	closed bool
}

// normLocked returns the norm of what this node offers, from the model that it declares as its base; false while it is not
// known. A method that does not bound updates needs none.
func (s *session) normLocked(of measured) (float64, bool) {
	if !s.form.Method.Bounds() || of.closed && s.closedWeight() == 0 {
		return 0, true
	}
	return s.norm.value, s.norm.known && s.norm.of == of
}

// offersLocked is what this node would contribute now, and false if nothing.
func (s *session) offersLocked() (measured, bool) {
	switch {
	case s.held != s.view.Model():
	case s.closed && standingIn(s.view, s.id).state == "open": // the SNs were restored: what it left counts once they know again that it has closed
	case s.closed:
		return measured{base: s.held, closed: true}, true
	case s.offered != nil && s.base == s.held:
		return measured{seq: s.offered.seq, base: s.base}, true
	}
	return measured{}, false
}

// measureLocked has the norm of what is offered computed before it is reported: leaf after leaf, off the lock. A value that
// is not finite ends the session here, before any other node has seen it.
func (s *session) measureLocked() {
	of, offers := s.offersLocked()
	if _, known := s.normLocked(of); !offers || known || s.norm.busy {
		return
	}
	source := s.sourceLocked()
	var base io.ReaderAt
	if s.held.Exists() {
		base = s.slots.Committed()
	}
	s.norm = norm{of: of, busy: true}
	e, m := s.engine, s.form.Method
	s.spawnLocked(func() {
		value, err := merge.UpdateNorm(m, s.form.Layout, source, base)
		if err == nil && (math.IsNaN(value) || math.IsInf(value, 0)) {
			err = checkOwn(Job{Layout: s.form.Layout, Source: source})
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		s.norm.busy = false
		switch now, _ := s.offersLocked(); {
		case now != of: // the swarm went on meanwhile, and what was read may be of two models
		case err != nil:
			s.giveUpLocked(reasoned(err, "SLOT_UNREADABLE"))
		default:
			s.norm.value, s.norm.known = min(value, math.MaxFloat64), true
		}
		e.poke()
	})
}

// sourceLocked is the slot that this node contributes from.
func (s *session) sourceLocked() models.Slot {
	if s.publicLocked() {
		return s.slots.Committed()
	}
	return s.slots.Local()
}
