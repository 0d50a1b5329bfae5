package audit

import (
	"slices"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/internal/policy/rights"
)

// entitlement holds records of rights to their orders, and to the rights before: whoever set them could, and can again.
type entitlement struct {
	*findings
	orders *orders
	now    []string // the sentences in force; nil: none are known
}

func (e *entitlement) set(r ledger.Rights) {
	before := e.now
	e.now = r.Sentences
	if before != nil && !rights.Keeps(before, r.By) {
		e.bad("by", "%.160s could not set rights by those before", r.By)
	}
	if !rights.Keeps(r.Sentences, r.By) {
		e.bad("sentences", "%.160s, who set them, could not set them again", r.By)
	}
	if r.Order == nil {
		e.bad("order", "it is missing")
		return
	}
	asked := &swarmv1.SetRightsRequest{}
	if !e.orders.asked(r.Order, asked) {
		return
	}
	if r.By != r.Order.By {
		e.bad("by", "%.160s signed it", r.Order.By)
	}
	meant, err := rights.Canonical(asked.GetSentences())
	if err != nil { // sentences of a later version: it is enough if they were signed as they are recorded
		meant = asked.GetSentences()
	}
	if !slices.Equal(meant, r.Sentences) {
		e.bad("sentences", "the operator asked for %d others", len(asked.GetSentences()))
	}
}
