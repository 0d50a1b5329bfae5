package node

import (
	"context"
	"errors"

	"github.com/libp2p/go-libp2p/core/crypto"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/figures"
	"github.com/swarmd/swarmd/internal/health"
	"github.com/swarmd/swarmd/internal/logs"
	"github.com/swarmd/swarmd/internal/membership"
	"github.com/swarmd/swarmd/internal/metrics"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/probe"
	"github.com/swarmd/swarmd/internal/version"
)

// base holds what both roles open first: the locked state directory, the node key, the identity and the pinned swarm.
type base struct {
	cfg     Common
	deps    Deps
	dir     *identity.StateDir
	key     crypto.PrivKey
	peerID  string
	source  identity.Provider
	domains identity.Domains
	swarm   *membership.Pin
	health  *health.Monitor
	metrics *metrics.Server // nil: nobody asked for them
}

// openBase opens in the order of failure's cheapness: the directory before the wait for an identity. The caller closes it.
func openBase(ctx context.Context, cfg Common, deps Deps, role identity.Role) (_ *base, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	b := &base{cfg: cfg, deps: deps}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	if b.dir, err = identity.OpenStateDir(cfg.StateDir, cfg.Name, role); err != nil {
		return nil, err
	}
	if b.key, err = identity.LoadOrCreateNodeKey(cfg.StateDir); err != nil {
		return nil, err
	}
	id, err := identity.PeerID(b.key)
	if err != nil {
		return nil, err
	}
	b.peerID = id.String()
	if b.swarm, err = membership.OpenPin(cfg.StateDir, cfg.SwarmID); err != nil {
		return nil, err
	}
	awaits := ""
	if cfg.SocketPath != "" {
		awaits = "the Workload API at " + cfg.SocketPath
	}
	if b.health, err = deps.OpenHealth(ctx, health.Config{Name: cfg.Name, Role: role, StateDir: cfg.StateDir, Awaits: awaits, Log: cfg.Log}); err != nil {
		return nil, err
	}
	traffic := metrics.NewTraffic()
	if b.metrics, err = metrics.Open(ctx, metrics.Config{Address: cfg.Metrics, Local: cfg.MetricsLocal, Name: cfg.Name, Role: role, Health: b.health.Report, Traffic: traffic, Listen: deps.Listen, Log: cfg.Log}); err != nil {
		return nil, err
	}
	b.deps.OpenHost = traffic.OpenHost(deps.OpenHost)
	b.cfg.OwnLog = figures.Beside(cfg.OwnLog, cfg.StateDir, traffic.Open)
	if b.source, err = cfg.Identify(ctx, role); err != nil {
		return nil, err
	}
	b.health.Identity(b.source.Status)
	b.domains, err = identity.DomainsOf(b.source, cfg.TrustDomains...)
	cfg.Log.Info("identity is valid", "spiffe_id", b.source.ID().String(), "node", cfg.Name, "peer_id", b.peerID)
	return b, err
}

// register makes this node known to the swarm: see membership.Register. info says of it what its configuration does not.
func (b *base) register(ctx context.Context, sns []string, info client.NodeInfo) (*client.Client, error) {
	info.Name, info.Host = b.cfg.Name, b.cfg.Host
	cfg := client.Config{SNs: sns, Source: b.source, Domains: b.domains, Dial: b.deps.Dial, Log: b.cfg.Log}
	api, err := membership.Register(ctx, b.swarm, cfg, client.Registration{Node: info, Key: b.key})
	if err == nil {
		b.health.Seen() // the leader has committed it
	}
	return api, err
}

// prober is what probes other nodes for this one, and answers them. cfg says whom, and when.
func (b *base) prober(host p2p.Network, role identity.Role, cfg probe.Config) *probe.Agent {
	cfg.Network, cfg.Source, cfg.Domains, cfg.Version, cfg.Role, cfg.Log = host, b.source, b.domains, version.Read().Version, role, b.cfg.Log
	return probe.New(cfg)
}

// logHost hands out this node's own log, by send.
func (b *base) logHost(send logs.Send) (*logs.Host, error) {
	return logs.OfNode(logs.Verifier{Source: b.source, Domains: b.domains, Node: b.cfg.Name, SwarmID: b.swarm.SwarmID}, b.cfg.LogsTo, b.cfg.OwnLog, send, b.cfg.Log)
}

func (b *base) close() {
	errs := []error{b.metrics.Close()}
	if b.health != nil {
		errs = append(errs, b.health.Close())
	}
	if b.source != nil {
		errs = append(errs, b.source.Close())
	}
	if b.dir != nil {
		errs = append(errs, b.dir.Close())
	}
	if err := errors.Join(errs...); err != nil {
		b.cfg.Log.Warn("could not close the node", "err", err)
	}
}
