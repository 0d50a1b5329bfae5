package exchange

import (
	"fmt"

	"github.com/swarmd/swarmd/merge/exchange/wire"
)

// VerifySeals verifies the seals of an attempt that is complete here: who reports a shard's digest without its owner's signature is taken for
// the liar, so nobody does who has not looked. Where all digests agree nobody asks. It returns *Failure, which blames an owner whose seal is
// none; nothing of that attempt is resumed with what it gave then. It returns an error wrapping ErrSuperseded if the attempt is not the
// contract's newest, or not over.
func (h *Hub) VerifySeals(contract string, run, round, number uint64) error {
	r := h.newest(contract, run, round, number)
	if r == nil {
		return fmt.Errorf("verify the seals of attempt %d of round %d: %w", number, round, ErrSuperseded)
	}
	for i := range r.plan.Participants {
		if i == r.plan.Self || r.plan.owned[i].Count() == 0 {
			continue
		}
		err := r.sealing.verify(i)
		if err == nil {
			continue
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.contracts[contract].run == r {
			r.sealing.discard(i)
		}
		return &Failure{Blamed: i, Node: r.plan.node(i), HeardFrom: -1, Reason: wire.Brief(err), cause: err}
	}
	return nil
}

// newest returns a contract's newest attempt if it is this one, and over; else nil.
func (h *Hub) newest(contract string, run, round, number uint64) *run {
	h.mu.Lock()
	defer h.mu.Unlock()
	k := h.contracts[contract]
	if k == nil || !k.run.lifecycle.over() || k.run.plan.Run != run || k.run.plan.Round != round || k.run.plan.Number != number {
		return nil
	}
	return k.run
}
