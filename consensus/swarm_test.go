package consensus_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"

	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/ledgerfile"
	"github.com/swarmd/swarmd/consensus/state"
)

// memNet joins nodes in one process by net.Pipe. Streams to or from a node that is cut off break, as when a cable is
// pulled and the peer's kernel gives up at once.
type memNet struct {
	mu       sync.Mutex
	nodes    map[string]*memNode // by peer ID
	cut      map[string]bool
	silent   map[string]bool // dials get no answer
	streams  map[*memConn]struct{}
	handling sync.WaitGroup
}

func newMemNet() *memNet {
	return &memNet{nodes: map[string]*memNode{}, cut: map[string]bool{}, silent: map[string]bool{}, streams: map[*memConn]struct{}{}}
}

// memNode is one node's consensus.Network.
type memNode struct {
	net      *memNet
	peer     consensus.Peer
	handlers map[string]func(net.Conn, consensus.Peer)
}

func (n *memNet) node(peer consensus.Peer) *memNode {
	n.mu.Lock()
	defer n.mu.Unlock()
	m := &memNode{net: n, peer: peer, handlers: map[string]func(net.Conn, consensus.Peer){}}
	n.nodes[peer.PeerID] = m
	return m
}

// Handle implements consensus.Network.
func (m *memNode) Handle(protocol string, fn func(net.Conn, consensus.Peer)) {
	m.net.mu.Lock()
	defer m.net.mu.Unlock()
	m.handlers[protocol] = fn
}

// Dial implements consensus.Network.
func (m *memNode) Dial(ctx context.Context, address, protocol string) (net.Conn, error) {
	id, _, err := consensus.ParseAddress(address)
	if err != nil {
		return nil, err
	}
	n := m.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.silent[id] {
		n.mu.Unlock()
		<-ctx.Done()
		n.mu.Lock()
		return nil, ctx.Err()
	}
	to := n.nodes[id]
	if to == nil || to.handlers[protocol] == nil || n.cut[id] || n.cut[m.peer.PeerID] {
		return nil, fmt.Errorf("no route from %s to %s", m.peer.PeerID, id)
	}
	a, b := net.Pipe()
	here := &memConn{Conn: a, net: n, ends: [2]string{m.peer.PeerID, id}, remote: to.peer}
	there := &memConn{Conn: b, net: n, ends: here.ends, remote: m.peer}
	n.streams[here], n.streams[there] = struct{}{}, struct{}{}
	fn := to.handlers[protocol]
	n.handling.Go(func() { fn(there, m.peer) })
	return here, nil
}

// Cut breaks all streams of a node and refuses new ones until Heal.
func (n *memNet) Cut(id string) {
	n.mu.Lock()
	n.cut[id] = true
	var broken []*memConn
	for c := range n.streams {
		if c.ends[0] == id || c.ends[1] == id {
			broken = append(broken, c)
		}
	}
	n.mu.Unlock()
	for _, c := range broken {
		_ = c.Close()
	}
}

// Heal ends a Cut.
func (n *memNet) Heal(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.cut, id)
}

// swallow lets dials of a node wait until their time is over, as those of a machine that is off, until hear.
func (n *memNet) swallow(id string) { n.setSilent(id, true) }

func (n *memNet) hear(id string) { n.setSilent(id, false) }

func (n *memNet) setSilent(id string, silent bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.silent[id] = silent
}

type memConn struct {
	net.Conn
	net    *memNet
	ends   [2]string
	remote consensus.Peer
}

// RemotePeer tells consensus who answered.
func (c *memConn) RemotePeer() consensus.Peer { return c.remote }

// Close closes the stream.
func (c *memConn) Close() error {
	c.net.mu.Lock()
	delete(c.net.streams, c)
	c.net.mu.Unlock()
	return c.Conn.Close()
}

// prover signs with what nobody else is told: the place of its node on the network. The chain of a registration is the peer
// as the network knows it, as a certificate would say it.
type prover struct {
	net    *memNet
	peerID string
}

