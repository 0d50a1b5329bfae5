package state

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/swarmd/swarmd/consensus/ledger"
)

// DefaultContract exists in every swarm from the start.
const DefaultContract = "defaultbb.cqdb.sml.hpe"

// State is everything that the swarm agrees on. It is immutable once Apply or DecodeSnapshot returned it.
type State struct {
	SwarmID   string               `json:"swarm_id"`
	Nodes     map[string]*Node     `json:"nodes"`          // by name
	Contracts map[string]*Contract `json:"contracts"`      // by name
	Bans      map[string]*Ban      `json:"bans,omitempty"` // by peer ID; at most MaxBans

	// Ledger is the end of the ledger; nil until the first RecordBundle.
	Ledger *ledger.Head `json:"ledger,omitempty"`
	// Bundles are the digests of the trust bundles that the ledger recorded last, by trust domain; at most MaxBundles.
	Bundles map[string]string `json:"bundles,omitempty"`
}

// Command is one entry of the log. The types of this package are the only ones.
type Command interface {
	// Type is the command's name in the log.
	Type() string
	// apply works on a draft whose Nodes and Contracts it may change; Bans and Bundles, and what all of them point to, it must clone
	// first.
	apply(next *State) (Result, error)
}

// Result says what an accepted command did. It is small and has JSON names, as it may travel back to a follower.
type Result struct {
	Changed   bool   `json:"changed"`              // false: the command had been applied before
	Contract  string `json:"contract,omitempty"`   // the contract concerned
	Run       uint64 `json:"run,omitempty"`        // its run after the command
	Session   string `json:"session,omitempty"`    // the session concerned
	EndReason string `json:"end_reason,omitempty"` // set when that session has ended, for instance at once for its terms

	// Records are the lines that the command adds to the ledger. They stay where it was applied.
	Records [][]byte `json:"-"`
}

// New returns the state before the first command: no nodes and the default contract.
func New() *State {
	return &State{
		Nodes:     map[string]*Node{},
		Contracts: map[string]*Contract{DefaultContract: newContract(DefaultContract, 0)},
	}
}

// Apply returns the state after c. A rejected command returns s itself and an *Error. Any other error means that c can't
// be applied by this program at all and the node must stop.
func (s *State) Apply(c Command) (*State, Result, error) {
	if c == nil {
		return s, Result{}, fmt.Errorf("apply command: %w", ErrMalformed)
	}
	next := &State{SwarmID: s.SwarmID, Nodes: maps.Clone(s.Nodes), Contracts: maps.Clone(s.Contracts), Bans: s.Bans, Ledger: s.Ledger, Bundles: s.Bundles}
	result, err := c.apply(next)
	if err != nil {
		return s, Result{}, err
	}
	if !result.Changed {
		return s, result, nil
	}
	if result.Records, err = record(c, s, next); errors.Is(err, ledger.ErrMalformed) {
		// Whoever proposed it must not stop all that apply it, now and again at each replay.
		return s, Result{}, reject(ReasonTooLarge, "", "%s can't be recorded in the ledger: %v", c.Type(), err)
	} else if err != nil {
		return s, Result{}, err
	}
	return next, result, nil
}

// NodesByRole returns the nodes of a role, sorted by name; all nodes for "".
func (s *State) NodesByRole(role string) []*Node {
	var nodes []*Node
	for _, name := range slices.Sorted(maps.Keys(s.Nodes)) {
		if n := s.Nodes[name]; role == "" || n.Role == role {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// ContractNames returns the names of all contracts, sorted.
func (s *State) ContractNames() []string {
	return slices.Sorted(maps.Keys(s.Contracts))
}

// live tells whether the node exists and is alive.
func (s *State) live(node string) bool {
	n := s.Nodes[node]
	return n != nil && n.Live
}

// contract returns a contract that the caller may change.
func (s *State) contract(name string) (*Contract, error) {
	old := s.Contracts[name]
	if old == nil {
		return nil, reject(ReasonContractAbsent, "see: swarmctl list contracts", "no contract %q", name)
	}
	c := *old
	c.Sessions = maps.Clone(old.Sessions)
	s.Contracts[name] = &c
	return &c, nil
}

// contractRun is contract for commands that belong to one run.
func (s *State) contractRun(name string, run uint64) (*Contract, error) {
	c, err := s.contract(name)
	if err != nil {
		return nil, err
	}
	if c.Run != run {
		return nil, reject(ReasonStaleRun, "open a new session", "contract %s is in run %d, not %d", name, c.Run, run)
	}
	return c, nil
}

// InitSwarm names the swarm. It is the first command of every log.
type InitSwarm struct {
	SwarmID string `json:"swarm_id"`
	AtMS    int64  `json:"at_ms"`
}

// Type implements Command.
func (InitSwarm) Type() string { return "init_swarm" }

func (c InitSwarm) apply(s *State) (Result, error) {
	if c.SwarmID == "" || len(c.SwarmID) > maxShort {
		return Result{}, reject(ReasonBadCommand, "", "swarm ID of %d bytes", len(c.SwarmID))
	}
	switch s.SwarmID {
	case c.SwarmID:
		return Result{}, nil
	case "":
	default:
		return Result{}, reject(ReasonOtherSwarm, "start with an empty state directory to found another swarm",
			"this swarm is %s, not %s", s.SwarmID, c.SwarmID)
	}
	s.SwarmID = c.SwarmID
	def, err := s.contract(DefaultContract)
	if err != nil {
		return Result{}, err
	}
	def.CreatedMS = c.AtMS
	return Result{Changed: true}, nil
}
