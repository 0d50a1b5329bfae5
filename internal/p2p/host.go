package p2p

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/core/sec"
	libtransport "github.com/libp2p/go-libp2p/core/transport"
	"github.com/libp2p/go-libp2p/gologshim"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	"github.com/libp2p/go-libp2p/p2p/net/upgrader"
	mss "github.com/multiformats/go-multistream"
	"golang.org/x/sync/singleflight"

	"github.com/swarmd/swarmd/identity"
)

const (
	// reachTimeout bounds connecting in TCP, and all of Probe and Contact.
	reachTimeout = 5 * time.Second
	// dialTimeout bounds one Dial, whatever the caller's context allows. A handshake takes milliseconds, but where a hundred nodes on one
	// machine begin theirs together each takes as long as all, and one that is given up has cost the same and helped nobody.
	dialTimeout = 10 * time.Second
	// reuseTimeout bounds opening a stream on a connection that may be dead without our knowing; then Dial makes a
	// new one.
	reuseTimeout = 2 * time.Second
	// acceptTimeout bounds the handshake of an incoming connection and the opening of an incoming stream.
	acceptTimeout = dialTimeout
	// maxPerPeer bounds the connections of one node key: two hosts that dial each other at once, on two ports, need four.
	maxPerPeer = 16
)

// Config is what a Host needs.
type Config struct {
	// Key is the node key.
	Key crypto.PrivKey
	// Source gives SVID and bundles; it outlives the Host.
	Source identity.Source
	// Domains are the accepted trust domains.
	Domains identity.Domains
	// ListenAddrs are host:port pairs to bind; an empty host is every address, port 0 a free one. None: dial only.
	ListenAddrs []string
	// SwarmID returns the node's swarm ID, "" while it has none. It must not block. Nil is "" for ever.
	SwarmID func() string
	// Refuse returns why the node with this key has no place here, nil if it has. It is asked at each handshake, stream
	// and re-authentication, its error is told to the peer, and it must not block. Connections that are open when a
	// reason appears are cut by Disconnect. Nil refuses nobody.
	Refuse func(peer.ID) error
	// Missed is told of a peer of a swarm that has dialled this host, proven who it is, and refused it because it expected
	// another node key at the address. It must not block. Nil is told nothing.
	Missed func(who identity.ID, swarmID string, from net.Addr)
	// Conns bounds the incoming connections of each SPIFFE ID, over all node keys that come with it; zero fields are the
	// defaults.
	Conns identity.CrowdLimits
	// TheirTurn is how long a Dial whose connection is refused at the peer's address waits, from its beginning on, for one that the peer
	// opens: for nodes that dial each other. 0: not at all.
	TheirTurn time.Duration
	// Memory bounds what peers may make the host hold for them; zero fields are the defaults.
	Memory MemoryLimits
	// Log receives refusals and lost peers.
	Log *slog.Logger
}

// Policy says who may open streams of a protocol.
type Policy struct {
	// Roles that may; none listed is nobody.
	Roles []identity.Role
	// AllowNoSwarm also serves a peer while it, or we, have no swarm ID yet. It is for first contact only.
	AllowNoSwarm bool
}

// Handler serves one stream. It owns the stream and must close or reset it, at the latest when ctx ends, which is
// when the Host closes; Close waits for it.
type Handler func(ctx context.Context, s *Stream)

type service struct {
	policy Policy
	fn     Handler
}

// Host is a node's end of the peer-to-peer network. All methods are safe for concurrent use.
type Host struct {
	cfg       Config
	id        peer.ID
	security  *transport
	upgrader  libtransport.Upgrader
	protocols *mss.MultistreamMuxer[protocol.ID]
	listeners []libtransport.Listener
	dials     singleflight.Group
	table     *table
	memory    *memory
	renewer   *renewer
	reversals *reversals
	ctx       func() context.Context // ends with Close
	cancel    context.CancelFunc

	mu       sync.Mutex // guards services
	services map[protocol.ID]service
}