func (p prover) sign(peerID string, r consensus.JoinRequest) []byte {
	sum := sha256.New()
	fmt.Fprintf(sum, "secret of %s: %x %q %q %q %+v", peerID, r.Nonce, r.SwarmID, r.Name, r.Address, r.Register.Node)
	return sum.Sum(nil)
}

// Prove implements consensus.Prover.
func (p prover) Prove(r consensus.JoinRequest) (consensus.JoinRequest, error) {
	r.NodeSignature = p.sign(p.peerID, r)
	return r, nil
}

// Check implements consensus.Prover.
func (p prover) Check(swarmID string, r consensus.JoinRequest) (consensus.Peer, error) {
	id := r.Register.Node.PeerID
	if r.SwarmID != swarmID || !bytes.Equal(r.NodeSignature, p.sign(id, r)) {
		return consensus.Peer{}, errors.New("not signed by " + id)
	}
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	return p.net.nodes[id].peer, nil
}

// swarm is a set of servers on one memNet, with stores that survive a restart.
type swarm struct {
	t      *testing.T
	net    *memNet
	timing consensus.Timing
	// committed is all servers' OnCommitted.
	committed func(time.Duration)
	// onContact is what a server is told of the leader.
	onContact func(on string, c consensus.Contact)
	stores    map[string]*consensus.Stores
	servers   map[string]*server
	logs      func(name string) slog.Handler // of the servers; nil: testLog's
	vet       func(on string, c state.Command) (state.Command, error)
}

type server struct {
	*consensus.Group
	name   string
	cancel context.CancelFunc
	done   chan error
}

func newSwarm(t *testing.T) *swarm {
	s := &swarm{t: t, net: newMemNet(), stores: map[string]*consensus.Stores{}, servers: map[string]*server{}}
	t.Cleanup(func() {
		for name := range s.servers {
			s.stop(name)
		}
		s.net.handling.Wait()
	})
	return s
}

