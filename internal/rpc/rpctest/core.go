// Package rpctest holds working stand-ins for tests of the API and its clients: a core that applies commands directly
// and a certificate authority in memory. Only tests import it.
package rpctest

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/lead"
	"github.com/swarmd/swarmd/consensus/quorum"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/naming"
)

// Handler answers what is sent to the leader.
type Handler func(ctx context.Context, from consensus.Peer, payload []byte) ([]byte, error)

// Core is a raft group of one that applies commands at once. Several servers may share it. Safe for concurrent use.
type Core struct {
	mu       sync.Mutex
	view     *state.State
	index    uint64
	changed  chan struct{}
	leader   string
	lost     error // what Quorum returns, nil while there is one
	handlers map[string]Handler
	proposed func(state.Command)
	vet      func(state.Command) (state.Command, error)
	records  [][]byte
}

// OnPropose has fn called with every command that is proposed from now on.
func (c *Core) OnPropose(fn func(state.Command)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.proposed = fn
}

// NewCore founds a swarm that is led by the named SN. The peer IDs of SNs are their names here.
func NewCore(swarmID, leader string) (*Core, error) {
	return found(state.InitSwarm{SwarmID: swarmID, AtMS: 1}, leader)
}

// NewAdmitting is NewCore with a swarm whose operators admit SNs.
func NewAdmitting(swarmID, leader string) (*Core, error) {
	return found(state.InitSwarm{SwarmID: swarmID, AtMS: 1, Founder: &state.Admission{Name: leader, PeerID: leader, AtMS: 1}}, leader)
}

func found(first state.InitSwarm, leader string) (*Core, error) {
	c := &Core{view: state.New(), changed: make(chan struct{}), leader: leader, handlers: map[string]Handler{}}
	for _, cmd := range []state.Command{
		first,
		state.RegisterNode{Node: state.Node{Name: leader, Role: naming.RoleSN, PeerID: leader}, TokenHash: strings.Repeat("0", 64)},
	} {
		if _, err := c.Propose(context.Background(), cmd); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Vet has the leader judge commands that come with an operator's order. What a test proposes by itself has none.
func (c *Core) Vet(fn func(state.Command) (state.Command, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.vet = fn
}

// Propose applies the command, or fails while there is no leader.
func (c *Core) Propose(_ context.Context, cmd state.Command) (state.Result, error) {
	c.mu.Lock()
	vet := c.vet
	c.mu.Unlock()
	if o, ok := cmd.(state.Ordered); ok && o.OrderOf() != nil && vet != nil {
		var err error
		if cmd, err = vet(cmd); err != nil {
			return state.Result{}, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leader == "" {
		return state.Result{}, fmt.Errorf("propose: %w", c.leaderless())
	}
	if c.proposed != nil {
		c.proposed(cmd)
	}
	next, res, err := c.view.Apply(cmd)
	if err != nil {
		return res, err
	}
	c.view = next
	c.records = append(c.records, res.Records...)
	c.index++
	close(c.changed)
	c.changed = make(chan struct{})
	return res, nil
}

// Records returns the lines of the ledger.
func (c *Core) Records() [][]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([][]byte(nil), c.records...)
}

// Ban bans at once.
func (c *Core) Ban(ctx context.Context, cmd state.BanNode) (state.Result, error) {
	return c.Propose(ctx, cmd)
}

// View returns the state.
func (c *Core) View() *state.State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.view
}

// Index counts commands.
func (c *Core) Index() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.index
}

// Changed is closed at the next command.
func (c *Core) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

// Leader names the leader.
func (c *Core) Leader() (name, address string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leader, "", c.leader != ""
}

// SetLeader makes another SN lead, or none.
func (c *Core) SetLeader(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leader = name
}

// SetQuorum takes the leader away, and has lost said in its place; nil gives the quorum back, without a leader.
func (c *Core) SetQuorum(lost *quorum.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leader, c.lost = "", nil
	if lost != nil {
		c.lost = lost
	}
}

// Quorum returns what SetQuorum was given.
func (c *Core) Quorum(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost
}

// leaderless is why there is no leader. Called with mu held.
func (c *Core) leaderless() error {
	if c.lost != nil {
		return c.lost
	}
	return consensus.ErrNoLeader
}

// Handle sets the leader's handler of a kind.
func (c *Core) Handle(kind string, fn Handler) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handlers[kind] = fn
}

// SendToLeader calls the handler of the kind. A report comes from the SN that it names, anything else from the leader.
func (c *Core) SendToLeader(ctx context.Context, kind string, payload []byte) ([]byte, error) {
	c.mu.Lock()
	fn, leader, none := c.handlers[kind], c.leader, c.leaderless()
	c.mu.Unlock()
	if leader == "" {
		return nil, fmt.Errorf("send to leader: %w", none)
	}
	if fn == nil {
		return nil, fmt.Errorf("send to leader: no handler for %q", kind)
	}
	report := &swarmv1.ForwardedReport{}
	if proto.Unmarshal(payload, report) == nil && report.GetSn() != "" {
		leader = report.GetSn()
	}
	return fn(ctx, consensus.Peer{PeerID: leader, Role: naming.RoleSN}, payload)
}

// Lead remembers what it is told. Safe for concurrent use.
type Lead struct {
	mu      sync.Mutex
	touched []string
	reports []lead.Report
	// Answer is what Status returns; set it before use.
	Answer lead.Status
	// Asked is the attempt that Asks says yes of; set it before use.
	Asked uint64
}

// Touch remembers the node.
func (l *Lead) Touch(node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.touched = append(l.touched, node)
}

// Record remembers the report.
func (l *Lead) Record(r lead.Report) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reports = append(l.reports, r)
}

// Status returns Answer.
func (l *Lead) Status(string) lead.Status { return l.Answer }

// Asks tells whether the attempt is Asked.
func (l *Lead) Asks(_ string, _, _, attempt uint64) bool { return attempt == l.Asked && attempt > 0 }

// Touched returns the nodes that gave a sign of life, in order.
func (l *Lead) Touched() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.touched...)
}

// Reports returns all that was recorded, in order.
func (l *Lead) Reports() []lead.Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]lead.Report(nil), l.reports...)
}
