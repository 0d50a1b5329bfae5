package p2p

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	libtransport "github.com/libp2p/go-libp2p/core/transport"
	manet "github.com/multiformats/go-multiaddr/net"
)

// A connection that carries one stream shows that it belongs to an open one, its parent, before the stream begins:
//
//	dialler                         acceptor
//	name of the parent, proof  ---->
//	       <----------------------- proof
//
// The name is the parent's, or that of an answer to what the acceptor has asked for (see reverse.go).
//
// A proof is made with the parent's TLS exporter value, which only its two ends know, over the new connection's. So
// whoever has a node key and an SVID, but not the parent, can't hang on to it and live as long as it is renewed.
const (
	bindName     = "swarm p2p parent 1"
	bindDialler  = "swarm p2p alone 1 dialler"
	bindAcceptor = "swarm p2p alone 1 acceptor"
	// dedicatedReach bounds connecting in TCP, and dedicatedTimeout the whole of opening one, of the time that Dial has: what is left is for a
	// stream over the parent.
	dedicatedReach   = 2 * time.Second
	dedicatedTimeout = 7 * time.Second
	// adoptTimeout is how long an acceptor looks for the parent, within the dialler's dedicatedTimeout.
	adoptTimeout = 4 * time.Second
	// maxDedicated bounds the connections that hang on one parent.
	maxDedicated = 64
)

type binding [sha256.Size]byte

func (c *conn) binding(label string, exporter []byte) (v binding) {
	h := hmac.New(sha256.New, c.exporter)
	h.Write([]byte(label))
	h.Write(exporter)
	h.Sum(v[:0])
	return v
}

func (v binding) equal(other binding) bool { return hmac.Equal(v[:], other[:]) }

// DialDedicated is DialFit for bulk: the stream has a connection for itself, beside the one that DialFit would have used.
// Where the peer can't be reached so, as when only it can dial us, the stream goes over that one.
func (h *Host) DialDedicated(ctx context.Context, to Addr, protocolName string, fits func(Peer) error) (*Stream, error) {
	ctx, cancel, err := mayDial(ctx, h, to)
	if err != nil {
		return nil, err
	}
	defer cancel()
	parent := h.reusable(to, fits)
	if parent == nil {
		c, err := either(ctx, h, to, fits, 0)
		if err != nil {
			return nil, fmt.Errorf("dial %s: %w", to, err)
		}
		switch {
		case !c.common():
			_ = c.Close()
		case fits(c.peer) == nil:
			parent = c
		}
	}
	if parent != nil {
		s, err := h.openDedicated(ctx, parent, to, protocol.ID(protocolName))
		if err == nil {
			return s, nil
		}
		h.cfg.Log.Debug("no connection for one stream, it shares another", "peer", to.PeerID.String(), "protocol", protocolName, "error", err)
	}
	return h.DialFit(ctx, to, protocolName, fits)
}

// openDedicated opens a stream on a connection of its own.
func (h *Host) openDedicated(ctx context.Context, parent *conn, to Addr, id protocol.ID) (*Stream, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, dedicatedTimeout, fmt.Errorf("no answer within %s: %w", dedicatedTimeout, context.DeadlineExceeded))
	defer cancel()
	c, err := h.reversals.dedicate(ctx, parent, to)
	if err != nil {
		return nil, err
	}
	s, err := open(ctx, c, id)
	if err != nil {
		_ = c.Close()
	}
	return s, err
}

// dialDedicated makes a connection that belongs to the parent.
func (h *Host) dialDedicated(ctx context.Context, parent *conn, hostport string, name binding) (*conn, error) {
	raw, err := dialTCP(ctx, hostport, dedicatedReach)
	if err != nil {
		return nil, err
	}
	h.reversals.failures.Note(hostport, nil)
	mc, err := manet.WrapNetConn(raw)
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	up, err := h.upgrader.Upgrade(context.WithValue(ctx, dedicatedKey{}, true), nil, mc, network.DirOutbound, parent.peer.ID, &network.NullScope{})
	if err != nil {
		return nil, unwrapUpgrade(err)
	}
	stop := context.AfterFunc(ctx, func() { _ = up.Close() })
	c, err := h.bindOutgoing(up, parent, name)
	if err != nil || !stop() {
		_ = up.Close()
		return nil, errors.Join(err, context.Cause(ctx))
	}
	return c, nil
}

// bindOutgoing binds an outgoing connection to its parent, which the other end knows by the name.
func (h *Host) bindOutgoing(up libtransport.CapableConn, parent *conn, name binding) (*conn, error) {
	a, proven, err := dedicatedParts(up)
	if err != nil {
		return nil, err
	}
	if proven.peer != parent.peer {
		return nil, fmt.Errorf("another identity answers: %s", proven.peer)
	}
	mine := parent.binding(bindDialler, proven.exporter)
	if _, err := a.secure.Write(append(name[:], mine[:]...)); err != nil {
		return nil, err
	}
	var theirs binding
	if _, err := io.ReadFull(a.secure, theirs[:]); err != nil {
		return nil, fmt.Errorf("the peer does not know the connection that this one belongs to: %w", err)
	}
	if !theirs.equal(parent.binding(bindAcceptor, proven.exporter)) {
		return nil, errors.New("the peer does not know the connection that this one belongs to")
	}
	return h.bind(up, a, proven, parent)
}

