package consent

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/policy"
)

// word is an operator's word on this host's part in an assignment.
type word struct {
	by     identity.ID // who signed it; zero: nobody who is known
	refuse bool
	reason string // of a refusal
}

// word reads and proves an operator's word on a host's part with the image that it has found. Nothing but the order is believed.
func (v *Verifier) word(o *ledger.Order, h *task.Hosted, image *policy.Image, swarmID string, now time.Time) (w word, err error) {
	if o == nil {
		return w, errors.New("the SN shows no operator's order for it")
	}
	method := "ApproveTask"
	if w.refuse = o.Method == "RefuseTask"; w.refuse {
		method = o.Method
	}
	if err := wellFormed(o, method); err != nil {
		return w, err
	}
	if w.by, err = v.prove(o, swarmID, identity.RoleSWCI); err != nil {
		return w, err
	}
	approval, refusal := &swarmv1.ApproveTaskRequest{}, &swarmv1.RefuseTaskRequest{}
	part := approval.GetPart
	if w.refuse {
		part, err = refusal.GetPart, readSigned(o, refusal)
	} else {
		err = readSigned(o, approval)
	}
	if err == nil {
		err = holdPart(part(), h, v.Node)
	}
	if err == nil {
		err = holdImage(part().GetImage(), image)
	}
	if err == nil {
		err = timely(part().GetExpiresUnixMs(), now)
	}
	w.reason = refusal.GetReason()
	return w, err
}

// holdPart holds a word to the assignment that it is shown for.
func holdPart(p *swarmv1.PartOfHost, h *task.Hosted, node string) error {
	for _, x := range [...]struct{ what, signed, here string }{
		{"assignment", p.GetAssignment(), h.ID},
		{"task", p.GetTask(), h.Task},
		{"task digest", p.GetDigest(), h.Digest},
		{"taskrunner", p.GetTaskrunner(), h.Taskrunner},
		{"host", p.GetHost(), node},
	} {
		if x.signed != x.here {
			return fmt.Errorf("it was signed for %s %.80q, not for %.80q", x.what, x.signed, x.here)
		}
	}
	return nil
}

// holdImage holds the image that a word was signed for, if it names one, to that which the host has found.
func holdImage(signed string, found *policy.Image) error {
	switch {
	case signed == "" || found != nil && slices.Contains(found.Signable(), signed):
		return nil
	case found == nil:
		return fmt.Errorf("it was signed for image %.80q, and the task has none", signed)
	case found.Unknown != "":
		return fmt.Errorf("it was signed for image %.80q, and no digest of %.160q is known here: %s", signed, found.Name, found.Unknown)
	}
	return fmt.Errorf("it was signed for image %.80q, not for %s", signed, found)
}

// heard is what the words on an assignment come to.
type heard struct {
	decision Decision // Approved, Refused, or empty: none counts
	by       string   // SPIFFE ID
	reason   string
	ignored  string // in words: why others do not count
}

// refuses reports whether an operator has refused it.
func (h *heard) refuses() bool { return h.by != "" && h.decision == Refused }

// hear judges the words that an SN shows. One that refuses outdoes all that approve.
func (g *Guard) hear(e *Entry, h *task.Hosted, now time.Time) (out heard) {
	var ignored []string
	for i := range h.Approvals {
		if i == task.MaxApprovals {
			break
		}
		w, err := g.cfg.word(h.Approvals[i].Order, h, e.Image, g.cfg.SwarmID(), now)
		if err == nil {
			err = g.cfg.Policy.Approves(w.by.String(), e.By)
		}
		switch {
		case err != nil && w.by.IsZero():
			ignored = append(ignored, "a word of an unknown operator does not count: "+err.Error())
		case err != nil:
			ignored = append(ignored, fmt.Sprintf("the word of %s does not count: %s", w.by, err))
		case w.refuse:
			out.decision, out.by, out.reason = Refused, w.by.String(), w.reason
		case out.decision == "":
			out.decision, out.by = Approved, w.by.String()
		}
	}
	out.ignored = strings.Join(ignored, "; ")
	return out
}
