package state

import "github.com/swarmd/swarmd/consensus/ledger"

// UnusedMS is after how long a contract that nobody needs goes by itself: 30 days.
const UnusedMS = 30 * 24 * 3600 * 1000

// Unused reports whether the contract goes by itself at a time: a session made it, no operator has touched it since or has it paused, it
// has neither an open session nor a model, and nobody has opened or ended a session for UnusedMS.
func (c *Contract) Unused(atMS int64) bool {
	return c.MadeBy != "" && c.Committed == nil && c.Plan == nil && c.Due == nil && c.Skips == nil && c.Halt == nil && len(c.Active()) == 0 && c.Name != DefaultContract &&
		atMS-max(c.CreatedMS, c.UsedMS) >= UnusedMS
}

// ExpireContract removes a contract that is unused. Nothing of it was ever committed, but its nodes may remember attempts of its first
// round: another of its name begins with another run.
type ExpireContract struct {
	Contract string `json:"contract"`
	// Run is the contract's. 0, in logs of before it was kept: another of the name began with run 1 again.
	Run  uint64 `json:"run,omitempty"`
	AtMS int64  `json:"at_ms"`
}

// Type implements Command.
func (ExpireContract) Type() string { return "expire_contract" }

func (e ExpireContract) apply(s *State) (Result, error) {
	c := s.Contracts[e.Contract]
	if c == nil {
		return Result{}, nil
	}
	if e.Run != 0 && e.Run != c.Run || !c.Unused(e.AtMS) {
		return Result{}, reject(ReasonStalePlan, "", "contract %s is used", c.Name)
	}
	floor := s.RunFloor
	s.forgetContract(c)
	if e.Run == 0 {
		s.RunFloor = floor
	}
	return Result{Changed: true, Contract: c.Name, Run: c.Run}, nil
}

func (e ExpireContract) records(_, _ *State) (int64, []ledger.Body) {
	if e.Run == 0 { // those of before left no record, and the runs of their names began at 1 again
		return e.AtMS, nil
	}
	return e.AtMS, []ledger.Body{ledger.Deleted{Contract: e.Contract, Run: e.Run, Expired: true}}
}
