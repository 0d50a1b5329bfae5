package p2p

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"
	libtransport "github.com/libp2p/go-libp2p/core/transport"
	manet "github.com/multiformats/go-multiaddr/net"
	mss "github.com/multiformats/go-multistream"

	"github.com/swarmd/swarmd/identity"
)

// linger is how long a connection without a common swarm lives after its stream was closed, for what was written to
// get out. Such connections serve one stream each.
const linger = 2 * time.Second

// conn is a connection whose peer is proven.
type conn struct {
	libtransport.CapableConn
	*provenKey
	target string // HOST:PORT that was dialled, "" for an incoming connection
	expiry *expiry
	leave  func() // takes it out of the table's crowd
	order  uint64 // in which the table took it in, from 1 on; 0: not yet

	// Of a connection with yamux: those that carry one stream each and live no longer than it. Guarded by the table's mu.
	dedicated map[*conn]struct{}
	// Of one that carries one stream: the parent, to which it is bound. Fixed.
	parent *conn
}

// common reports whether both sides belonged to the same swarm when the connection was made.
func (c *conn) common() bool { return c.localSwarm != "" && c.localSwarm == c.peer.SwarmID }

func (c *conn) localAddr() net.Addr {
	a, err := manet.ToNetAddr(c.LocalMultiaddr())
	if err != nil {
		return &net.TCPAddr{}
	}
	return a
}

func (c *conn) remoteAddr() net.Addr {
	a, err := manet.ToNetAddr(c.RemoteMultiaddr())
	if err != nil {
		return &net.TCPAddr{}
	}
	return a
}

// adopt takes a connection into the table and serves its streams until it dies.
func (h *Host) adopt(c libtransport.CapableConn, target string) (*conn, error) {
	proven, ok := c.RemotePublicKey().(*provenKey)
	if !ok {
		return nil, errors.New("connection without proof of its peer")
	}
	cn := &conn{CapableConn: c, provenKey: proven, target: target, expiry: &expiry{expires: proven.expires, shown: proven.shown}}
	if err := h.table.add(cn, func() { h.serveConn(cn) }); err != nil {
		return nil, err
	}
	h.cfg.Log.Debug("peer connected", "peer", cn.peer.ID.String(), "spiffe_id", cn.peer.Identity.String(), "remote", cn.RemoteMultiaddr().String())
	return cn, nil
}

func (h *Host) serveConn(c *conn) {
	ctx, cancel := context.WithCancel(h.ctx())
	h.table.goTracked(func() { closeExpired(ctx, c, h.cfg.Log) })
	h.table.goTracked(func() { h.renewer.run(ctx, c) })
	defer func() {
		cancel()
		_ = c.Close()
		h.table.remove(c)
	}()
	for {
		s, err := c.AcceptStream()
		if err != nil {
			h.cfg.Log.Debug("peer disconnected", "peer", c.peer.ID.String(), "spiffe_id", c.peer.Identity.String(), "error", err)
			return
		}
		if !h.table.goTracked(func() { h.serveStream(c, s) }) {
			_ = s.Reset()
			return
		}
	}
}

// serveStream agrees on the protocol, applies its policy, tells the peer the outcome, and runs the handler.
func (h *Host) serveStream(c *conn, s network.MuxedStream) {
	_ = s.SetDeadline(time.Now().Add(acceptTimeout))
	id, _, err := h.protocols.Negotiate(s)
	if err != nil {
		_ = s.Reset()
		h.cfg.Log.Debug("stream refused", "peer", c.peer.ID.String(), "spiffe_id", c.peer.Identity.String(), "error", err)
		return
	}
	if id == ReauthProtocol {
		h.renewer.serve(h.ctx(), c, s)
		return
	}
	if id == reverseProtocol {
		h.reversals.serve(c, s)
		return
	}
	h.mu.Lock()
	svc := h.services[id]
	h.mu.Unlock()
	err = h.cfg.Refuse(c.peer.ID)
	if err == nil {
		err = allow(svc.policy, c, id)
	}
	if err != nil {
		if omitted, ok := h.security.said.allow(h.ctx(), h.cfg.Log, slog.LevelWarn); ok {
			h.cfg.Log.Warn("stream refused", "peer", c.peer.ID.String(), "spiffe_id", c.peer.Identity.String(), "protocol", string(id), "error", err, "not_logged", omitted)
		}
		_ = writeVerdict(s, err)
		_ = s.Close()
		return
	}
	if err := writeVerdict(s, nil); err != nil {
		_ = s.Reset()
		return
	}
	_ = s.SetDeadline(time.Time{})
	svc.fn(h.ctx(), &Stream{inner: s, conn: c})
}

func allow(p Policy, c *conn, id protocol.ID) error {
	if !slices.Contains(p.Roles, c.peer.Identity.Role()) {
		return fmt.Errorf("%w: role %s may not use %s", identity.ErrNotAuthorized, c.peer.Identity.Role(), id)
	}
	if !c.common() && !p.AllowNoSwarm {
		return fmt.Errorf("%w: %s needs both sides to belong to the swarm (yours: %q, mine: %q)", identity.ErrNotAuthorized, id, c.peer.SwarmID, c.localSwarm)
	}
	return nil
}

