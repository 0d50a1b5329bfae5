package consent

import (
	"fmt"
	"strings"
	"time"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/identity"
)

// Word is what an operator has signed to approve or refuse a host's part in an assignment.
type Word struct {
	Assignment, Task, Digest, Taskrunner, Host string
	ExpiresMS                                  int64 // the host must have taken it by then

	Refuse bool
	Reason string // of a refusal
}

// word returns who has signed an approval of this host's part in an assignment, and what it says. Nothing but the order is believed.
func (v *Verifier) word(o *ledger.Order, h *task.Hosted, swarmID string, now time.Time) (Word, identity.ID, error) {
	if o == nil {
		return Word{}, identity.ID{}, fmt.Errorf("the SN shows no operator's order for an approval")
	}
	method := "ApproveTask"
	if o.Method == "RefuseTask" {
		method = o.Method
	}
	if err := wellFormed(o, method); err != nil {
		return Word{}, identity.ID{}, err
	}
	by, err := v.prove(o, swarmID)
	if err != nil {
		return Word{}, identity.ID{}, err
	}
	w, err := v.Said(method, o.Request)
	if err != nil {
		return w, by, fmt.Errorf("its order can't be read: %w", err)
	}
	w.Refuse = method == "RefuseTask"
	if err := w.hold(h, v.Node); err != nil {
		return w, by, err
	}
	return w, by, timely(w.ExpiresMS, now)
}

// hold holds a word to the assignment that it is shown for.
func (w *Word) hold(h *task.Hosted, node string) error {
	for _, x := range [...]struct{ what, signed, here string }{
		{"assignment", w.Assignment, h.ID}, {"task", w.Task, h.Task}, {"task digest", w.Digest, h.Digest}, {"taskrunner", w.Taskrunner, h.Taskrunner}, {"host", w.Host, node},
	} {
		if x.signed != x.here {
			return fmt.Errorf("it was signed for %s %.80q, not for %.80q", x.what, x.signed, x.here)
		}
	}
	return nil
}

// heard is what the words on an assignment come to.
type heard struct {
	decision Decision // Approved, Refused, or empty: none counts
	by       string   // SPIFFE ID
	reason   string
	ignored  string // in words: why others do not count
}

// hear judges the words that an SN shows. One that refuses outdoes all that approve.
func (g *Guard) hear(e *Entry, h *task.Hosted, now time.Time) (out heard) {
	var ignored []string
	for i := range h.Approvals {
		if i == task.MaxApprovals {
			break
		}
		w, by, err := g.cfg.word(h.Approvals[i].Order, h, g.cfg.SwarmID(), now)
		if err == nil {
			err = g.cfg.Policy.Approves(by.String(), e.By)
		}
		switch {
		case err != nil && by.IsZero():
			ignored = append(ignored, "a word of an unknown operator does not count: "+err.Error())
		case err != nil:
			ignored = append(ignored, fmt.Sprintf("the word of %s does not count: %s", by, err))
		case w.Refuse:
			out.decision, out.by, out.reason = Refused, by.String(), w.Reason
		case out.decision == "":
			out.decision, out.by = Approved, by.String()
		}
	}
	out.ignored = strings.Join(ignored, "; ")
	return out
}
