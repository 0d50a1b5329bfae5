package state

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/identity/naming"
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
	// RunFloor is the highest run of all contracts that are gone: one that is made begins behind it. So no name has a run twice, and
	// who still knows what stood under it before takes nothing old for new.
	RunFloor uint64 `json:"run_floor,omitempty"`

	// Admit says who admits an SN before it joins: AdmitOperator, or empty: nobody is asked.
	Admit string `json:"admit,omitempty"`
	// Admitted are the node keys that may join as SNs under that policy, by peer ID; at most MaxAdmitted.
	Admitted map[string]*Admission `json:"admitted,omitempty"`
	// Invitations are those of SNs under that policy; nil: there never was one.
	Invitations *Invitations `json:"invitations,omitempty"`

	// Recoveries are the newest recoveries of the group of SNs, oldest first; at most MaxRecoveries. None: it is the first group.
	Recoveries []ledger.Recovery `json:"recoveries,omitempty"`

	// Tasks are tasks, taskrunners and assignments; nil: there never was one. It is replaced as a whole.
	Tasks *task.Board `json:"tasks,omitempty"`
	// Rights narrow what operators and auditors may do; nil: nobody has set any. They are replaced as a whole.
	Rights *Rights `json:"rights,omitempty"`

	sums sums
	// touched are the names of what differs, in Nodes and Contracts, from the state that this one was made of. nil: all may.
	touched *touched
}

// cloneState returns a state that may be changed, but for Nodes and Contracts: they are copied when the first of them is.
func cloneState(s *State) *State {
	c := *s
	c.Bans = maps.Clone(s.Bans)
	c.Bundles = maps.Clone(s.Bundles)
	c.Admitted = maps.Clone(s.Admitted)
	c.Recoveries = slices.Clone(s.Recoveries)
	if s.Ledger != nil {
		head := *s.Ledger
		c.Ledger = &head
	}
	c.touched = &touched{nodes: map[string]bool{}, contracts: map[string]bool{}}
	return &c
}

// Command is one entry of the log. The types of this package are the only ones.
type Command interface {
	// Type is the command's name in the log.
	Type() string
	// apply works on a clone. It changes Nodes and Contracts by setNode, forgetNode, contract, setContract and forgetContract alone, so that it is
	// known what has changed; what any of its maps and slices point to it must copy first.
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
	s := &State{
		Nodes:     map[string]*Node{},
		Contracts: map[string]*Contract{DefaultContract: newContract(DefaultContract, 0)},
	}
	if err := s.count(&State{}); err != nil { // nothing in it has no encoded form
		return nil
	}
	return s
}

// Apply returns the state after c. A rejected command returns s itself and an *Error. Any other error means that c can't
// be applied by this program at all and the node must stop.
func (s *State) Apply(c Command) (*State, Result, error) {
	if c == nil {
		return s, Result{}, fmt.Errorf("apply command: %w", ErrMalformed)
	}
	if o, ok := c.(Ordered); ok && o.OrderOf() != nil {
		if err := CheckOrder(o.OrderOf()); err != nil {
			return s, Result{}, err
		}
	}
	next := cloneState(s)
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
	if err = next.count(s); err == nil && next.trim() {
		err = next.count(s)
	}
	if err != nil {
		return s, Result{}, fmt.Errorf("count the state after %s: %w", c.Type(), err)
	}
	if err := next.checkRoom(c, s); err != nil {
		return s, Result{}, err
	}
	return next, result, nil
}

// checkRoom refuses what makes the state larger than it may be. Whatever ends something or is part of a training that has
// begun still passes: a state that is full must not hold up those who train. All of it together adds less than twice
// MaxStateBytes to a full state, as it can only make sessions longer that are there, and so a snapshot can always be read.
func (s *State) checkRoom(c Command, old *State) error {
	room := s.sums.room
	if room == 0 {
		room = MaxStateBytes
	}
	if s.sums.size <= room || s.sums.size <= old.sums.size || !adds(c, old) {
		return nil
	}
	return reject(ReasonStateFull, "delete contracts and forget nodes that are no longer used: swarmctl delete contract NAME, swarmctl forget node NAME",
		"the swarm's state holds %d of %d bytes: nothing more can be added", old.sums.size, room)
}

// adds reports whether a command begins something new. SNs may always register, as the others may need one to go on.
func adds(c Command, old *State) bool {
	switch c := c.(type) {
	case OpenSession, CreateContract, CreateTask, EditTask, CreateTaskrunner, AssignTask, ApproveTask, RefuseTask:
		return true
	case RegisterNode:
		return old.Nodes[c.Node.Name] == nil && c.Node.Role != naming.RoleSN
	}
	return false
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

// live reports whether the node exists and is alive.
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
	c := cloneContract(old)
	s.setContract(c)
	return c, nil
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

// touched are names of nodes and contracts that a command may have changed. Their maps are the old state's until the first one.
type touched struct{ nodes, contracts map[string]bool }

func (s *State) setNode(n *Node) {
	s.touchNode(n.Name)
	s.Nodes[n.Name] = n
}

func (s *State) forgetNode(name string) {
	s.touchNode(name)
	delete(s.Nodes, name)
}

func (s *State) touchNode(name string) {
	if len(s.touched.nodes) == 0 {
		s.Nodes = maps.Clone(s.Nodes)
	}
	s.touched.nodes[name] = true
}

func (s *State) setContract(c *Contract) {
	s.touchContract(c.Name)
	s.Contracts[c.Name] = c
}

// forgetContract removes a contract with all that belongs to it, but for the number of its run.
func (s *State) forgetContract(c *Contract) {
	s.touchContract(c.Name)
	delete(s.Contracts, c.Name)
	s.RunFloor = max(s.RunFloor, c.Run)
}

func (s *State) touchContract(name string) {
	if len(s.touched.contracts) == 0 {
		s.Contracts = maps.Clone(s.Contracts)
	}
	s.touched.contracts[name] = true
}

// InitSwarm names the swarm. It is the first command of every log.
type InitSwarm struct {
	SwarmID string `json:"swarm_id"`
	AtMS    int64  `json:"at_ms"`
	// Founder, if set, has operators admit the swarm's SNs, for good, and is the first that is admitted.
	Founder *Admission `json:"founder,omitempty"`
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
	if c.Founder != nil {
		if err := c.Founder.check(); err != nil {
			return Result{}, err
		}
		founder := *c.Founder
		s.Admit = AdmitOperator
		s.admit(&founder)
	}
	s.SwarmID = c.SwarmID
	def, err := s.contract(DefaultContract)
	if err != nil {
		return Result{}, err
	}
	def.CreatedMS = c.AtMS
	return Result{Changed: true}, nil
}
