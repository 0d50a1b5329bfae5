package consent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/text"
)

// Stays says whether what runs of an assignment may go on, which a restarted host has found. The owner's word may be another than when it
// began: what the policy refuses now is to end. What it asks for has been approved or allowed once, and goes on, and so does what has
// expired since. What nobody can judge now goes on too, for whatever reason that is, and is to be asked about again: the answer is Later.
func (g *Guard) Stays(ctx context.Context, h *task.Hosted, t *task.Task) Answer {
	e, err := g.begun(h, t)
	if err != nil {
		return Answer{Decision: Refused, Words: line(err.Error())}
	}
	v := g.cfg.Policy.Keeps(ctx, e.By, h, t, e.Image) // may take long: others do not wait
	if ctx.Err() != nil {
		return Answer{Decision: Later, Words: "its host was not asked to the end"}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if e, err = g.begun(h, t); err != nil { // it has ended meanwhile
		return Answer{Decision: Refused, Words: line(err.Error())}
	}
	now, key := time.Now(), "stays "+h.ID
	switch v.Decision {
	case Refused:
		e.decided(Refused, "", v.Sentence, now)
		_ = g.keep(e, v.Detail, h, now) // it is refused also if that can't be kept
		return e.answer(g.refusal(&e))
	case Later:
		if _, news := g.later.put(key, h.Epoch, v, nil, now); news {
			g.cfg.Log.Warn("what runs of an assignment goes on: whether it may nobody can say now", "assignment", h.ID, "what", text.Line(v.Sentence), "err", text.Line(v.Detail))
		}
		return Answer{Decision: Later, Words: line(v.Sentence)}
	case Allowed, Asked, Approved:
	}
	if _, waited := g.later[key]; waited {
		delete(g.later, key)
		g.cfg.Log.Info("what runs of an assignment may go on", "assignment", h.ID, "sentence", v.Sentence)
	}
	return Answer{Decision: Allowed, Image: e.Image}
}

// begun returns what the journal has of an assignment that has begun and not ended; an error is why it is not that one.
func (g *Guard) begun(h *task.Hosted, t *task.Task) (Entry, error) {
	if err := formed(h); err != nil {
		return Entry{}, err
	}
	e, known := g.cfg.Journal.Find(h.ID)
	if !known || !e.running() || e.Epoch != h.Epoch || e.Order != sumOf(h.Order, g.cfg.SwarmID()) {
		return e, errors.New("its host does not know that it has begun it")
	}
	asked, err := g.cfg.held(h)
	if err != nil {
		return e, err
	}
	return e, sameTask(&asked, h, t)
}

// AskedBy is the SPIFFE ID of who has asked for an assignment, as proven; empty: it is not in the journal.
func (g *Guard) AskedBy(assignment string) string {
	e, _ := g.cfg.Journal.Find(assignment)
	return e.By
}

// Received is when the host has received an assignment, as its journal has it; zero: it is not there.
func (g *Guard) Received(assignment string) time.Time { return g.cfg.Journal.Received(assignment) }

func (g *Guard) refusal(e *Entry) string {
	return fmt.Sprintf("%s refuses it to %s: %s", g.cfg.Node, e.By, e.Sentence)
}
