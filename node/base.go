package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/libp2p/go-libp2p/core/crypto"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/epoch"
	"github.com/swarmd/swarmd/internal/health"
	"github.com/swarmd/swarmd/internal/p2p"
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
	swarm   *pin
	health  *health.Monitor
}

// openBase opens in the order of failure's cheapness: the directory before the wait for an identity. The caller closes it.
func openBase(ctx context.Context, cfg Common, deps Deps, role identity.Role) (_ *base, err error) {
	if err := cfg.validate(); err != nil {
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
	if b.swarm, err = openPin(cfg.StateDir, cfg.SwarmID); err != nil {
		return nil, err
	}
	awaits := ""
	if cfg.SocketPath != "" {
		awaits = "the Workload API at " + cfg.SocketPath
	}
	if b.health, err = deps.OpenHealth(ctx, health.Config{Name: cfg.Name, Role: role, StateDir: cfg.StateDir, Awaits: awaits, Log: cfg.Log}); err != nil {
		return nil, err
	}
	if b.source, err = cfg.openIdentity(ctx, role); err != nil {
		return nil, err
	}
	b.health.Identity(b.source.Status)
	b.domains, err = identity.NewDomains(b.source.ID().SPIFFE().TrustDomain(), cfg.TrustDomains...)
	cfg.Log.Info("identity is valid", "spiffe_id", b.source.ID().String(), "node", cfg.Name, "peer_id", b.peerID)
	return b, err
}

func (b *base) close() {
	var errs []error
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
		b.cfg.Log.Warn("close node", "err", err)
	}
}

// pin is the swarm that this node belongs to: once known it never changes, but for its epoch. It is kept in the state directory.
type pin struct {
	dir   string
	given bool // the swarm ID comes from an option, and nothing is known of its epoch

	mu sync.Mutex
	at epoch.Pin
}

func openPin(dir, given string) (*pin, error) {
	kept, err := epoch.Read(dir)
	if err != nil {
		return nil, err
	}
	if kept.SwarmID != "" && given != "" && kept.SwarmID != given {
		return nil, fmt.Errorf("state directory %s belongs to swarm %s, --swarm-id names %s: give another --state-dir, or delete the directory to forget the old swarm", dir, kept.SwarmID, given)
	}
	if kept.SwarmID == "" {
		if err := epoch.Forget(dir); err != nil {
			return nil, err
		}
		return &pin{dir: dir, at: epoch.First(given), given: given != ""}, nil
	}
	return &pin{dir: dir, at: kept}, nil
}

// get returns the swarm ID, "" while it is not known.
func (p *pin) get() string {
	return p.pin().SwarmID
}

func (p *pin) pin() epoch.Pin {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at
}

// named is how this node names its swarm to others, "" while it does not know its epoch either.
func (p *pin) named() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.given {
		return ""
	}
	return p.at.String()
}

// set pins the swarm for good. Another swarm than the pinned one is refused.
func (p *pin) set(id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at.SwarmID != "" && p.at.SwarmID != id {
		return &p2p.SwarmMismatchError{Mine: p.at.SwarmID, Theirs: id}
	}
	if err := identity.PinSwarmID(p.dir, id); err != nil {
		return err
	}
	p.at.SwarmID, p.given = id, false
	return nil
}

// learn pins the swarm and the epoch that the first SN names.
func (p *pin) learn(named string) error {
	at, err := epoch.Parse(named)
	if err != nil {
		return err
	}
	if err := p.set(at.SwarmID); err != nil {
		return err
	}
	return p.follow(at)
}

// follow pins a later epoch, which was proven, or learned at first contact.
func (p *pin) follow(at epoch.Pin) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := epoch.Write(p.dir, at); err != nil {
		return err
	}
	p.at, p.given = at, false
	return nil
}

// loggerNamed returns the log with the logger name that the original prints for a part.
func loggerNamed(log *slog.Logger, name string) *slog.Logger { return log.With("logger", name) }
