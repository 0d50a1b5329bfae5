package metrics

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/figures"
	"github.com/swarmd/swarmd/internal/p2p"
)

// Bounds of the peers that bytes are told of by name. Keys are for whoever makes them: those of nobody who is known take no room from nodes.
const (
	maxPeers   = 128
	maxUnnamed = 32 // of these
)

// Operators stands for all who are no nodes: each command of an operator may have a key of its own.
const Operators = "operators"

// Directions of bytes, and of streams: who opened them.
const (
	sent     = "sent"
	received = "received"
	out      = "out"
	in       = "in"
)

// Traffic counts what goes over the streams of a node, whether or not metrics are served. It is safe for concurrent use.
type Traffic struct {
	bytes, open, opened, failed *prometheus.Desc

	mu       sync.Mutex
	name     func(peerID string) string // nil: nobody knows names
	peers    map[string]*peerBytes      // by peer ID, or by the name that an SVID has; also Other and Operators
	services map[service]*streams
	networks []p2p.Network // that were opened
}

// peerBytes is what has gone to and come from one peer.
type peerBytes struct {
	sent, received atomic.Uint64

	// Guarded by Traffic.mu:
	name string // once it was known
	open int    // streams
}

// service is a protocol in one direction.
type service struct{ protocol, direction string }

type streams struct{ open, opened, failed atomic.Int64 }

// NewTraffic returns one that has counted nothing.
func NewTraffic() *Traffic {
	return &Traffic{
		bytes:    desc("peer_bytes_total", "Bytes on streams between this node and another, by who that is.", "peer", "direction"),
		open:     desc("streams", "Streams that are open, by protocol and by who opened them.", "protocol", "direction"),
		opened:   desc("streams_opened_total", "Streams that were opened, by protocol and by who opened them.", "protocol", "direction"),
		failed:   desc("stream_dial_failures_total", "Streams that this node could not open, by protocol.", "protocol"),
		peers:    map[string]*peerBytes{},
		services: map[service]*streams{},
	}
}

// Describe implements prometheus.Collector.
func (t *Traffic) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{t.bytes, t.open, t.opened, t.failed} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (t *Traffic) Collect(to chan<- prometheus.Metric) {
	t.resolve()
	t.mu.Lock()
	defer t.mu.Unlock()
	type sum struct{ sent, received uint64 }
	sums := map[string]sum{} // a node that got a new key is one node
	for id, p := range t.peers {
		label := p.name
		if label == "" {
			label = id
		}
		s := sums[label]
		sums[label] = sum{s.sent + p.sent.Load(), s.received + p.received.Load()}
	}
	for label, s := range sums {
		counter(to, t.bytes, float64(s.sent), label, sent)
		counter(to, t.bytes, float64(s.received), label, received)
	}
	for k, s := range t.services {
		gauge(to, t.open, float64(s.open.Load()), k.protocol, k.direction)
		counter(to, t.opened, float64(s.opened.Load()), k.protocol, k.direction)
		if k.direction == out {
			counter(to, t.failed, float64(s.failed.Load()), k.protocol)
		}
	}
}

// resolve looks up the names of peers that have none yet.
func (t *Traffic) resolve() {
	t.mu.Lock()
	name, unnamed := t.name, map[string]*peerBytes{}
	for id, p := range t.peers {
		if p.name == "" && !fixed(id) {
			unnamed[id] = p
		}
	}
	t.mu.Unlock()
	if name == nil {
		return
	}
	for id, p := range unnamed {
		found := name(id) // not with mu held: it takes locks of others
		t.mu.Lock()
		p.name = found
		t.mu.Unlock()
	}
}

// of returns the counters of a peer, for a stream of it that is open until release.
func (t *Traffic) of(p p2p.Peer) *peerBytes {
	t.mu.Lock()
	defer t.mu.Unlock()
	key, name := p.ID.String(), p.Identity.NodeName()
	switch {
	case p.Identity.Role() == identity.RoleSWCI || p.Identity.Role() == identity.RoleAudit:
		key, name = Operators, ""
	case name != "":
		key = name // whatever keys it has had
	}
	if t.peers[key] == nil {
		if !fixed(key) && !t.room(name != "") {
			key, name = Other, ""
		}
		if t.peers[key] == nil {
			t.peers[key] = &peerBytes{name: name}
		}
	}
	c := t.peers[key]
	c.open++
	return c
}

// release says that a stream of a peer has ended.
func (t *Traffic) release(c *peerBytes) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.open--
}

// room reports whether one more peer may be told of. If need be it forgets one that has no stream: rather one without a name, and one that has
// one only for another that has. The caller holds mu.
func (t *Traffic) room(named bool) bool {
	all, unnamed, idle, past := 0, 0, "", ""
	for key, p := range t.peers {
		if fixed(key) {
			continue
		}
		all++
		if p.name != "" {
			if p.open == 0 && named {
				past = key
			}
			continue
		}
		unnamed++
		if p.open == 0 {
			idle = key
		}
	}
	if all < maxPeers && (named || unnamed < maxUnnamed) {
		return true
	}
	if idle == "" {
		idle = past
	}
	if idle != "" {
		delete(t.peers, idle)
	}
	return idle != ""
}

