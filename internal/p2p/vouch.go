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
// A proof is made with the parent's TLS exporter value, which only its two ends know, over the new connection's. So
// whoever has a node key and an SVID, but not the parent, can't hang on to it and live as long as it is renewed.
const (
	vouchName     = "swarm p2p parent 1"
	vouchDialler  = "swarm p2p alone 1 dialler"
	vouchAcceptor = "swarm p2p alone 1 acceptor"
	// aloneReach bounds connecting in TCP, and aloneTimeout the whole of opening one, of the time that Dial has: what is left is for a
	// stream over the parent.
	aloneReach   = 2 * time.Second
	aloneTimeout = 7 * time.Second
	// adoptTimeout is how long an acceptor looks for the parent, within the dialler's aloneTimeout.
	adoptTimeout = 4 * time.Second
	// maxAlone bounds the connections that hang on one parent.
	maxAlone = 64
)

type vouch [sha256.Size]byte

func (c *conn) vouch(label string, exporter []byte) (v vouch) {
	h := hmac.New(sha256.New, c.exporter)
	h.Write([]byte(label))
	h.Write(exporter)
	h.Sum(v[:0])
	return v
}

func (v vouch) equal(other vouch) bool { return hmac.Equal(v[:], other[:]) }

// DialAlone is DialFit for bulk: the stream has a connection for itself, beside the one that DialFit would have used.
// Where the peer can't be reached so, as when only it can dial us, the stream goes over that one.
func (h *Host) DialAlone(ctx context.Context, to Addr, protocolName string, fits func(Peer) error) (*Stream, error) {
	if err := to.validate(); err != nil {
		return nil, fmt.Errorf("dial peer: %w", err)
	}
	if err := h.cfg.Refuse(to.PeerID); err != nil {
		return nil, fmt.Errorf("dial %s: %w", to, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, dialTimeout, fmt.Errorf("no answer within %s: %w", dialTimeout, context.DeadlineExceeded))
	defer cancel()
	parent := h.reusable(to, fits)
	if parent == nil {
		c, err := h.connect(ctx, to)
		if err == nil && c.common() && fits(c.peer) == nil {
			parent = c
		}
	}
	if parent != nil {
		s, err := h.besides(ctx, parent, to, protocol.ID(protocolName))
		if err == nil {
			return s, nil
		}
		h.cfg.Log.Debug("no connection for one stream, it shares another", "peer", to.PeerID.String(), "protocol", protocolName, "error", err)
	}
	return h.DialFit(ctx, to, protocolName, fits)
}

// besides opens a stream on a connection of its own.
func (h *Host) besides(ctx context.Context, parent *conn, to Addr, id protocol.ID) (*Stream, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, aloneTimeout, fmt.Errorf("no answer within %s: %w", aloneTimeout, context.DeadlineExceeded))
	defer cancel()
	raw, err := dialTCP(ctx, to.HostPort(), aloneReach)
	if err != nil {
		return nil, err
	}
	mc, err := manet.WrapNetConn(raw)
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	up, err := h.upgrader.Upgrade(context.WithValue(ctx, aloneKey{}, true), nil, mc, network.DirOutbound, to.PeerID, &network.NullScope{})
	if err != nil {
		return nil, unwrapUpgrade(err)
	}
	stop := context.AfterFunc(ctx, func() { _ = up.Close() })
	c, err := h.showVouch(up, parent)
	if err != nil || !stop() {
		_ = up.Close()
		return nil, errors.Join(err, context.Cause(ctx))
	}
	return open(ctx, c, id)
}

// showVouch hangs an outgoing connection on its parent.
func (h *Host) showVouch(up libtransport.CapableConn, parent *conn) (*conn, error) {
	a, proven, err := aloneParts(up)
	if err != nil {
		return nil, err
	}
	if proven.peer != parent.peer {
		return nil, fmt.Errorf("another identity answers: %s", proven.peer)
	}
	name, mine := parent.vouch(vouchName, nil), parent.vouch(vouchDialler, proven.exporter)
	if _, err := a.secure.Write(append(name[:], mine[:]...)); err != nil {
		return nil, err
	}
	var theirs vouch
	if _, err := io.ReadFull(a.secure, theirs[:]); err != nil {
		return nil, fmt.Errorf("the peer does not know the connection that this one belongs to: %w", err)
	}
	if !theirs.equal(parent.vouch(vouchAcceptor, proven.exporter)) {
		return nil, errors.New("the peer does not know the connection that this one belongs to")
	}
	return h.hang(up, a, proven, parent)
}

func aloneParts(up libtransport.CapableConn) (*aloneConn, *provenKey, error) {
	a, ok := aloneOf(up)
	proven, proves := up.RemotePublicKey().(*provenKey)
	if !ok || !proves {
		return nil, nil, errors.New("connection without proof of its peer")
	}
	return a, proven, nil
}