func dedicatedParts(up libtransport.CapableConn) (*dedicatedConn, *provenKey, error) {
	a, ok := dedicatedOf(up)
	proven, proves := up.RemotePublicKey().(*provenKey)
	if !ok || !proves {
		return nil, nil, errors.New("connection without proof of its peer")
	}
	return a, proven, nil
}

// bind makes the connection a part of its parent.
func (h *Host) bind(up libtransport.CapableConn, a *dedicatedConn, proven *provenKey, parent *conn) (*conn, error) {
	c := &conn{CapableConn: up, provenKey: proven, target: parent.target, expiry: parent.expiry, parent: parent}
	if err := h.table.bind(c); err != nil {
		return nil, err
	}
	share := h.memory.open(a.secure)
	a.onClose(func() {
		share.leave()
		h.table.unbind(c)
	})
	if err := share.take(dedicatedCost); err != nil {
		return nil, err
	}
	if share.grow(readAhead) { // not earlier: others may be many
		a.secure.wire.most = readAhead
	}
	return c, nil
}

// serveDedicated takes an incoming connection for one stream.
func (h *Host) serveDedicated(up libtransport.CapableConn) {
	stop := context.AfterFunc(h.ctx(), func() { _ = up.Close() })
	c, asked, err := h.bindIncomingOnce(up)
	if !stop() && err == nil {
		err = errClosed
	}
	if err != nil {
		_ = up.Close()
		if omitted, ok := h.security.said.allow(h.ctx(), h.cfg.Log, slog.LevelDebug); ok {
			h.cfg.Log.Debug("connection for one stream refused", "remote", up.RemoteMultiaddr().String(), "error", err, "not_logged", omitted)
		}
		return
	}
	if asked != nil {
		asked.take(c)
		return
	}
	serveOnly(h, c)
}

// serveOnly serves the stream of a connection that carries one.
func serveOnly(h *Host, c *conn) {
	s, err := c.OpenStream(h.ctx())
	if err != nil {
		_ = c.Close()
		return
	}
	h.serveStream(c, s)
}

// bindIncomingOnce bounds how many connections of one peer are about to show their parents.
func (h *Host) bindIncomingOnce(up libtransport.CapableConn) (*conn, *reversal, error) {
	a, proven, err := dedicatedParts(up)
	if err != nil {
		return nil, nil, err
	}
	done, ok := h.table.expect(proven.peer)
	if !ok {
		return nil, nil, errors.New("too many at once")
	}
	defer done()
	return h.bindIncoming(up, a, proven)
}

// bindIncoming finds the parent of an incoming connection and binds it to that. If this host has asked for the connection it returns by
// what: then the stream is this host's to open.
func (h *Host) bindIncoming(up libtransport.CapableConn, a *dedicatedConn, proven *provenKey) (*conn, *reversal, error) {
	_ = a.secure.SetDeadline(time.Now().Add(acceptTimeout))
	name, theirs, err := readBinding(a.secure)
	if err != nil {
		return nil, nil, err
	}
	asked := h.reversals.answered(name)
	var parent *conn
	if asked != nil {
		parent = asked.parent
	} else {
		parent = h.awaitNamed(proven.peer.ID, name)
	}
	switch {
	case parent == nil:
		return nil, nil, errors.New("it belongs to no open connection")
	case parent.peer != proven.peer:
		return nil, nil, fmt.Errorf("%s shows the connection of %s", proven.peer, parent.peer)
	case !theirs.equal(parent.binding(bindDialler, proven.exporter)):
		return nil, nil, errors.New("its proof of the connection that it belongs to is wrong")
	}
	c, err := h.bind(up, a, proven, parent)
	if err != nil {
		return nil, nil, err
	}
	mine := parent.binding(bindAcceptor, proven.exporter)
	_, err = a.secure.Write(mine[:])
	if err == nil && asked != nil {
		err = a.secure.SetDeadline(time.Time{}) // serveStream does so for what it serves
	}
	return c, asked, err
}

// readBinding reads the name of a parent, and the proof of knowing it.
func readBinding(r io.Reader) (name, theirs binding, err error) {
	if _, err = io.ReadFull(r, name[:]); err == nil {
		_, err = io.ReadFull(r, theirs[:])
	}
	return name, theirs, err
}

// awaitNamed returns the peer's open connection of that name. The peer may have finished the handshake first, and be here with
// a second connection before the first is adopted; so it waits a while, then returns nil.
func (h *Host) awaitNamed(id peer.ID, name binding) *conn {
	timeout := time.NewTimer(adoptTimeout)
	defer timeout.Stop()
	for {
		c, adopted := h.table.newestOr(id, func(c *conn) bool { return name.equal(c.binding(bindName, nil)) })
		if c != nil {
			return c
		}
		select {
		case <-adopted:
		case <-timeout.C:
			return nil
		case <-h.ctx().Done():
			return nil
		}
	}
}
