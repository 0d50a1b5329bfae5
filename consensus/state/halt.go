package state

import (
	"errors"

	"github.com/swarmd/swarmd/consensus/ledger"
)

// Halt is an operator's word that a contract's training stops: for now, or with the next round. A pause outlives [ResetContract], as rules
// do; an end is of its run.
type Halt struct {
	Ends bool   `json:"ends,omitempty"` // the next round is the final one; false: no round is planned until an operator resumes
	By   string `json:"by"`             // SPIFFE ID of the operator
	AtMS int64  `json:"at_ms"`
}

// Pauses reports whether no round may be planned until an operator resumes the contract; nil does not.
func (h *Halt) Pauses() bool { return h != nil && !h.Ends }

// Ending reports whether the next round is the final one, or was; of nil it is not.
func (h *Halt) Ending() bool { return h != nil && h.Ends }

// check holds a halt to its bounds.
func (h *Halt) check(over bool) error {
	switch {
	case h == nil:
	case len(h.By) > maxSPIFFEID || !printable(h.By):
		return errors.New("halted by somebody out of bounds")
	case over && h.Pauses():
		return errors.New("over and paused")
	}
	return nil
}

// whenOver is what is left of a halt when the training is over: nothing of a pause.
func (h *Halt) whenOver() *Halt {
	if h.Pauses() {
		return nil
	}
	return h
}

// HaltOrder is what the commands by which operators pause, resume or end a training say alike.
type HaltOrder struct {
	Contract string        `json:"contract"`
	Run      uint64        `json:"run,omitempty"` // the run that is meant; 0: whichever it is
	AtMS     int64         `json:"at_ms"`
	Order    *ledger.Order `json:"order,omitempty"`
}

// apply has change look at the contract, in the run that is meant, and say whether it changed its Halt. The contract is the operators' from
// then on: it does not go by itself.
func (o HaltOrder) apply(s *State, change func(*Contract) (bool, error)) (Result, error) {
	c, err := s.contract(o.Contract)
	if err != nil {
		return Result{}, err
	}
	if o.Run != 0 && o.Run != c.Run {
		return Result{}, reject(ReasonStaleRun, "see: swarmctl get contract status "+c.Name, "contract %s is in run %d, not %d", c.Name, c.Run, o.Run)
	}
	changed, err := change(c)
	if err != nil {
		return Result{}, err
	}
	if changed {
		c.MadeBy = ""
	}
	return Result{Changed: changed, Contract: c.Name, Run: c.Run}, nil
}

// halt makes the halt that the order asks for.
func (o HaltOrder) halt(ends bool) *Halt {
	h := &Halt{Ends: ends, AtMS: o.AtMS}
	if o.Order != nil {
		h.By = o.Order.By
	}
	return h
}

// halted is what the ledger has of the order.
func (o HaltOrder) halted(next *State) ledger.Halt {
	return ledger.Halt{Contract: o.Contract, Run: next.Contracts[o.Contract].Run, Order: o.Order}
}

// PauseContract has no round planned until ResumeContract. An attempt that runs goes on to its end. It changes nothing if the contract is
// paused already.
type PauseContract HaltOrder

// Type implements Command.
func (PauseContract) Type() string { return "pause_contract" }

func (p PauseContract) apply(s *State) (Result, error) {
	return HaltOrder(p).apply(s, func(c *Contract) (bool, error) {
		switch {
		case c.Over:
			return false, contractOver(c.Name)
		case c.Halt.Ending():
			return false, reject(ReasonContractOver, "wait for its final round: swarmctl get contract status "+c.Name, "contract %s is being ended: its next round is the final one", c.Name)
		case c.Halt.Pauses():
			return false, nil
		}
		c.Halt = HaltOrder(p).halt(false)
		return true, nil
	})
}

func (p PauseContract) records(_, next *State) (int64, []ledger.Body) {
	return p.AtMS, []ledger.Body{ledger.Pause(HaltOrder(p).halted(next))}
}

// ResumeContract has rounds planned again. It changes nothing if the contract is not paused.
type ResumeContract struct {
	HaltOrder
	// KeepPace leaves the pause out of how long rounds take. False in logs of before.
	KeepPace bool `json:"keep_pace,omitempty"`
}

// Type implements Command.
func (ResumeContract) Type() string { return "resume_contract" }

func (r ResumeContract) apply(s *State) (Result, error) {
	return r.HaltOrder.apply(s, func(c *Contract) (bool, error) {
		if !c.Halt.Pauses() {
			return false, nil
		}
		c.Halt = nil
		if n := len(c.RecentCommitMS); r.KeepPace && n > 0 && c.RecentCommitMS[n-1] != pauseMark {
			c.RecentCommitMS = recent(c.RecentCommitMS, pauseMark)
		}
		return true, nil
	})
}

func (r ResumeContract) records(_, next *State) (int64, []ledger.Body) {
	return r.AtMS, []ledger.Body{ledger.Resume(r.halted(next))}
}

// EndContract makes the next round the final one, also of a contract that is paused. It changes nothing if the training is over or being
// ended already. A contract that has no model and no terms yet has nothing to end with.
type EndContract HaltOrder

// Type implements Command.
func (EndContract) Type() string { return "end_contract" }

func (e EndContract) apply(s *State) (Result, error) {
	return HaltOrder(e).apply(s, func(c *Contract) (bool, error) {
		switch {
		case c.Over, c.Halt.Ending():
			return false, nil
		case c.Terms == nil, !c.HasModel() && len(c.Active()) == 0:
			return false, reject(ReasonNoModel, "to have it train nothing: swarmctl pause contract "+c.Name+"; to end its sessions: swarmctl reset contract "+c.Name+" force",
				"contract %s has no model yet and too few sessions to make one: there is nothing to end with", c.Name)
		}
		c.Halt = HaltOrder(e).halt(true)
		c.settle()
		return true, nil
	})
}

func (e EndContract) records(_, next *State) (int64, []ledger.Body) {
	return e.AtMS, []ledger.Body{ledger.End(HaltOrder(e).halted(next))}
}

// OrderOf implements Ordered.
func (p PauseContract) OrderOf() *ledger.Order { return p.Order }

// OrderOf implements Ordered.
func (r ResumeContract) OrderOf() *ledger.Order { return r.Order }

// OrderOf implements Ordered.
func (e EndContract) OrderOf() *ledger.Order { return e.Order }
