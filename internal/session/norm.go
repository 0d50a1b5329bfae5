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

// norms measures what is offered.
type norms struct {
	s *session
	norm
}

// normLocked returns the norm of what this node offers, from the model that it declares as its base; false while it is not
// known. A method that does not bound updates needs none.
func (n *norms) normLocked(of measured) (float64, bool) {
	s := n.s
	if !s.model.form.Method.BoundsNorms() || of.closed && s.program.closedWeight() == 0 {
		return 0, true
	}
	return n.value, n.known && n.of == of
}

// offersLocked is what this node would contribute now, and false if nothing.
func (pr *program) offersLocked() (measured, bool) {
	s := pr.s
	switch {
	case s.model.held != s.view.Model():
	case pr.closed && s.program.training.busy: // the leader is to know what it is when it counts it
	case pr.closed && standingIn(s.view, s.id).state == "open": // the SNs were restored: what it left counts once they know again that it has closed
	case pr.closed:
		return measured{base: s.model.held, closed: true}, true
	case pr.offered != nil && s.model.base == s.model.held:
		return measured{seq: pr.offered.seq, base: s.model.base}, true
	}
	return measured{}, false
}

// measureLocked has the norm of what is offered computed before it is reported: leaf after leaf, off the lock. A value that
// is not finite ends the session here, before any other node has seen it.
func (n *norms) measureLocked() {
	s := n.s
	of, offers := s.program.offersLocked()
	if _, known := n.normLocked(of); !offers || known || n.busy {
		return
	}
	source := s.program.sourceLocked()
	var base io.ReaderAt
	if s.model.held.Exists() {
		base = s.model.slots.Committed()
	}
	n.norm = norm{of: of, busy: true}
	e, m := s.engine, s.model.form.Method
	s.lifecycle.spawnLocked(func() {
		value, err := merge.UpdateNorm(m, s.model.form.Layout, source, base)
		if err == nil && (math.IsNaN(value) || math.IsInf(value, 0)) {
			err = checkLocal(Job{Layout: s.model.form.Layout, Source: source})
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		n.busy = false
		switch now, _ := s.program.offersLocked(); {
		case now != of: // the swarm went on meanwhile, and what was read may be of two models
		case err != nil:
			s.giveUpLocked(reasoned(err, "SLOT_UNREADABLE"))
		default:
			n.value, n.known = min(value, math.MaxFloat64), true
		}
		e.poke()
	})
}

// sourceLocked is the slot that this node contributes from.
func (pr *program) sourceLocked() models.Slot {
	s := pr.s
	if pr.publicLocked() {
		return s.model.slots.Committed()
	}
	return s.model.slots.Local()
}