// NewHost binds the listen addresses and begins to accept connections. Register protocols with Handle at once: a
// stream of a protocol that is not registered is refused. The caller closes the Host.
func NewHost(cfg Config) (*Host, error) {
	if cfg.SwarmID == nil {
		cfg.SwarmID = func() string { return "" }
	}
	if cfg.Refuse == nil {
		cfg.Refuse = func(peer.ID) error { return nil }
	}
	id, err := identity.PeerID(cfg.Key)
	if err != nil {
		return nil, err
	}
	t := &transport{key: cfg.Key, local: id, source: cfg.Source, domains: cfg.Domains, swarmID: cfg.SwarmID, refuse: cfg.Refuse, missed: cfg.Missed, log: cfg.Log}
	mem := newMemory(cfg.Memory, cfg.Log)
	muxer := upgrader.StreamMuxer{ID: yamux.ID, Muxer: &boundMuxer{memory: mem}}
	dedicated := upgrader.StreamMuxer{ID: dedicatedID, Muxer: dedicatedMuxer{}}
	up, err := upgrader.New([]sec.SecureTransport{t}, []upgrader.StreamMuxer{muxer, dedicated}, nil, nil, nil, upgrader.WithAcceptTimeout(acceptTimeout))
	if err != nil {
		return nil, fmt.Errorf("make p2p host: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	h := &Host{
		cfg: cfg, id: id, security: t, upgrader: up, cancel: cancel,
		ctx:       func() context.Context { return ctx },
		protocols: mss.NewMultistreamMuxer[protocol.ID](),
		table:     newTable(cfg.Refuse, identity.NewCrowd(cfg.Conns, cfg.Log)),
		memory:    mem,
		services:  map[protocol.ID]service{},
	}
	h.reversals = &reversals{host: h, now: time.Now}
	h.renewer = &renewer{source: cfg.Source, domains: cfg.Domains, refuse: cfg.Refuse, said: &t.said, log: cfg.Log}
	h.protocols.AddHandler(ReauthProtocol, nil)
	h.protocols.AddHandler(reverseProtocol, nil)
	for _, addr := range cfg.ListenAddrs {
		if err := h.listen(addr); err != nil {
			_ = h.Close()
			return nil, err
		}
	}
	return h, nil
}

// BridgeLogs sends the libp2p libraries' own messages to handler instead of standard error. It is process-wide and
// works only before their first message, so main calls it early.
func BridgeLogs(handler slog.Handler) { gologshim.SetDefaultHandler(handler) }

func (h *Host) listen(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("listen for peers: %w", err)
	}
	ml, err := newGatedListener(l, h.cfg.Log)
	if err != nil {
		_ = l.Close()
		return fmt.Errorf("listen for peers on %s: %w", addr, err)
	}
	listener := h.upgrader.UpgradeGatedMaListener(nil, h.upgrader.GateMaListener(ml))
	h.listeners = append(h.listeners, listener)
	h.table.wg.Go(func() { h.accept(listener) })
	return nil
}

func (h *Host) accept(l libtransport.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			if h.ctx().Err() == nil {
				h.cfg.Log.Error("no longer accepting peers", "address", l.Addr().String(), "error", err)
			}
			return
		}
		if _, ok := dedicatedOf(c); ok {
			if !h.table.goTracked(func() { h.serveDedicated(c) }) {
				_ = c.Close()
			}
			continue
		}
		if _, err := h.adopt(c, ""); err != nil {
			_ = c.Close()
		}
	}
}

// ID returns the host's peer ID.
func (h *Host) ID() peer.ID { return h.id }

// ListenAddrs returns the bound host:port pairs, in the order of Config.ListenAddrs.
func (h *Host) ListenAddrs() []string {
	addrs := make([]string, len(h.listeners))
	for i, l := range h.listeners {
		addrs[i] = l.Addr().String()
	}
	return addrs
}

// Handle serves streams of the protocol, in place of an earlier handler of it.
func (h *Host) Handle(name string, policy Policy, fn Handler) {
	policy.Roles = slices.Clone(policy.Roles)
	id := protocol.ID(name)
	h.mu.Lock()
	h.services[id] = service{policy: policy, fn: fn}
	h.mu.Unlock()
	h.protocols.AddHandler(id, nil)
}

// Peers lists the peers that are connected now.
func (h *Host) Peers() []Peer { return h.table.peers() }

// Disconnect closes all connections with the peer, as for one that was removed from the swarm.
func (h *Host) Disconnect(id peer.ID) { h.table.disconnect(id) }

// Close stops listening, drops all connections and waits until every handler has returned. It must not be called by
// a handler. Closing twice is no error.
func (h *Host) Close() error {
	all := h.table.shut()
	h.cancel()
	var errs []error
	for _, l := range h.listeners {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	h.table.end(all)
	h.table.wg.Wait()
	return errors.Join(errs...)
}
