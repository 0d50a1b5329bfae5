package state

import (
	"errors"
	"slices"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/internal/policy/rights"
)

// Rights are sentences that say who of operators and auditors may do what. They narrow what a role may do, and widen nothing.
type Rights struct {
	Sentences []string `json:"sentences"` // in their canonical form, in the order in which they are judged
	By        string   `json:"by"`        // SPIFFE ID of who set them
	SetMS     int64    `json:"set_ms"`
}

// SetRights replaces the rights as a whole. Who sets them must be able to change them afterwards, so that a swarm never has rights that
// nobody can change. They are never taken away again: sentences can say as much as there was without.
//
// The leader has read the sentences and brought them into their form. Here they are texts of any words: an SN of another version, which knows
// other ones, must come to the same state. What it does not understand allows nothing there.
type SetRights struct {
	Sentences []string      `json:"sentences"`
	By        string        `json:"by"` // SPIFFE ID of who sets them
	AtMS      int64         `json:"at_ms"`
	Order     *ledger.Order `json:"order,omitempty"`
}

// Type implements Command.
func (SetRights) Type() string { return "set_rights" }

func (c SetRights) apply(s *State) (Result, error) {
	next := &Rights{Sentences: c.Sentences, By: c.By, SetMS: c.AtMS}
	switch {
	case len(c.Sentences) > 0 && next.check() != nil || slices.ContainsFunc(c.Sentences, func(one string) bool { return one == "" || !oneLine(one) }):
		return Result{}, reject(ReasonBadCommand, "see docs/operations/rights.md for what sentences look like", "the sentences are out of bounds: at most %d with %d bytes together, each in one line", rights.MaxSentences, rights.MaxBytes)
	case !printable(c.By) || !fits(maxSPIFFEID, c.By):
		return Result{}, reject(ReasonBadCommand, "", "bad SPIFFE ID of who sets the rights")
	case s.Rights != nil && !rights.Keeps(s.Rights.Sentences, c.By):
		return Result{}, reject(ReasonNoRight, "ask who may: swarmctl get rights", "%s may not manage the rights of this swarm", c.By)
	case !rights.Keeps(c.Sentences, c.By):
		return Result{}, reject(ReasonLastRight, "add: Allow "+c.By+" to manage rights", "with these sentences %s, who sets them, could not change the rights any more", c.By)
	case s.Rights != nil && slices.Equal(s.Rights.Sentences, c.Sentences):
		return Result{}, nil
	}
	s.Rights = next
	return Result{Changed: true}, nil
}

func (c SetRights) records(_, next *State) (int64, []ledger.Body) {
	return c.AtMS, []ledger.Body{ledger.Rights{Sentences: next.Rights.Sentences, By: c.By, Order: c.Order}}
}

// OrderOf implements Ordered.
func (c SetRights) OrderOf() *ledger.Order { return c.Order }

// check holds rights to their bounds. Which words their sentences may have is not asked: a later version may know more.
func (r *Rights) check() error {
	if r == nil {
		return nil
	}
	bytes := 0
	for _, s := range r.Sentences {
		bytes += len(s)
	}
	if len(r.Sentences) == 0 || len(r.Sentences) > rights.MaxSentences || bytes > rights.MaxBytes || len(r.By) > maxSPIFFEID {
		return errors.New("rights that are out of bounds")
	}
	return nil
}