func testLog() *slog.Logger {
	if os.Getenv("SWARM_TEST_LOG") != "" {
		return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return slog.New(slog.DiscardHandler)
}

func address(name string) string { return consensus.FormatAddress("id"+name, name+":30303") }

func (s *swarm) config(name string) consensus.Config {
	stores := s.stores[name]
	if stores == nil {
		mem := raft.NewInmemStore()
		stores = &consensus.Stores{Log: mem, Stable: mem, Snapshots: raft.NewInmemSnapshotStore(), Ledger: ledgerfile.NewInmem()}
		s.stores[name] = stores
	}
	log := testLog()
	if s.logs != nil {
		log = slog.New(s.logs(name))
	}
	var vet func(state.Command) (state.Command, error)
	if s.vet != nil {
		vet = func(c state.Command) (state.Command, error) { return s.vet(name, c) }
	}
	var contact func(consensus.Contact)
	if s.onContact != nil {
		contact = func(c consensus.Contact) { s.onContact(name, c) }
	}
	return consensus.Config{
		Name: name, Address: address(name), Stores: stores, Timing: s.timing, Vet: vet, OnCommitted: s.committed, OnContact: contact,
		Network: s.net.node(consensus.Peer{PeerID: "id" + name, Role: "sn"}), Log: log.With("on", name),
		Prover: prover{s.net, "id" + name},
	}
}

func (s *swarm) start(name string) *server { return s.startWith(s.config(name)) }

func (s *swarm) startWith(cfg consensus.Config) *server {
	s.t.Helper()
	g, err := consensus.Open(cfg)
	if err != nil {
		s.t.Fatalf("open %s: %v", cfg.Name, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	sv := &server{Group: g, name: cfg.Name, cancel: cancel, done: make(chan error, 1)}
	g.ServeAPI(sv.standIn())
	go func() { sv.done <- g.Run(ctx) }()
	s.servers[cfg.Name] = sv
	return sv
}

func (s *swarm) stop(name string) {
	s.t.Helper()
	sv := s.servers[name]
	delete(s.servers, name)
	sv.cancel()
	if err := <-sv.done; err != nil {
		s.t.Errorf("run %s: %v", name, err)
	}
}

// restart stops the servers, then starts them again.
func (s *swarm) restart(names ...string) {
	s.t.Helper()
	for _, name := range names {
		s.stop(name)
	}
	for _, name := range names {
		s.start(name)
	}
}

func register(name string) state.RegisterNode {
	return state.RegisterNode{
		Node:      state.Node{Name: name, Role: "sn", PeerID: "id" + name, Host: name, P2PPort: 30303},
		TokenHash: strings.Repeat("0", 64), AtMS: 1,
	}
}

func joinRequest(name string) consensus.JoinRequest {
	return consensus.JoinRequest{Name: name, Address: address(name), Register: register(name)}
}

// form founds a swarm on the first name, lets the others join, and waits until each knows that all vote: who does not know it
// refuses the others' votes.
func (s *swarm) form(names ...string) {
	s.t.Helper()
	first := s.start(names[0])
	if first.HasState() {
		s.t.Fatal("a new server says that it has state")
	}
	if err := first.Bootstrap(s.within(10*time.Second), state.InitSwarm{SwarmID: "swarm1", AtMS: 1}, register(names[0])); err != nil {
		s.t.Fatal(err)
	}
	for _, name := range names[1:] {
		s.join(name, names[0])
	}
	s.until("all to vote", func() bool {
		for _, name := range names {
			voters := 0
			for _, sv := range s.servers[name].Servers() {
				if sv.Voter {
					voters++
				}
			}
			if voters < min(len(names), consensus.MaxVoters) {
				return false
			}
		}
		return true
	})
}

func (s *swarm) join(name, via string) *server {
	s.t.Helper()
	sv := s.start(name)
	if err := sv.Join(s.within(30*time.Second), []string{address(via)}, joinRequest(name)); err != nil {
		s.t.Fatalf("join %s: %v", name, err)
	}
	return sv
}

func (s *swarm) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	s.t.Cleanup(cancel)
	return ctx
}

// leader waits until one of the named servers leads and the others know it.
func (s *swarm) leader(names ...string) *server {
	s.t.Helper()
	var found *server
	s.until("a leader", func() bool {
		for _, name := range names {
			if s.servers[name].IsLeader() {
				found = s.servers[name]
			}
		}
		if found == nil {
			return false
		}
		for _, name := range names {
			if l, _, ok := s.servers[name].Leader(); !ok || l != found.name {
				return false
			}
		}
		return true
	})
	return found
}

// until waits in virtual time.
func (s *swarm) until(what string, ok func() bool) {
	s.t.Helper()
	for range 3000 {
		if ok() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	s.t.Fatalf("waited five minutes for %s", what)
}

// propose registers an SL, which shows in the state.
func (s *swarm) propose(on, node string) {
	s.t.Helper()
	_, err := s.servers[on].Propose(s.within(30*time.Second), registerSL(node))
	if err != nil {
		s.t.Fatalf("propose on %s: %v", on, err)
	}
	if s.servers[on].View().Nodes[node] == nil {
		s.t.Fatalf("%s does not read its own write", on)
	}
}

func registerSL(name string) state.RegisterNode {
	c := register(name)
	c.Node.Role = "sl"
	return c
}

// converged waits until the named servers hold the same bytes.
func (s *swarm) converged(names ...string) {
	s.t.Helper()
	time.Sleep(10 * time.Second) // virtual: what is on its way arrives
	bytesOf := func(name string) string {
		b, err := state.EncodeSnapshot(s.servers[name].View())
		if err != nil {
			s.t.Fatal(err)
		}
		return string(b)
	}
	s.until("equal states", func() bool {
		for _, name := range names[1:] {
			if s.servers[name].Index() != s.servers[names[0]].Index() {
				return false
			}
		}
		return true
	})
	for _, name := range names[1:] {
		if d := cmp.Diff(bytesOf(names[0]), bytesOf(name)); d != "" {
			s.t.Errorf("%s and %s differ: %s", names[0], name, d)
		}
	}
}

var errBlocked = errors.New("blocked")
