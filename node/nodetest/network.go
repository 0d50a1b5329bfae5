package nodetest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/swarmd/swarmd/internal/p2p"
)

// keepalive is how long a stream over a cut link stays open on both sides, as with yamux's keep-alives.
const keepalive = 30 * time.Second

var errExpired = errors.New("SVID has expired")

// Network joins the hosts of a swarm. Faults act on pairs of names, so they outlive a restart.
//
// A cut link is silent: streams stall and break after half a minute; what was written before the heal arrives after it.
// A crashed host refuses at once, as the kernel of a machine whose process died does.
type Network struct {
	nodes identities // all, those that have not started yet among them; for the test's goroutine

	mu      sync.Mutex // guards what follows
	hosts   map[string]*host
	cuts    map[pair]int    // which cut it is; 0: none
	deaf    map[pair]int    // the same for the way to the first from the second
	shut    map[string]bool // hosts that no SL can open a connection to
	linked  map[pair]bool   // between these hosts a connection stands, over which either opens streams
	stopped map[string]int  // the same for frozen hosts
	delays  map[pair]time.Duration
	wires   map[*stream]struct{}
	changed chan struct{} // closed and replaced when a link changes
	count   int
	serving sync.WaitGroup
}

type pair [2]string

func between(a, b string) pair {
	if a > b {
		a, b = b, a
	}
	return pair{a, b}
}

// linkState is how a link is at one moment.
type linkState struct {
	up      bool
	delay   time.Duration
	changed <-chan struct{}
}

// host is one incarnation of a node on the network.
type host struct {
	network  *Network
	name     string
	peerID   string
	role     string
	spiffe   string
	swarmID  func() string // guarded by Network.mu, as all that follows; nil: none
	refuses  func(peerID string) error
	gone     bool
	expired  bool
	services map[string]service
}

// service answers the streams of a protocol.
type service struct {
	admits func(from *host) error // nil: all
	fn     func(*conn)
}

func newNetwork(nodes identities) *Network {
	return &Network{
		nodes: nodes,
		hosts: map[string]*host{}, cuts: map[pair]int{}, deaf: map[pair]int{}, shut: map[string]bool{}, linked: map[pair]bool{}, stopped: map[string]int{}, delays: map[pair]time.Duration{}, wires: map[*stream]struct{}{},
		changed: make(chan struct{}),
	}
}

// attach begins an incarnation of a node.
func (n *Network) attach(id nodeID) *host {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := &host{
		network: n, name: id.name, peerID: id.peerID, role: id.role, spiffe: id.spiffe, services: map[string]service{},
		refuses: func(string) error { return nil },
	}
	n.hosts[id.name] = h
	return h
}

// host is a node's newest life, nil before the first.
func (n *Network) host(name string) *host {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.hosts[name]
}

// state is how the link is at the end a: what comes from b.
func (n *Network) state(a, b string) linkState {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := between(a, b)
	up := n.cuts[p] == 0 && n.deaf[pair{a, b}] == 0 && n.stopped[a] == 0 && n.stopped[b] == 0
	return linkState{up: up, delay: n.delays[p], changed: n.changed}
}

// open reports whether a host can open a stream to another: it is not shut, or a connection stands.
func (n *Network) open(from, to, service string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return service == serviceAPI || !n.shut[to] || n.linked[between(from, to)]
}

// stands reports whether a connection stands between two hosts.
func (n *Network) stands(a, b string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.linked[between(a, b)]
}

// Shut has a firewall before a host drop all connections that others would open to it as a peer, as NAT does.
func (n *Network) Shut(name string, shut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.shut[name] = shut
	n.changeLocked()
}

func (n *Network) changeLocked() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// snap breaks the streams for which which is true.
func (n *Network) snap(err error, which func(*stream) bool) {
	n.mu.Lock()
	var hit []*stream
	for w := range n.wires {
		if which(w) {
			hit = append(hit, w)
			delete(n.wires, w)
		}
	}
	n.mu.Unlock()
	for _, w := range hit {
		w.snap(err)
	}
}

// leave notes that one end has closed; a wire is forgotten when both have.
func (n *Network) leave(w *stream) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if w.left++; w.left == len(w.ends) {
		delete(n.wires, w)
	}
}

