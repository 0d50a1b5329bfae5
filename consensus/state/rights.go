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
type SetRights struct {
	Sentences []string      `json:"sentences"`
	By        string        `json:"by"` // SPIFFE ID of who sets them
	AtMS      int64         `json:"at_ms"`
	Order     *ledger.Order `json:"order,omitempty"`
}

// Type implements Command.
func (SetRights) Type() string { return "set_rights" }

func (c SetRights) apply(s *State) (Result, error) {
	sentences, err := rights.Canonical(c.Sentences)
	switch {
	case err != nil:
		return Result{}, reject(ReasonBadCommand, "see docs/operations/rights.md for what sentences look like", "%v", err)
	case len(c.By) > maxSPIFFEID || !printable(c.By) || !fits(maxSPIFFEID, c.By):
		return Result{}, reject(ReasonBadCommand, "", "bad SPIFFE ID of who sets the rights")
	case s.Rights != nil && !rights.MayChange(s.Rights.Sentences, c.By):
		return Result{}, reject(ReasonNoRight, "ask who may: swarmctl get rights", "%s may not manage the rights of this swarm", c.By)
	case !rights.MayChange(sentences, c.By):
		return Result{}, reject(ReasonLastRight, "add: Allow "+c.By+" to manage rights", "with these sentences %s, who sets them, could not change the rights any more", c.By)
	case s.Rights != nil && slices.Equal(s.Rights.Sentences, sentences):
		return Result{}, nil
	}
	s.Rights = &Rights{Sentences: sentences, By: c.By, SetMS: c.AtMS}
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
