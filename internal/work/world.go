package work

import (
	"context"
	"time"
)

// epoch is one of an assignment.
type epoch struct {
	assignment string
	number     uint32
}

func (l Label) epoch() epoch { return epoch{l.Assignment, l.Epoch} }

// hasPart reports whether a member of an epoch is known.
func hasPart(h *Host, e epoch) bool {
	for l := range h.members {
		if l.epoch() == e {
			return true
		}
	}
	return false
}

// locate has it asked where all members of a member's epoch are: once for all that are this host's.
func locate(ctx context.Context, h *Host, m *member) {
	e := m.label.epoch()
	for l, other := range h.members {
		if l.epoch() == e && other.worker != nil && other.worker.locates {
			return
		}
	}
	m.due.tried = time.Now()
	h.work(ctx, m, fetchLimit, func(ctx context.Context) func(time.Time) {
		world, err := h.cfg.World(ctx, e.assignment, e.number)
		return func(now time.Time) {
			if err == nil {
				h.worlds[e] = world
				m.due.done()
				return
			}
			h.inVain(m, "prepared", &Passing{Words: "its host can't get to know where the other members are: " + Explained(err), Err: err, Refuses: true}, now)
		}
	})
	m.worker.locates = true
}
