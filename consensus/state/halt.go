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

// halted makes the halt that an order asks for.
func halted(o *ledger.Order, ends bool, atMS int64) *Halt {
	h := &Halt{Ends: ends, AtMS: atMS}
	if o != nil {
		h.By = o.By
	}
	return h
}

// haltedRun is the contract of an order that names the run it means, 0 for whichever it is.
func haltedRun(s *State, name string, run uint64) (*Contract, Result, error) {
	c, err := s.contract(name)
	if err != nil {
		return nil, Result{}, err
	}
	if run != 0 && run != c.Run {
		return nil, Result{}, reject(ReasonStaleRun, "see: swarmctl get contract status "+c.Name, "contract %s is in run %d, not %d", c.Name, c.Run, run)
	}
	return c, Result{Contract: c.Name, Run: c.Run}, nil
}

// PauseContract has no round planned until ResumeContract. An attempt that runs goes on to its end. It changes nothing if the contract is
// paused already.
type PauseContract struct {
	Contract string        `json:"contract"`
	Run      uint64        `json:"run,omitempty"` // the run to pause; 0: whichever it is
	AtMS     int64         `json:"at_ms"`
	Order    *ledger.Order `json:"order,omitempty"`
}

// Type implements Command.
func (PauseContract) Type() string { return "pause_contract" }

func (p PauseContract) apply(s *State) (Result, error) {
	c, result, err := haltedRun(s, p.Contract, p.Run)
	switch {
	case err != nil:
		return Result{}, err
	case c.Over:
		return Result{}, contractOver(c.Name)
	case c.Halt.Ending():
		return Result{}, reject(ReasonContractOver, "wait for its final round: swarmctl get contract status "+c.Name, "contract %s is being ended: its next round is the final one", c.Name)
	case c.Halt.Pauses():
		return result, nil
	}
	c.Halt, c.MadeBy = halted(p.Order, false, p.AtMS), "" // the operators' from here on: it does not go by itself
	result.Changed = true
	return result, nil
}

func (p PauseContract) records(_, next *State) (int64, []ledger.Body) {
	return p.AtMS, []ledger.Body{ledger.Pause{Contract: p.Contract, Run: next.Contracts[p.Contract].Run, Order: p.Order}}
}

// ResumeContract has rounds planned again. It changes nothing if the contract is not paused.
type ResumeContract struct {
	Contract string        `json:"contract"`
	Run      uint64        `json:"run,omitempty"` // the run to resume; 0: whichever it is
	AtMS     int64         `json:"at_ms"`
	Order    *ledger.Order `json:"order,omitempty"`
}

// Type implements Command.
func (ResumeContract) Type() string { return "resume_contract" }

func (r ResumeContract) apply(s *State) (Result, error) {
	c, result, err := haltedRun(s, r.Contract, r.Run)
	if err != nil || !c.Halt.Pauses() {
		return result, err
	}
	c.Halt, c.MadeBy = nil, ""
	result.Changed = true
	return result, nil
}

func (r ResumeContract) records(_, next *State) (int64, []ledger.Body) {
	return r.AtMS, []ledger.Body{ledger.Resume{Contract: r.Contract, Run: next.Contracts[r.Contract].Run, Order: r.Order}}
}

// EndContract makes the next round the final one, also of a contract that is paused. It changes nothing if the training is over or being
// ended already. A contract that has no model and no terms yet has nothing to end with.
type EndContract struct {
	Contract string        `json:"contract"`
	Run      uint64        `json:"run,omitempty"` // the run to end; 0: whichever it is
	AtMS     int64         `json:"at_ms"`
	Order    *ledger.Order `json:"order,omitempty"`
}

// Type implements Command.
func (EndContract) Type() string { return "end_contract" }

func (e EndContract) apply(s *State) (Result, error) {
	c, result, err := haltedRun(s, e.Contract, e.Run)
	switch {
	case err != nil:
		return Result{}, err
	case c.Over, c.Halt.Ending():
		return result, nil
	case c.Terms == nil, !c.HasModel() && len(c.Active()) == 0:
		return Result{}, reject(ReasonNoModel, "to have it train nothing: swarmctl pause contract "+c.Name+"; to end its sessions: swarmctl reset contract "+c.Name+" force",
			"contract %s has no model yet and too few sessions to make one: there is nothing to end with", c.Name)
	}
	c.Halt, c.MadeBy = halted(e.Order, true, e.AtMS), ""
	c.settle()
	result.Changed = true
	return result, nil
}

func (e EndContract) records(_, next *State) (int64, []ledger.Body) {
	return e.AtMS, []ledger.Body{ledger.End{Contract: e.Contract, Run: next.Contracts[e.Contract].Run, Order: e.Order}}
}

// OrderOf implements Ordered.
func (p PauseContract) OrderOf() *ledger.Order { return p.Order }

// OrderOf implements Ordered.
func (r ResumeContract) OrderOf() *ledger.Order { return r.Order }

// OrderOf implements Ordered.
func (e EndContract) OrderOf() *ledger.Order { return e.Order }
