package rpc

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/admission"
	"github.com/swarmd/swarmd/consensus/backup"
	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/planner/reports"
	"github.com/swarmd/swarmd/consensus/planner/warning"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/history/keeper"
	"github.com/swarmd/swarmd/internal/nonce"
	"github.com/swarmd/swarmd/internal/probe/board"
	"github.com/swarmd/swarmd/internal/rpc/logboard"
	"github.com/swarmd/swarmd/internal/rpc/nodehealth"
	"github.com/swarmd/swarmd/internal/rpc/permit"
	"github.com/swarmd/swarmd/internal/rpc/quota"
	"github.com/swarmd/swarmd/internal/rpc/tasks"
	"github.com/swarmd/swarmd/internal/version"
)

// Core is what the services need of consensus. More methods than the rule: they are one thing, the swarm's
// agreement as one SN sees it, and always come from one object.
type Core interface {
	Replica
	// Propose commits a command and returns what it did, if this SN leads: else consensus.ErrNotLeader. A ban, or that an SN is
	// forgotten, is refused if the SNs could not agree without it.
	Propose(ctx context.Context, c state.Command) (state.Result, error)
	// WithLeader calls try while this SN leads, with nil, or with a way to the leader's API, until that fails for another reason than
	// that the leader is gone, or ctx ends.
	WithLeader(ctx context.Context, try func(ctx context.Context, way http.RoundTripper) error) error
	// Candidates are the SNs that wait for an operator to admit them, if this SN leads.
	Candidates() []admission.Candidate
	// Leader names the leader as this SN knows it; ok is false while there is none.
	Leader() (name, address string, ok bool)
}

// Replica is this SN's copy of the swarm's state.
type Replica interface {
	// View returns the state as applied here. It is immutable.
	View() *state.State
	// Index is the raft index of what View shows; it changes with the view.
	Index() uint64
	// Changed returns a channel that is closed at the next change of the view.
	Changed() <-chan struct{}
}

// Lead is the memory of the SN that leads. *planner.Planner fulfils it.
type Lead interface {
	Touch(node string)
	Record(r reports.Report) (counts bool)
	Status(contract string) planner.Status
	// Asks reports whether sessions that are done with an attempt are to say all of it.
	Asks(contract string, run, round, attempt uint64) bool
	// Warnings returns what is probably wrong with the training that a contract's current run is, nothing if this node does not lead.
	Warnings(contract string) []warning.Warning
}

// Config is what a server needs.
type Config struct {
	// Name of this SN.
	Name string
	Core Core
	// Lead carries out the leader's duties while this SN leads.
	Lead Lead
	// Hosts takes what hosts of tasks report, for the leader; nil: nobody does.
	Hosts Hosts
	// Caller finds out who calls: [TLSCaller] of the source that [TLSConfig] was made with.
	Caller CallerFunc
	// Source has the trust bundles that the SVIDs of operators are held to; nil: no order is taken.
	Source identity.Source
	// Quorum returns a *quorum.Error if too few SNs answer this one, else nil; it blocks for some seconds at most. nil: nobody knows.
	Quorum func(ctx context.Context) error
	// Probes is the memory of probes that operators start; nil: none are.
	Probes *board.Board
	// DialBack dials nodes back that have registered, and remembers what came of it; nil: none are.
	DialBack DialBack
	// Ledger is this SN's copy of the ledger; nil: it keeps none.
	Ledger Ledger
	// History is what this SN keeps of committed rounds beside the ledger; nil: it keeps nothing.
	History *keeper.Keeper
	// OwnLog is where this SN's own log is asked for; nil: it hands out none.
	OwnLog *logboard.Own
	// Origin tells what a backup says of this SN besides its name; nil: nothing.
	Origin func() backup.Origin
	// Now is the clock of nonces, SVID lives and committed times; nil: the real one.
	Now func() time.Time
	// Health tells how this SN fares; nil: nobody knows, which is not healthy. It must not block.
	Health func() *swarmv1.NodeHealth
	// Stray is told of a caller that says it belongs to another swarm, which may be of any text; nil: nobody is told. It must not block.
	Stray func(who identity.ID, swarmID string)
	// BodyTime is how long a request may take to arrive; 0: 30 s.
	BodyTime time.Duration
	// Limits bound what callers may take; zero fields are the defaults.
	Limits Limits
	Log    *slog.Logger
}

// DialBack dials nodes back that have registered, and remembers what came of it. Nothing of it blocks.
type DialBack interface {
	// Registered has a node dialled that has registered just now, here: from this host.
	Registered(view *state.State, n state.Node, here bool)
	// Of is what came of it; nil: that is not known.
	Of(n *state.Node) *swarmv1.DialBack
	// Warning is that in one line for people, with what to do; empty: nothing is wrong, or it is not known.
	Warning(n *state.Node) string
}

// noDialBack is that of an SN that dials nobody.
type noDialBack struct{}

func (noDialBack) Registered(*state.State, state.Node, bool) {}
func (noDialBack) Of(*state.Node) *swarmv1.DialBack          { return nil }
func (noDialBack) Warning(*state.Node) string                { return "" }

