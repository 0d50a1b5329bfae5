package consent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
)

// Stays says whether what runs of an assignment may go on, which a restarted host has found. The owner's word may be another than when it
// began: what the policy refuses now is to end. What it asks for has been approved or allowed once, and goes on, and so does what has
// expired since.
func (g *Guard) Stays(ctx context.Context, h *task.Hosted, t *task.Task) Answer {
	g.mu.Lock()
	defer g.mu.Unlock()
	e, known := g.cfg.Journal.Find(h.ID)
	asked, err := task.Request{}, formed(h)
	switch {
	case err != nil:
	case !known || !e.running() || e.Epoch != h.Epoch || e.Order != sumOf(h.Order, g.cfg.SwarmID()):
		err = errors.New("its host does not know that it has begun it")
	default:
		if asked, err = g.cfg.held(h); err == nil {
			err = sameTask(&asked, t)
		}
	}
	if err != nil {
		return Answer{Decision: Refused, Words: line(err.Error())}
	}
	v := g.cfg.Policy.Decide(ctx, e.By, h, t, e.Image)
	if v.Decision != Refused {
		return Answer{Decision: Allowed, Image: e.Image}
	}
	now := time.Now()
	e.decided(Refused, "", v.Sentence, now)
	return g.keep(e, h, g.refusal(&e), now)
}

// AskedBy is the SPIFFE ID of who has asked for an assignment, as proven; empty: it is not in the journal.
func (g *Guard) AskedBy(assignment string) string {
	e, _ := g.cfg.Journal.Find(assignment)
	return e.By
}

// Received is when the host has received an assignment, as its journal has it; zero: it is not there.
func (g *Guard) Received(assignment string) (at time.Time) {
	if e, known := g.cfg.Journal.Find(assignment); known {
		at = time.UnixMilli(e.ReceivedMS)
	}
	return at
}

func (g *Guard) refusal(e *Entry) string {
	return fmt.Sprintf("the policy of %s refuses it to %s: %s", g.cfg.Node, e.By, e.Sentence)
}