// Dial opens a stream of the protocol, over an existing connection with the peer if there is one. It fails within
// ten seconds if the peer does not answer, five if it can't be reached. A *RefusedError in the error is the peer's own word; a
// *PeerMismatchError or *SwarmMismatchError says that somebody else answers.
func (h *Host) Dial(ctx context.Context, to Addr, protocolName string) (*Stream, error) {
	return h.DialFit(ctx, to, protocolName, func(Peer) error { return nil })
}

// DialFit is Dial to a node of which more is known than its key: over connections whose peer does not fit nothing is opened,
// so that whoever has a stolen key and an SVID of his own can't put himself in the node's place by connecting to us. If the
// one that answers at the address does not fit, the error of fits is in DialFit's. fits must not block.
func (h *Host) DialFit(ctx context.Context, to Addr, protocolName string, fits func(Peer) error) (*Stream, error) {
	ctx, cancel, err := mayDial(ctx, h, to)
	if err != nil {
		return nil, err
	}
	defer cancel()
	s, err := h.dial(ctx, to, protocol.ID(protocolName), fits)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", to, err)
	}
	return s, nil
}

func (h *Host) dial(ctx context.Context, to Addr, id protocol.ID, fits func(Peer) error) (*Stream, error) {
	tried := uint64(0)
	if c := h.reusable(to, fits); c != nil {
		tried = c.order
		reuse, cancel := context.WithTimeout(ctx, reuseTimeout)
		s, err := open(reuse, c, id)
		cancel()
		if err == nil || isAnswer(err) || ctx.Err() != nil {
			return s, err
		}
	}
	c, err := either(ctx, h, to, fits, tried)
	if err != nil {
		return nil, err
	}
	var s *Stream
	if err = fits(c.peer); err == nil {
		s, err = open(ctx, c, id)
	}
	if !c.common() {
		done := func() { time.AfterFunc(linger, func() { _ = c.Close() }) }
		if err != nil {
			done()
		} else {
			s.onClose = done
		}
	}
	return s, err
}

// isAnswer reports whether the error is the peer's answer: then another connection would give the same.
func isAnswer(err error) bool {
	var refused *RefusedError
	return errors.As(err, &refused) || errors.Is(err, mss.ErrNotSupported[protocol.ID]{})
}

// reusable returns the newest live connection with the peer that was made with our present swarm ID and identity, by either side. One
// that was dialled at another address is left alone: the peer may have moved.
func (h *Host) reusable(to Addr, fits func(Peer) error) *conn {
	usable := usableFor(h, to, fits)
	if usable == nil {
		return nil
	}
	return h.table.newest(to.PeerID, usable)
}

// usableFor returns which connections can be used for the address; nil: none.
func usableFor(h *Host, to Addr, fits func(Peer) error) func(*conn) bool {
	swarm := h.cfg.SwarmID()
	_, own, err := h.renewer.ownSVID()
	if err != nil {
		return nil // connecting says why
	}
	return func(c *conn) bool {
		return !c.IsClosed() && c.expiry.usable(own.id) && c.common() && c.localSwarm == swarm && (c.target == "" || c.target == to.HostPort()) && fits(c.peer) == nil
	}
}

// connect makes a connection. Callers that want the same one at the same time share it if they belong to the swarm.
func (h *Host) connect(ctx context.Context, to Addr) (*conn, error) {
	swarm := h.cfg.SwarmID()
	if swarm == "" {
		return h.connectOnce(ctx, to)
	}
	result := h.dials.DoChan(to.String()+" "+swarm, func() (any, error) {
		// Not the caller's context: it would take the connection away from those who share it.
		shared, cancel := context.WithTimeout(h.ctx(), dialTimeout)
		defer cancel()
		return h.connectOnce(shared, to)
	})
	select {
	case r := <-result:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*conn), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (h *Host) connectOnce(ctx context.Context, to Addr) (*conn, error) {
	raw, err := dialTCP(ctx, to.HostPort(), reachTimeout)
	h.reversals.failures.Note(to.HostPort(), err)
	if err != nil {
		return nil, err
	}
	mc, err := manet.WrapNetConn(raw)
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	c, err := h.upgrader.Upgrade(ctx, nil, mc, network.DirOutbound, to.PeerID, &network.NullScope{})
	if err != nil {
		return nil, unwrapUpgrade(err)
	}
	cn, err := h.adopt(c, to.HostPort())
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return cn, nil
}

// unwrapUpgrade drops the upgrader's own words, which say nothing to a user.
func unwrapUpgrade(err error) error {
	if inner := errors.Unwrap(err); inner != nil {
		return inner
	}
	return err
}

// open opens a stream and waits for the peer's consent: one round trip.
func open(ctx context.Context, c *conn, id protocol.ID) (*Stream, error) {
	s, err := c.OpenStream(ctx)
	if err != nil {
		return nil, fmt.Errorf("open stream: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = s.Reset() })
	err = mss.SelectProtoOrFail(id, s)
	if err == nil {
		err = readVerdict(s)
	}
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		return &Stream{inner: s, conn: c}, nil
	}
	_ = s.Reset()
	var refused *RefusedError
	switch {
	case errors.As(err, &refused):
		return nil, refused
	case errors.Is(err, mss.ErrNotSupported[protocol.ID]{}):
		return nil, fmt.Errorf("the peer does not serve %s (another role, or another release of swarmd): %w", id, err)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("open stream %s: %w", id, context.Cause(ctx))
	}
	return nil, fmt.Errorf("open stream %s: %w", id, err)
}
