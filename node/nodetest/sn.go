package nodetest

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/internal/health"
	"github.com/swarmd/swarmd/internal/membership"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/rpc"
	"github.com/swarmd/swarmd/node"
)

// Ports of every SN.
const (
	portP2P = 30303
	portAPI = 30304
	portFS  = 30305
)

const serviceAPI = "api"

// sn is a Swarm Network node. Its stores, key and state directory survive restarts; what is below host is one run.
type sn struct {
	swarm  *Swarm
	id     nodeID
	log    *raft.InmemStore
	stores consensus.Stores
	via    *sn    // the only SN that it joins through; nil: the Sentinel
	secret []byte // of its invitation; nil: it has none

	host   *host
	group  *consensus.Group
	cancel context.CancelFunc
	tasks  *sync.WaitGroup

	mu   sync.Mutex
	lead rpc.Lead // guarded by mu; nil: it does not serve yet
}

func newSN(s *Swarm, id nodeID) *sn {
	log := raft.NewInmemStore()
	return &sn{
		swarm: s, id: id, log: log,
		stores: consensus.Stores{Log: log, Stable: log, Snapshots: raft.NewInmemSnapshotStore()},
	}
}

// start begins a run: it returns when the node is in its raft group.
func (n *sn) start() error {
	n.host = n.swarm.Network.attach(n.id)
	n.mu.Lock()
	n.lead = nil
	n.mu.Unlock()
	log := n.swarm.logger.With("on", n.id.name)
	sentinel := n.swarm.SNs.all[0]
	if n.via != nil {
		sentinel = n.via
	}
	cfg := node.SNConfig{
		Common:     common(n.id, log),
		Options:    membership.Options{SentinelHost: sentinel.id.name, SentinelFSPort: portFS, P2PPort: portP2P, APIPort: portAPI, FSPort: portFS, Admit: n.swarm.cfg.Admit, Invitation: n.secret},
		QuorumWait: n.swarm.cfg.QuorumWait,
	}
	if n == n.swarm.SNs.all[0] {
		cfg.SwarmID = SwarmID
	}
	opened := make(chan *consensus.Group, 1)
	deps := memoryDeps(n.swarm, n.id, n.host)
	deps.OpenGroup = func(cfg consensus.Config) (*consensus.Group, error) {
		cfg.Dir, cfg.Stores = "", &n.stores
		g, err := consensus.Open(cfg)
		if err == nil {
			opened <- g
		}
		return g, err
	}
	deps.NewAPI = func(cfg rpc.Config) (node.API, error) {
		server, err := rpc.New(cfg)
		if err != nil {
			return nil, err
		}
		n.mu.Lock()
		n.lead = cfg.Lead
		n.mu.Unlock()
		if before := n.swarm.cfg.API[n.id.name]; before != nil {
			return rogue{server, before(server.Handler()), log}, nil
		}
		return server, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel, n.tasks = cancel, new(sync.WaitGroup)
	ended := make(chan error, 1)
	n.tasks.Go(func() {
		_, err := node.New(cfg, deps).Run(ctx)
		log.Debug("the SN has ended", "err", err)
		ended <- err
	})
	select {
	case n.group = <-opened:
		return nil
	case err := <-ended:
		if err == nil {
			err = errors.New("it ended")
		}
		return err
	}
}

// status is what the SN knows of a contract as its leader.
func (n *sn) status(contract string) planner.Status {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lead == nil {
		return planner.Status{}
	}
	return n.lead.Status(contract)
}

// rogue is an API behind another one.
type rogue struct {
	*rpc.Server
	handler http.Handler
	log     *slog.Logger
}

// Serve implements node.API.
func (r rogue) Serve(ctx context.Context, ln net.Listener, cfg *tls.Config) error {
	srv := &http.Server{Handler: r.handler, TLSConfig: cfg, ErrorLog: slog.NewLogLogger(r.log.Handler(), slog.LevelDebug)}
	stop := context.AfterFunc(ctx, func() {
		r.Stop()
		_ = srv.Close() // it only says that it was closed
	})
	defer stop()
	if err := srv.ServeTLS(ln, "", ""); ctx.Err() == nil {
		return err
	}
	return nil
}

// common is what the nodes of a swarm have in common.
func common(id nodeID, log *slog.Logger) node.Common {
	return node.Common{Name: id.name, Host: id.name, StateDir: filepath.Join(id.dir, "state"), OpenIdentity: id.source.open, Log: log, OwnLog: id.log}
}

// memoryDeps are the network and the machine of a node, in memory.
func memoryDeps(s *Swarm, id nodeID, h *host) node.Deps {
	return node.Deps{
		Lookup: lookup, Listen: h.listenAt, Dial: h.dialAPI,
		OpenHost: func(cfg p2p.Config) (p2p.Network, error) { return h.open(cfg, s.Traffic, s.Liars), nil },
		OpenHealth: func(ctx context.Context, cfg health.Config) (*health.Monitor, error) {
			cfg.Listener = &listener{name: id.name, streams: make(chan *conn), done: make(chan struct{})} // nobody asks
			return health.Open(ctx, cfg)
		},
	}
}

// end ends this run; a crash cuts it off first.
func (n *sn) end(crash bool) {
	if n.cancel == nil {
		return
	}
	if crash {
		n.host.detach()
	}
	n.cancel()
	n.cancel = nil
	if !crash {
		n.tasks.Wait()
		n.host.detach()
	}
}

// up reports whether the node runs.
func (n *sn) up() bool { return n.cancel != nil }
