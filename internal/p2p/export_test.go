package p2p

import (
	"context"
	"io"
	"net"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/sec"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/swarmd/swarmd/identity"
)

// Connections returns how many connections the host has with the peer.
func Connections(h *Host, id peer.ID) int {
	h.table.mu.Lock()
	defer h.table.mu.Unlock()
	return len(h.table.conns[id])
}

// NotYetAdopted makes the host forget its connections with the peer until adopt is called.
func NotYetAdopted(h *Host, id peer.ID) (adopt func()) {
	h.table.mu.Lock()
	defer h.table.mu.Unlock()
	list := h.table.conns[id]
	delete(h.table.conns, id)
	return func() {
		h.table.mu.Lock()
		defer h.table.mu.Unlock()
		h.table.conns[id] = list
		close(h.table.adopted)
		h.table.adopted = make(chan struct{})
	}
}

// Expiry returns when the host's newest connection with the peer ends unless the peer re-authenticates.
func Expiry(h *Host, id peer.ID) time.Time {
	c := newest(h, id)
	if c == nil {
		return time.Time{}
	}
	c.expiry.mu.Lock()
	defer c.expiry.mu.Unlock()
	return c.expiry.expires
}

func newest(h *Host, id peer.ID) *conn {
	h.table.mu.Lock()
	defer h.table.mu.Unlock()
	list := h.table.conns[id]
	if len(list) == 0 {
		return nil
	}
	return list[len(list)-1]
}

// Binding returns what a proof on the host's newest connection with the peer is bound to.
func Binding(h *Host, id peer.ID) (exporter []byte, us byte) {
	c := newest(h, id)
	return slices.Clone(c.exporter), byte(c.us)
}

// ReauthMessage is what a proof signs.
func ReauthMessage(exporter []byte, from byte, nonce, leaf []byte) []byte {
	return reauthMessage(exporter, side(from), nonce, leaf)
}

// MarshalProof is a holder's answer.
func MarshalProof(chain [][]byte, signature []byte) ([]byte, error) {
	return proof{chain: chain, signature: signature}.marshal()
}

// ReadVerdict reads a verdict.
func ReadVerdict(r io.Reader) error { return readVerdict(r) }

// OtherSide is the other end of a connection.
func OtherSide(s byte) byte { return byte(side(s).other()) }

// NewSecurity returns the security transport alone.
func NewSecurity(key crypto.PrivKey, source identity.Source, domains identity.Domains) (sec.SecureTransport, error) {
	id, err := identity.PeerID(key)
	return &transport{key: key, local: id, source: source, domains: domains, swarmID: func() string { return "" }}, err
}

// Shared reports whether the stream's connection may carry others.
func Shared(s *Stream) bool { return s.conn.parent == nil }

// NoneDedicated waits until the host's newest connection with the peer is the parent of no other.
func NoneDedicated(t testing.TB, h *Host, id peer.ID) {
	t.Helper()
	c := newest(h, id)
	for end := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
		h.table.mu.Lock()
		n := len(c.dedicated)
		h.table.mu.Unlock()
		if n == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d connections are left", n)
		}
	}
}

// HangOn dials a connection for one stream and proves a parent with the exporter value.
func HangOn(ctx context.Context, h *Host, to Addr, exporter []byte) error {
	raw, err := dialTCP(ctx, to.HostPort(), reachTimeout)
	if err != nil {
		return err
	}
	mc, err := manet.WrapNetConn(raw)
	if err != nil {
		return err
	}
	up, err := h.upgrader.Upgrade(context.WithValue(ctx, dedicatedKey{}, true), nil, mc, network.DirOutbound, to.PeerID, &network.NullScope{})
	if err != nil {
		return err
	}
	defer func() { _ = up.Close() }()
	a, proven, err := dedicatedParts(up)
	if err != nil {
		return err
	}
	key := &conn{provenKey: &provenKey{exporter: exporter}}
	name, mine := key.binding(bindName, nil), key.binding(bindDialler, proven.exporter)
	if _, err := a.secure.Write(append(name[:], mine[:]...)); err != nil {
		return err
	}
	_, err = io.ReadFull(a.secure, make([]byte, len(binding{})))
	return err
}

// NoReversing makes the host one that does not know that it may be asked for connections.
func NoReversing(h *Host) { h.protocols.RemoveHandler(reverseProtocol) }

// AskReversed asks the peer of the newest connection for one that belongs to it.
func AskReversed(ctx context.Context, h *Host, id peer.ID) error {
	c, err := h.reversals.reverse(ctx, newest(h, id))
	if err == nil {
		_ = c.Close()
	}
	return err
}

// NoneAsked fails if the host goes on waiting for a connection that it has asked for, or making one that it was asked for.
func NoneAsked(t testing.TB, h *Host) {
	t.Helper()
	open := func() int {
		h.reversals.mu.Lock()
		defer h.reversals.mu.Unlock()
		return len(h.reversals.asked) + h.reversals.doing.Taken()
	}
	for end := time.Now().Add(20 * time.Second); open() != 0; runtime.Gosched() { // who asked may hear of the end before the host has noted it
		if time.Now().After(end) {
			t.Fatalf("%d connections are still asked for", open())
		}
	}
}

// ReverseClock has the host count by this clock what it is asked for.
func ReverseClock(h *Host, now func() time.Time) {
	h.reversals.mu.Lock()
	defer h.reversals.mu.Unlock()
	h.reversals.now = now
}

// ReadWire reads what comes through a wire, two bytes at a time, and whether the end was noticed.
func ReadWire(c net.Conn) (got string, lost bool) {
	w := &wire{Conn: c, ahead: make([]byte, 16)}
	for b := make([]byte, 2); ; {
		n, err := w.Read(b)
		got += string(b[:n])
		if err != nil {
			return got, w.ended
		}
	}
}

// Silent dials a connection for one stream that shows no parent, until ctx ends.
func Silent(ctx context.Context, h *Host, to Addr) error {
	raw, err := dialTCP(ctx, to.HostPort(), reachTimeout)
	if err != nil {
		return err
	}
	mc, err := manet.WrapNetConn(raw)
	if err != nil {
		return err
	}
	up, err := h.upgrader.Upgrade(context.WithValue(ctx, dedicatedKey{}, true), nil, mc, network.DirOutbound, to.PeerID, &network.NullScope{})
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = up.Close() })
	return nil
}

// Unbound returns how many incoming connections of all peers have not shown their parents yet.
func Unbound(h *Host) int { return h.table.unbound.Taken() }

// KnowsQueues reports whether the stream can ask its socket for queues.
func KnowsQueues(s *Stream) bool {
	a, ok := s.inner.(*dedicatedStream)
	return ok && rawConn(a.conn.secure.wire.Conn) != nil
}

// Delayed is delayed, by as much as makes a queue.
func Delayed(now, shortest uint32) bool { return delayed(now, shortest, queueDelay) }

// NothingHeld waits until the host holds no memory for peers.
func NothingHeld(t testing.TB, h *Host) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; runtime.Gosched() {
		h.memory.mu.Lock()
		used, of := h.memory.used, len(h.memory.by)
		h.memory.mu.Unlock()
		if used == 0 && of == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d bytes are still charged to %d SPIFFE IDs", used, of)
		}
	}
}

// AwaitConnections waits until the host has so many connections with the peer.
func AwaitConnections(t testing.TB, h *Host, id peer.ID, n int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); Connections(h, id) != n; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d connections, want %d", Connections(h, id), n)
		}
	}
}
