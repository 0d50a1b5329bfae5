package state

import (
	"slices"
	"strings"

	"github.com/swarmd/swarmd/consensus/ledger"
)

// DeleteContract removes a contract with its rules, sessions, plan and models. Open sessions stand in its way unless Force is set; then
// they go with it, which their nodes see. Who makes a contract of the name again begins with a run that it has not had.
type DeleteContract struct {
	Contract string        `json:"contract"`
	Run      uint64        `json:"run,omitempty"` // the run to delete, so that a retry does no harm; 0: whichever it is
	Force    bool          `json:"force,omitempty"`
	AtMS     int64         `json:"at_ms"`
	Order    *ledger.Order `json:"order,omitempty"`
}

// Type implements Command.
func (DeleteContract) Type() string { return "delete_contract" }

func (d DeleteContract) apply(s *State) (Result, error) {
	c := s.Contracts[d.Contract]
	switch {
	case c == nil && d.Run != 0 && d.Run <= s.RunFloor:
		return Result{Contract: d.Contract, Run: d.Run}, nil // it is gone already
	case c == nil:
		return Result{}, reject(ReasonContractAbsent, "see: swarmctl list contracts", "no contract %q", clip(d.Contract, 160))
	case c.Name == DefaultContract:
		return Result{}, reject(ReasonBadCommand, "begin it anew: swarmctl reset contract "+c.Name, "contract %s belongs to every swarm and can't be deleted", c.Name)
	case d.Run != 0 && d.Run != c.Run:
		return Result{}, reject(ReasonStaleRun, "see: swarmctl get contract status "+c.Name, "contract %s is in run %d, not %d", c.Name, c.Run, d.Run)
	}
	if active := c.Active(); len(active) > 0 && !d.Force {
		return Result{}, reject(ReasonOpenSessions, "wait until they end, or end them: swarmctl delete contract "+c.Name+" force",
			"contract %s has %d open sessions, of %s", c.Name, len(active), nodeNames(active))
	}
	s.forgetContract(c)
	return Result{Changed: true, Contract: c.Name, Run: c.Run}, nil
}

func (d DeleteContract) records(old, _ *State) (int64, []ledger.Body) {
	return d.AtMS, []ledger.Body{ledger.Deleted{Contract: d.Contract, Run: old.Contracts[d.Contract].Run, Order: d.Order}}
}

// maxNamed is how many nodes a message names.
const maxNamed = 8

// nodeNames lists the nodes of sessions, sorted, the first ones by name.
func nodeNames(sessions []*Session) string {
	var nodes []string
	for _, s := range sessions {
		nodes = append(nodes, s.Node)
	}
	slices.Sort(nodes)
	if len(nodes) > maxNamed {
		nodes = append(nodes[:maxNamed-1], "others")
	}
	return strings.Join(nodes, ", ")
}
