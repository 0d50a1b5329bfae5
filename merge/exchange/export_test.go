package exchange

import (
	"context"
	"time"

	"github.com/swarmd/swarmd/internal/round"
)

// RunByOtherWeights is Run of a node that merges everything by other weights than those of the plan, and signs what it gets.
func (h *Hub) RunByOtherWeights(ctx context.Context, a Attempt, slots Slots, dial Dial) (*round.Done, error) {
	r, err := newRun(h, a, slots, dial)
	if err != nil {
		return nil, err
	}
	for s := range r.plan.weights {
		r.plan.weights[s] = uint32(1 + 1000*s)
	}
	return h.carryOut(ctx, r)
}

// FillOpening takes all places for opening streams, for ever.
func (h *Hub) FillOpening() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	for h.opening.Enter(ctx) == nil { // until there is none
	}
}
