package node

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"

	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/bridge"
	"github.com/swarmd/swarmd/internal/health"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/rpc"
	"github.com/swarmd/swarmd/internal/runner"
	"github.com/swarmd/swarmd/internal/session"
)

// Config describes a node: an SNConfig or an SLConfig.
type Config interface {
	run(ctx context.Context, deps Deps) (exitCode int, err error)
}

// Deps are what a node takes of its machine and its network. What is nil is the machine's own.
type Deps struct {
	// Lookup resolves a host name.
	Lookup func(ctx context.Context, network, host string) ([]net.IP, error)
	// Listen opens the API's listener, and any for a moment to see that a port is free.
	Listen func(ctx context.Context, network, address string) (net.Listener, error)
	// Dial opens connections to APIs.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// OpenHost opens the node's end of the peer-to-peer network, which the node closes.
	OpenHost func(cfg p2p.Config) (p2p.Network, error)
	// OpenHealth begins to tell how the node fares.
	OpenHealth func(ctx context.Context, cfg health.Config) (*health.Monitor, error)

	// OpenGroup opens an SN's end of the raft group.
	OpenGroup func(cfg consensus.Config) (*consensus.Group, error)
	// NewAPI makes an SN's API.
	NewAPI func(cfg rpc.Config) (API, error)

	// NewEngine makes an SL's engine.
	NewEngine func(cfg session.Config) *session.Engine
	// OpenBridge makes what an SL's program reaches its node by.
	OpenBridge func(cfg bridge.Config) (runner.Bridge, error)
	// Containers opens what programs in containers run in.
	Containers func(ctx context.Context, log *slog.Logger) (runner.Containers, error)
	// StartProcess starts the program where it runs as a process, and stops it when ctx ends.
	StartProcess func(ctx context.Context) (runner.Running, error)
}

// API is an SN's API; *rpc.Server has the methods' documentation.
type API interface {
	Between() http.Handler
	Vet(c state.Command) (state.Command, error)
	Serve(ctx context.Context, ln net.Listener, cfg *tls.Config) error
}

// Node is a node that is yet to run.
type Node struct {
	cfg  Config
	deps Deps
}

// New makes a node. Nothing is opened before it runs.
func New(cfg Config, deps Deps) *Node { return &Node{cfg, deps.orMachine()} }

// Run runs the node: an SN until ctx ends or something fails that no retry can mend, an SL until its program has ended and no other node
// needs it, or ctx ends. It returns the exit code of an SL's program, 0 of an SN. That ctx has ended is no error. It is called once.
func (n *Node) Run(ctx context.Context) (exitCode int, err error) { return n.cfg.run(ctx, n.deps) }

// orMachine fills in what is nil.
func (d Deps) orMachine() Deps {
	if d.Lookup == nil {
		d.Lookup = net.DefaultResolver.LookupIP
	}
	if d.Listen == nil {
		d.Listen = new(net.ListenConfig).Listen
	}
	if d.Dial == nil {
		d.Dial = new(net.Dialer).DialContext
	}
	if d.OpenHost == nil {
		d.OpenHost = p2p.Open
	}
	if d.OpenHealth == nil {
		d.OpenHealth = health.Open
	}
	if d.OpenGroup == nil {
		d.OpenGroup = consensus.Open
	}
	if d.NewAPI == nil {
		d.NewAPI = newAPI
	}
	if d.NewEngine == nil {
		d.NewEngine = session.New
	}
	if d.OpenBridge == nil {
		d.OpenBridge = runner.OpenBridge
	}
	return d
}

func newAPI(cfg rpc.Config) (API, error) {
	s, err := rpc.New(cfg)
	if err != nil {
		return nil, err // never a nil *Server in an interface
	}
	return s, nil
}

// quiet makes a requested stop no error.
func quiet(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}