// hang makes the connection a part of its parent.
func (h *Host) hang(up libtransport.CapableConn, a *aloneConn, proven *provenKey, parent *conn) (*conn, error) {
	c := &conn{CapableConn: up, provenKey: proven, target: parent.target, life: parent.life, parent: parent}
	h.mu.Lock()
	// Asked again under mu, as adopt does; a parent that was closed since takes none, for its end would not reach it.
	err := h.cfg.Refuse(parent.peer.ID)
	switch {
	case h.closed:
		err = errClosed
	case err == nil && parent.IsClosed():
		err = errors.New("the connection that it belongs to is closed")
	case err == nil && len(parent.alone) >= maxAlone:
		err = fmt.Errorf("%d connections belong to one already", maxAlone)
	}
	if err != nil {
		h.mu.Unlock()
		return nil, err
	}
	if parent.alone == nil {
		parent.alone = map[*conn]struct{}{}
	}
	parent.alone[c] = struct{}{}
	h.mu.Unlock()
	share := h.memory.open(a.secure)
	a.onClose(func() {
		share.leave()
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(parent.alone, c)
	})
	if err := share.take(aloneCost); err != nil {
		return nil, err
	}
	if share.grow(readAhead) { // not earlier: others may be many
		a.secure.wire.most = readAhead
	}
	return c, nil
}

// closeAlone ends what belongs to a connection that has ended.
func (h *Host) closeAlone(parent *conn) {
	h.mu.Lock()
	list := make([]*conn, 0, len(parent.alone))
	for c := range parent.alone {
		list = append(list, c)
	}
	h.mu.Unlock()
	for _, c := range list {
		_ = c.Close()
	}
}

// serveAlone takes an incoming connection for one stream.
func (h *Host) serveAlone(up libtransport.CapableConn) {
	stop := context.AfterFunc(h.ctx(), func() { _ = up.Close() })
	c, err := h.takeVouchOnce(up)
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
	s, err := c.OpenStream(h.ctx())
	if err != nil {
		_ = c.Close()
		return
	}
	h.serveStream(c, s)
}

// takeVouchOnce bounds how many connections of one peer are about to show their parents, as maxPerPeer does the others: a
// thief of a node key with an SVID of his own takes no place of the node's.
func (h *Host) takeVouchOnce(up libtransport.CapableConn) (*conn, error) {
	a, proven, err := aloneParts(up)
	if err != nil {
		return nil, err
	}
	who := Peer{ID: proven.peer.ID, Identity: proven.peer.Identity} // not the swarm, which is its own word
	h.mu.Lock()
	busy := h.vouching[who] >= maxPerPeer
	if !busy {
		h.vouching[who]++
	}
	h.mu.Unlock()
	if busy {
		return nil, errors.New("too many at once")
	}
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.vouching[who]--; h.vouching[who] == 0 {
			delete(h.vouching, who)
		}
	}()
	return h.takeVouch(up, a, proven)
}

// takeVouch finds the parent of an incoming connection and hangs it there.
func (h *Host) takeVouch(up libtransport.CapableConn, a *aloneConn, proven *provenKey) (*conn, error) {
	_ = a.secure.SetDeadline(time.Now().Add(acceptTimeout))
	name, theirs, err := readVouch(a.secure)
	if err != nil {
		return nil, err
	}
	parent := h.awaitNamed(proven.peer.ID, name)
	switch {
	case parent == nil:
		return nil, errors.New("it belongs to no open connection")
	case parent.peer != proven.peer:
		return nil, fmt.Errorf("%s shows the connection of %s", proven.peer, parent.peer)
	case !theirs.equal(parent.vouch(vouchDialler, proven.exporter)):
		return nil, errors.New("its proof of the connection that it belongs to is wrong")
	}
	c, err := h.hang(up, a, proven, parent)
	if err != nil {
		return nil, err
	}
	mine := parent.vouch(vouchAcceptor, proven.exporter)
	if _, err := a.secure.Write(mine[:]); err != nil {
		return nil, err
	}
	return c, nil
}

// readVouch reads the name of a parent, and the proof of knowing it.
func readVouch(r io.Reader) (name, theirs vouch, err error) {
	if _, err = io.ReadFull(r, name[:]); err == nil {
		_, err = io.ReadFull(r, theirs[:])
	}
	return name, theirs, err
}

// awaitNamed returns the peer's open connection of that name. The peer may have finished the handshake first, and be here with
// a second connection before the first is adopted; so it waits a while, then returns nil.
func (h *Host) awaitNamed(id peer.ID, name vouch) *conn {
	timeout := time.NewTimer(adoptTimeout)
	defer timeout.Stop()
	for {
		c, adopted := h.named(id, name)
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

// named returns the peer's open connection of that name, and else what is closed when there is another connection.
func (h *Host) named(id peer.ID, name vouch) (*conn, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.conns[id] {
		if name.equal(c.vouch(vouchName, nil)) {
			return c, nil
		}
	}
	return nil, h.adopted
}