// fixed reports whether a key of peers stands for many.
func fixed(key string) bool { return key == Other || key == Operators }

// serving returns the counters of a protocol. Protocols are those of this program: what peers ask for besides is refused before.
func (t *Traffic) serving(protocol, direction string) *streams {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := service{protocol, direction}
	if t.services[k] == nil {
		t.services[k] = &streams{}
	}
	return t.services[k]
}

// namedBy says who knows the names of peers that have none in their SPIFFE ID; empty: he does not know it either.
func (t *Traffic) namedBy(name func(peerID string) string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.name = name
}

// OpenHost counts what goes over the networks that open opens.
func (t *Traffic) OpenHost(open func(cfg p2p.Config) (p2p.Network, error)) func(cfg p2p.Config) (p2p.Network, error) {
	return func(cfg p2p.Config) (p2p.Network, error) {
		n, err := open(cfg)
		if err != nil {
			return nil, err
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		t.networks = append(t.networks, n)
		return counted{n, t}, nil
	}
}

// Open says what is open now.
func (t *Traffic) Open() figures.Open {
	t.mu.Lock()
	networks, o := slices.Clone(t.networks), figures.Open{}
	for k, s := range t.services {
		if k.direction == out {
			o.Out += int(s.open.Load())
		} else {
			o.In += int(s.open.Load())
		}
	}
	t.mu.Unlock()
	for _, n := range networks { // not with mu held: they have locks of their own
		known, ok := n.(interface{ Peers() []p2p.Peer })
		if !ok {
			o.Peers = -1
			break
		}
		o.Peers += len(known.Peers())
	}
	return o
}

// counted is a network whose streams are counted.
type counted struct {
	p2p.Network
	t *Traffic
}

// Handle implements p2p.Network.
func (c counted) Handle(protocol string, policy p2p.Policy, fn func(ctx context.Context, s p2p.Conn)) {
	n := c.t.serving(protocol, in)
	c.Network.Handle(protocol, policy, func(ctx context.Context, s p2p.Conn) { fn(ctx, c.t.count(s, n)) })
}

// Dial implements p2p.Network.
func (c counted) Dial(ctx context.Context, to p2p.Addr, protocol string, dedicated bool, fits func(p2p.Peer) error) (p2p.Conn, error) {
	n := c.t.serving(protocol, out)
	s, err := c.Network.Dial(ctx, to, protocol, dedicated, fits)
	if err != nil {
		if ctx.Err() == nil {
			n.failed.Add(1)
		}
		return nil, err
	}
	return c.t.count(s, n), nil
}

// count begins to count on a stream.
func (t *Traffic) count(s p2p.Conn, n *streams) p2p.Conn {
	peer := t.of(s.Peer())
	n.opened.Add(1)
	n.open.Add(1)
	return &stream{Conn: s, peer: peer, ended: sync.OnceFunc(func() {
		n.open.Add(-1)
		t.release(peer)
	})}
}

// stream is one that is counted.
type stream struct {
	p2p.Conn
	peer  *peerBytes
	ended func()
}

// Read implements net.Conn.
func (s *stream) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	s.peer.received.Add(uint64(max(n, 0))) //nolint:gosec // not negative
	return n, err
}

// Write implements net.Conn.
func (s *stream) Write(b []byte) (int, error) {
	n, err := s.Conn.Write(b)
	s.peer.sent.Add(uint64(max(n, 0))) //nolint:gosec // not negative
	return n, err
}

// WriteFrame is p2p.Stream's where the stream beneath has it, and else as good.
func (s *stream) WriteFrame(header, payload []byte) (int, error) {
	if w, ok := s.Conn.(interface {
		WriteFrame(header, payload []byte) (int, error)
	}); ok {
		n, err := w.WriteFrame(header, payload)
		s.peer.sent.Add(uint64(max(n, 0))) //nolint:gosec // not negative
		return n, err
	}
	n, err := s.Write(header)
	if err != nil {
		return n, err
	}
	m, err := s.Write(payload)
	return n + m, err
}

// Queues is p2p.Stream's.
func (s *stream) Queues() bool {
	q, ok := s.Conn.(interface{ Queues() bool })
	return ok && q.Queues()
}

// Close implements net.Conn.
func (s *stream) Close() error {
	s.ended()
	return s.Conn.Close()
}

// Reset implements p2p.Conn.
func (s *stream) Reset() error {
	s.ended()
	return s.Conn.Reset()
}

// Disconnect implements p2p.Conn.
func (s *stream) Disconnect() error {
	s.ended()
	return s.Conn.Disconnect()
}
