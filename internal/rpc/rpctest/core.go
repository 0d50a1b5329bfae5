// Package rpctest holds working stand-ins for tests of the API and its clients: a core that applies commands directly
// and a certificate authority in memory. Only tests import it.
package rpctest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/admission"
	"github.com/swarmd/swarmd/consensus/peerconn"
	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/planner/reports"
	"github.com/swarmd/swarmd/consensus/planner/warning"
	"github.com/swarmd/swarmd/consensus/quorum"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/naming"
)

// Core is a raft group of one that applies commands at once. Several servers may share it. Safe for concurrent use.
type Core struct {
	mu       sync.Mutex
	view     *state.State
	index    uint64
	changed  chan struct{}
	leader   string
	lost     error                   // what Quorum returns, nil while there is one
	between  map[string]http.Handler // what SNs answer each other, by name
	asking   []admission.Candidate
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
	c := &Core{view: state.New(), changed: make(chan struct{}), leader: leader, between: map[string]http.Handler{}}
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

// WithLeader lets this SN lead, whoever is named, unless there is no leader. See On.
func (c *Core) WithLeader(ctx context.Context, try func(context.Context, http.RoundTripper) error) error {
	c.mu.Lock()
	leader, none := c.leader, c.leaderless()
	c.mu.Unlock()
	if leader == "" {
		return fmt.Errorf("with leader: %w", none)
	}
	return try(ctx, nil)
}

// SetCandidates sets who waits for an operator to be admitted.
func (c *Core) SetCandidates(all ...admission.Candidate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asking = all
}

// Candidates returns what SetCandidates was given.
func (c *Core) Candidates() []admission.Candidate {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asking
}

// Serve has an SN answer the others with h, while it leads.
func (c *Core) Serve(name string, h http.Handler) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.between[name] = h
}

// Way is how one SN reaches what another answers the SNs.
func (c *Core) Way(from, to string) http.RoundTripper { return way{c, from, to} }

type way struct {
	core     *Core
	from, to string
}

// RoundTrip implements http.RoundTripper.
func (w way) RoundTrip(r *http.Request) (*http.Response, error) {
	w.core.mu.Lock()
	h := w.core.between[w.to]
	w.core.mu.Unlock()
	if h == nil {
		return nil, fmt.Errorf("no way to %s", w.to)
	}
	ctx := peerconn.WithPeer(r.Context(), consensus.Peer{PeerID: w.from, Role: naming.RoleSN, SPIFFEID: "spiffe://hospital.example/swarm/sn/" + w.from})
	res, err := RoundTrip(h, r.WithContext(ctx))
	if err == nil && res.StatusCode == http.StatusMisdirectedRequest {
		_ = res.Body.Close()
		return nil, consensus.ErrNotLeader
	}
	return res, err
}

// SN is the core as one of several SNs has it.
type SN struct {
	*Core
	name string
}

// On returns the core as an SN has it: who it is makes whether it leads.
func (c *Core) On(name string) *SN { return &SN{c, name} }

// WithLeader lets this SN lead, or gives it a way to the one that does.
func (n *SN) WithLeader(ctx context.Context, try func(context.Context, http.RoundTripper) error) error {
	return n.Core.WithLeader(ctx, func(ctx context.Context, _ http.RoundTripper) error {
		err := consensus.ErrNotLeader
		for range 3 { // as it changes
			if leader, _, _ := n.Leader(); leader == n.name {
				err = try(ctx, nil)
			} else {
				err = try(ctx, n.Way(n.name, leader))
			}
			if !errors.Is(err, consensus.ErrNotLeader) {
				break
			}
		}
		if err != nil && ctx.Err() != nil {
			return fmt.Errorf("with leader: %w: %w", consensus.ErrNoLeader, ctx.Err())
		}
		return err
	})
}

// Lead remembers what it is told. Safe for concurrent use.
type Lead struct {
	mu      sync.Mutex
	touched []string
	reports []reports.Report
	// Answer is what Status returns; set it before use.
	Answer planner.Status
	// Wrong is what Warnings returns; set it before use.
	Wrong []warning.Warning
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
func (l *Lead) Record(r reports.Report) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reports = append(l.reports, r)
	return true
}

// Status returns Answer.
func (l *Lead) Status(string) planner.Status { return l.Answer }

// Asks reports whether the attempt is Asked.
func (l *Lead) Asks(_ string, _, _, attempt uint64) bool { return attempt == l.Asked && attempt > 0 }

// Warnings returns Wrong.
func (l *Lead) Warnings(string) []warning.Warning { return l.Wrong }

// Touched returns the nodes that gave a sign of life, in order.
func (l *Lead) Touched() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.touched...)
}

// Reports returns all that was recorded, in order.
func (l *Lead) Reports() []reports.Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]reports.Report(nil), l.reports...)
}
