package raftnet

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/swarmd/swarmd/identity/naming"
)

// streamLayer gives raft's NetworkTransport its streams. It keeps every open one, both ways, so that a shutdown
// interrupts raft's blocked calls instead of waiting for their deadlines.
type streamLayer struct {
	network Network
	address string
	// allow judges an accepted peer; it must be fast and must not block.
	allow func(Peer) bool
	// serve passes on what arrives on an accepted stream until that is closed.
	serve func(*trackedConn, Peer)
	log   *slog.Logger

	done chan struct{}
	once sync.Once

	mu   sync.Mutex
	open map[*trackedConn]struct{} // nil once closed
}

var _ raft.StreamLayer = (*streamLayer)(nil)

func newStreamLayer(network Network, address string, allow func(Peer) bool, log *slog.Logger) *streamLayer {
	return &streamLayer{
		network: network, address: address, allow: allow, log: log,
		done: make(chan struct{}), open: map[*trackedConn]struct{}{},
	}
}

// handle passes one accepted stream to raft and returns when raft has closed it.
func (s *streamLayer) handle(conn net.Conn, peer Peer) {
	if peer.Role != naming.RoleSN || !s.allow(peer) {
		s.log.Warn("raft stream refused", "peer", peer.PeerID, "role", peer.Role)
		_ = conn.Close()
		return
	}
	if t := s.track(conn, peer.PeerID); t != nil {
		s.serve(t, peer)
	}
}

// track registers a stream; nil means that the layer is closed and so is the stream.
func (s *streamLayer) track(conn net.Conn, peerID string) *trackedConn {
	t := &trackedConn{Conn: conn, peerID: peerID, layer: s, closed: make(chan struct{})}
	s.mu.Lock()
	if s.open != nil {
		s.open[t] = struct{}{}
		s.mu.Unlock()
		return t
	}
	s.mu.Unlock()
	_ = conn.Close()
	return nil
}

// Accept waits for the layer's end: accepted streams have layers of their own.
func (s *streamLayer) Accept() (net.Conn, error) {
	<-s.done
	return nil, net.ErrClosed
}

// Dial opens a raft stream to a server.
func (s *streamLayer) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := DoneContext(s.done, timeout)
	defer cancel()
	conn, err := DialSN(ctx, s.network, string(address), Protocol)
	if err != nil {
		return nil, err
	}
	peerID, _, _ := ParseAddress(string(address)) // it parsed, or nobody would have answered
	if t := s.track(conn, peerID); t != nil {
		return t, nil
	}
	return nil, net.ErrClosed
}

// Addr is the address that raft advertises for this node.
func (s *streamLayer) Addr() net.Addr { return addr(s.address) }

// Close closes the layer and every stream that it gave.
func (s *streamLayer) Close() error {
	s.once.Do(func() { close(s.done) })
	s.closeAll(true)
	return nil
}

// closeAll closes the open streams; with final no further ones are taken.
func (s *streamLayer) closeAll(final bool) {
	s.mu.Lock()
	conns := s.open
	s.open = map[*trackedConn]struct{}{}
	if final {
		s.open = nil
	}
	s.mu.Unlock()
	for c := range conns {
		_ = c.Close()
	}
}

// closeOf closes the open streams of the peers for whom out is true.
func (s *streamLayer) closeOf(out func(peerID string) bool) {
	s.mu.Lock()
	var conns []*trackedConn
	for c := range s.open {
		if out(c.peerID) {
			conns = append(conns, c)
		}
	}
	s.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
}

// trackedConn tells its layer when it is closed.
type trackedConn struct {
	net.Conn
	peerID string // of the other side
	layer  *streamLayer
	once   sync.Once
	closed chan struct{}
}

// Close closes the stream; further calls do nothing.
func (c *trackedConn) Close() error {
	var err error
	c.once.Do(func() {
		c.layer.mu.Lock()
		delete(c.layer.open, c)
		c.layer.mu.Unlock()
		err = c.Conn.Close()
		close(c.closed)
	})
	return err
}

// addr is a net.Addr of this package's address form.
type addr string

// Network names the kind of address.
func (addr) Network() string { return "swarm" }

// String returns the address.
func (a addr) String() string { return string(a) }

// DoneContext returns a context that ends with done, after timeout, or when cancel is called, which it must be.
func DoneContext(done <-chan struct{}, timeout time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	go func() {
		select {
		case <-done:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