// detach ends a host, as a crash does.
func (h *host) detach() {
	h.network.mu.Lock()
	h.gone = true
	for p := range h.network.linked {
		if p[0] == h.name || p[1] == h.name {
			delete(h.network.linked, p)
		}
	}
	h.network.mu.Unlock()
	h.network.snap(syscall.ECONNRESET, func(w *stream) bool { return w.ends[0] == h || w.ends[1] == h })
}

// cutOff ends all streams with a peer but those to the API, where nobody shows a node key.
func (h *host) cutOff(peerID string) {
	h.network.snap(syscall.ECONNRESET, func(w *stream) bool {
		return w.service != serviceAPI && (w.ends[0] == h && w.ends[1].peerID == peerID || w.ends[1] == h && w.ends[0].peerID == peerID)
	})
}

func (h *host) isGone() bool {
	h.network.mu.Lock()
	defer h.network.mu.Unlock()
	return h.gone
}

// handle sets what answers streams of a service. fn owns the stream.
func (h *host) handle(name string, fn func(*conn)) { h.serve(name, service{fn: fn}) }

func (h *host) serve(name string, s service) {
	h.network.mu.Lock()
	defer h.network.mu.Unlock()
	h.services[name] = s
}

// dial opens a stream; to a host behind a cut link it takes until the link heals or ctx ends. A peer ID, if given, must
// be the other side's.
func (h *host) dial(ctx context.Context, name, peerID, service string) (*conn, error) {
	n := h.network
	for {
		l, there := n.state(h.name, name), n.state(name, h.name)
		if l.up && there.up && n.open(h.name, name, service) {
			if l.delay > 0 { // handshakes
				if err := sleep(ctx, 2*l.delay); err != nil {
					return nil, err
				}
			}
			return n.connect(h, name, peerID, service)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("dial %s: %w", name, ctx.Err())
		case <-l.changed:
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

func (n *Network) connect(h *host, name, peerID, service string) (*conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	to := n.hosts[name]
	switch {
	case h.gone:
		return nil, net.ErrClosed
	case to == nil || to.gone || to.services[service].fn == nil:
		return nil, fmt.Errorf("dial %s: %w", name, syscall.ECONNREFUSED)
	case h.expired || to.expired:
		return nil, fmt.Errorf("dial %s: handshake: %w", name, errExpired)
	case peerID != "" && peerID != to.peerID:
		return nil, fmt.Errorf("dial %s: it is not %s", name, peerID)
	}
	if service != serviceAPI {
		if err := errors.Join(h.refuses(to.peerID), to.refuses(h.peerID)); err != nil {
			return nil, fmt.Errorf("dial %s: %w", name, err)
		}
	}
	if admits := to.services[service].admits; admits != nil {
		if err := admits(h); err != nil {
			return nil, fmt.Errorf("dial %s: %w", name, &p2p.RefusedError{Reason: err.Error()})
		}
	}
	if p := between(h.name, name); service != serviceAPI && !n.linked[p] {
		n.linked[p] = true
		n.changeLocked() // who waits for the other side's connection may use this one
	}
	w := newStream(n, h, to, service)
	n.wires[w] = struct{}{}
	fn := to.services[service].fn
	n.serving.Go(func() { fn(&conn{wire: w, side: 1}) })
	return &conn{wire: w}, nil
}

// listener gives accepted streams to an HTTP server.
type listener struct {
	name    string
	streams chan *conn
	forget  func() // nil: nobody knows the listener
	once    sync.Once
	done    chan struct{}
}

// answer has a listener accept the streams of a service until it is closed.
func (h *host) answer(service string, l *listener) {
	l.forget = func() {
		h.network.mu.Lock()
		defer h.network.mu.Unlock()
		delete(h.services, service)
	}
	h.handle(service, func(c *conn) {
		select {
		case l.streams <- c:
		case <-l.done:
			_ = c.Reset()
		}
	})
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.streams:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.once.Do(func() {
		close(l.done)
		if l.forget != nil {
			l.forget()
		}
	})
	return nil
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return addr(l.name) }
