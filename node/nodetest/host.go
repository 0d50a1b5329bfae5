package nodetest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/fetch"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/peering"
	"github.com/swarmd/swarmd/internal/reach"
)

const (
	serviceMerge = peering.Protocol
	serviceFetch = fetch.Protocol
	// serviceContact is what a host that is up answers everybody.
	serviceContact = "contact"
)

// Those of a p2p.Host.
const (
	dialTimeout  = 10 * time.Second
	reachTimeout = 5 * time.Second
)

// peerHost is p2p.Network in memory.
type peerHost struct {
	*host
	traffic *Traffic
	liars   *Liars
	key     crypto.PrivKey
	failed  reach.Failures

	ctx     context.Context
	cancel  context.CancelFunc
	serving sync.WaitGroup
}

var _ p2p.Network = (*peerHost)(nil)

// open is node.Deps.OpenHost.
func (h *host) open(cfg p2p.Config, traffic *Traffic, liars *Liars) p2p.Network {
	ctx, cancel := context.WithCancel(context.Background())
	p := &peerHost{host: h, traffic: traffic, liars: liars, key: cfg.Key, ctx: ctx, cancel: cancel}
	h.network.mu.Lock()
	h.swarmID = cfg.SwarmID
	h.refuses = func(peerID string) error {
		id, err := peer.Decode(peerID)
		if err != nil {
			return err
		}
		return cfg.Refuse(id)
	}
	h.network.mu.Unlock()
	h.handle(serviceContact, func(c *conn) { _ = c.Close() })
	return p
}

// Handle implements p2p.Network.
func (p *peerHost) Handle(protocol string, policy p2p.Policy, fn func(ctx context.Context, s p2p.Conn)) {
	p.serve(protocol, service{
		admits: func(from *host) error {
			theirs := from.peer()
			if !slices.Contains(policy.Roles, theirs.Identity.Role()) {
				return fmt.Errorf("%w: role %s may not use %s", identity.ErrNotAuthorized, theirs.Identity.Role(), protocol)
			}
			if mine := p.swarm(); !policy.AllowNoSwarm && (mine == "" || mine != theirs.SwarmID) {
				return fmt.Errorf("%w: %s needs both sides to belong to the swarm (yours: %q, mine: %q)", identity.ErrNotAuthorized, protocol, theirs.SwarmID, mine)
			}
			return nil
		},
		fn: func(c *conn) {
			p.serving.Add(1)
			defer p.serving.Done()
			var s p2p.Conn = c
			if protocol == serviceMerge {
				s = &tapped{conn: c, traffic: p.traffic, liars: p.liars, owner: true, key: p.key}
			}
			fn(p.ctx, s)
		},
	})
}

// Dial implements p2p.Network.
func (p *peerHost) Dial(ctx context.Context, to p2p.Addr, protocol string, _ bool, fits func(p2p.Peer) error) (p2p.Conn, error) {
	c, err := p.reach(ctx, to, protocol)
	if err != nil { // never a nil *conn in an interface
		return nil, err
	}
	if err := fits(c.Peer()); err != nil {
		_ = c.Reset()
		return nil, err
	}
	if protocol == serviceMerge {
		return &tapped{conn: c, traffic: p.traffic, liars: p.liars, key: p.key}, nil
	}
	return c, nil
}

// reach dials, for as long as a p2p.Host would, and keeps in mind what came of it.
func (p *peerHost) reach(ctx context.Context, to p2p.Addr, protocol string) (*conn, error) {
	within := dialTimeout
	if !p.network.open(p.name, to.Host, protocol) {
		within = reachTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	c, err := p.dial(ctx, to.Host, to.PeerID.String(), protocol)
	cause := ""
	switch {
	case err == nil:
		p.failed.Note(to.HostPort(), nil)
	case errors.Is(err, context.DeadlineExceeded):
		cause = reach.CauseTimeout
	case errors.Is(err, syscall.ECONNREFUSED):
		cause = reach.CauseRefused
	}
	if cause != "" {
		dial := &reach.Error{HostPort: to.HostPort(), Cause: cause, Err: err}
		p.failed.Note(to.HostPort(), dial)
		return nil, dial
	}
	return c, err
}

// Link implements p2p.Network.
func (p *peerHost) Link(ctx context.Context, to p2p.Addr, fits func(p2p.Peer) error) error {
	if p.network.stands(p.name, to.Host) {
		return nil
	}
	c, err := p.reach(ctx, to, serviceContact)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	return fits(c.Peer())
}

// Reach implements p2p.Network.
func (p *peerHost) Reach(to p2p.Addr, _ func(p2p.Peer) error) p2p.Reach {
	return p2p.Reach{Linked: p.network.stands(p.name, to.Host), Failed: p.failed.Last(to.HostPort())}
}

// Contact implements p2p.Network.
func (p *peerHost) Contact(ctx context.Context, hostport string, role identity.Role) (p2p.Peer, error) {
	name, _, err := net.SplitHostPort(hostport)
	if err != nil {
		return p2p.Peer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	c, err := p.dial(ctx, name, "", serviceContact)
	if err != nil {
		return p2p.Peer{}, err
	}
	defer func() { _ = c.Close() }()
	if who := c.Peer(); who.Identity.Role() != role {
		return p2p.Peer{}, fmt.Errorf("%w: it has the role %s", identity.ErrNotAuthorized, who.Identity.Role())
	}
	return c.Peer(), nil
}

// Disconnect implements p2p.Network.
func (p *peerHost) Disconnect(id peer.ID) { p.cutOff(id.String()) }

// Close implements p2p.Network.
func (p *peerHost) Close() error {
	p.cancel()
	p.detach()
	p.serving.Wait()
	return nil
}

// peer is who the host is, as a handshake proves it.
func (h *host) peer() p2p.Peer {
	pid, err := peer.Decode(h.peerID)
	if err != nil {
		panic(err) // made by this package
	}
	id, err := identity.ParseIDString(h.spiffe)
	if err != nil {
		panic(err) // the same
	}
	return p2p.Peer{ID: pid, Identity: id, SwarmID: h.swarm()}
}

// swarm is the swarm that the host says it belongs to.
func (h *host) swarm() string {
	if h.swarmID == nil {
		return ""
	}
	return h.swarmID()
}

// Peer implements p2p.Conn.
func (c *conn) Peer() p2p.Peer { return c.remote().peer() }

// Disconnect implements p2p.Conn.
func (c *conn) Disconnect() error { return c.Reset() }

// listen is node.Deps.Listen: the API's listener, or one that is only opened to see that the port is free.
func (h *host) listenAt(_ context.Context, _, address string) (net.Listener, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	l := &listener{name: h.name, streams: make(chan *conn), done: make(chan struct{})}
	if port == strconv.Itoa(portAPI) {
		h.answer(serviceAPI, l)
	}
	return l, nil
}

// dialAPI is node.Deps.Dial.
func (h *host) dialAPI(ctx context.Context, _, address string) (net.Conn, error) {
	name, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	c, err := h.dial(ctx, name, "", serviceAPI)
	if err != nil { // never a nil *conn in an interface
		return nil, err
	}
	return c, nil
}

// lookup is node.Deps.Lookup: addresses that no machine has. Nodes ask while the test adds others, so it looks at the name alone.
func lookup(_ context.Context, _, host string) ([]net.IP, error) {
	role, number, _ := strings.Cut(host, "-")
	index, err := strconv.ParseUint(number, 10, 8)
	if err != nil || len(role) != 2 {
		return nil, fmt.Errorf("no host %s", host)
	}
	return []net.IP{net.IPv4(240, role[1], 0, byte(index))}, nil
}