// Limits bound what callers of one SPIFFE ID, and all, may take at the same time.
type Limits struct {
	// Memory bounds the calls that are served, in bytes; MemoryPerID those of one SPIFFE ID.
	Memory, MemoryPerID int64
	// MemoryNodes bounds small calls with a node's token besides, MemoryPerNode those of one node.
	MemoryNodes, MemoryPerNode int64
	// Conns bounds connections.
	Conns identity.CrowdLimits
}

// Server serves the API of one SN. Use Handler with an HTTP server of one's own, or Serve.
type Server struct {
	*shared

	entrance *entrance
	orders   *orders
	services *http.ServeMux

	stop sync.Once
}

// shared is what several services need: this SN's view, and the way to change what all agree on.
type shared struct {
	cfg      Config
	rates    *quota.Rates
	stopping chan struct{} // closed when this SN stops
	logs     *logboard.Board

	permits *permit.Rules
}

var (
	_ Core = (*consensus.Group)(nil)
	_ Lead = (*planner.Planner)(nil)
)

// New makes a server. It opens nothing.
func New(cfg Config) (*Server, error) {
	if cfg.Core == nil || cfg.Lead == nil || cfg.Caller == nil || cfg.Log == nil {
		return nil, errors.New("an API server needs a core, a lead, a way to know callers, and a log")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.DialBack == nil {
		cfg.DialBack = noDialBack{}
	}
	if cfg.BodyTime == 0 {
		cfg.BodyTime = bodyTime
	}
	all := &shared{cfg: cfg, rates: quota.NewRates(cfg.Now), stopping: make(chan struct{}), permits: permit.New(), logs: logboard.New()}
	s := &Server{
		shared: all, entrance: newEntrance(all),
		orders: &orders{shared: all, nonces: nonce.New(cfg.Now)},
	}
	s.services = s.newServices()
	return s, nil
}

// Stop ends all streams with the reason STOPPING, so that clients move on. Calls that run are not ended.
func (s *Server) Stop() { s.stop.Do(func() { close(s.stopping) }) }

// compressFrom is the least answer that is compressed, in bytes: below it a round of a small model would spend more time in
// gzip than in anything else.
const compressFrom = 8 << 10

// Handler returns the whole API with everything that guards it.
func (s *Server) Handler() http.Handler {
	return s.entrance.authenticate(s.cfg.Caller, func(w http.ResponseWriter, r *http.Request, caller Caller, rule Access) {
		if rule.Leader {
			s.led(w, r, caller, rule)
			return
		}
		s.services.ServeHTTP(w, r)
	})
}

func (s *Server) newServices() *http.ServeMux {
	table, healths := AccessTable(), &nodehealth.Memory{}
	opts := []connect.HandlerOption{
		connect.WithInterceptors(s.entrance.guard()),
		connect.WithConditionalHandlerOptions(func(spec connect.Spec) []connect.HandlerOption {
			return []connect.HandlerOption{connect.WithReadMaxBytes(int(table[spec.Procedure].maxMessage()))}
		}),
		connect.WithCompressMinBytes(compressFrom),
		recoverPanic(s.cfg.Log),
	}
	mux := http.NewServeMux()
	mux.Handle(swarmv1connect.NewSwarmServiceHandler(&swarmService{shared: s.shared, healths: healths, version: version.Read().Version}, opts...))
	mux.Handle(swarmv1connect.NewNodeServiceHandler(&nodeService{shared: s.shared, orders: s.orders, healths: healths, nonces: nonce.New(s.cfg.Now)}, opts...))
	mux.Handle(swarmv1connect.NewSessionServiceHandler(&sessionService{shared: s.shared, healths: healths}, opts...))
	mux.Handle(swarmv1connect.NewContractServiceHandler(&contractService{shared: s.shared, orders: s.orders, healths: healths}, opts...))
	mux.Handle(swarmv1connect.NewTaskServiceHandler(tasks.New(s.orders), opts...))
	mux.Handle(swarmv1connect.NewLogServiceHandler(logboard.NewService(s.orders, s.logs, s.cfg.OwnLog), opts...))
	mux.Handle(swarmv1connect.NewRightsServiceHandler(permit.NewService(s.permits, s.cfg.Core, callerID, s.orders.setRights), opts...))
	mux.Handle(swarmv1connect.NewModelServiceHandler(&modelService{s.shared}, opts...))
	mux.Handle(swarmv1connect.NewLedgerServiceHandler(&ledgerService{s.shared}, opts...))
	mux.Handle(swarmv1connect.NewBackupServiceHandler(&backupService{shared: s.shared, busy: make(chan struct{}, 1)}, opts...))
	return mux
}

// proposeTimeout is shorter than the clients' timeout of one SN, so that they hear why.
const proposeTimeout = 8 * time.Second

func (s *shared) propose(ctx context.Context, c state.Command) (state.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, proposeTimeout)
	defer cancel()
	return s.cfg.Core.Propose(ctx, c)
}

// proposeFor is propose for a node, which may ask for only so many.
func (s *shared) proposeFor(ctx context.Context, node string, c state.Command) (state.Result, error) {
	if err := s.rates.TakeProposal(node); err != nil {
		return state.Result{}, err
	}
	return s.propose(ctx, c)
}

func (s *shared) nowMS() int64 { return s.cfg.Now().UnixMilli() }
