package p2p

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/core/sec"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/epoch"
)

// SecurityID is the libp2p protocol ID of the security transport, the only one that a host speaks.
const SecurityID protocol.ID = "/swarm/spiffe-tls/1"

// refusalDrain bounds how long a refusing side waits for the other to read the reason: closing at once could reset
// the connection before it arrives.
const refusalDrain = time.Second

// RefusedError is a peer's refusal in its own words: of the connection or of one stream.
type RefusedError struct {
	// Reason is one printable line of at most 512 bytes.
	Reason string
}

func (e *RefusedError) Error() string { return "refused by the peer: " + e.Reason }

// Refused tells packages that do not know this one that the peer has answered.
func (e *RefusedError) Refused() bool { return true }

// Peer is who is at the other end, proven by the handshake of the connection.
type Peer struct {
	// ID is the libp2p peer ID of the node key.
	ID peer.ID
	// Identity is the SPIFFE identity of the SVID.
	Identity identity.ID
	// SwarmID is the peer's swarm as epoch.Pin writes it, "" if it has none yet.
	SwarmID string
}

// String names the peer for logs and errors.
func (p Peer) String() string { return fmt.Sprintf("%s (%s)", p.Identity, p.ID) }

// provenKey is a peer's public key together with all else that the handshake proved. The upgrader hides our
// connection type but hands this value through as the connection's RemotePublicKey.
type provenKey struct {
	crypto.PubKey
	peer       Peer
	localSwarm string    // our swarm ID as the handshake stated it
	expires    time.Time // when the SVID that the peer showed ends
	shown      shownSVID // what we showed
	us         side
	exporter   []byte   // the connection's TLS exporter value, for proofs of later SVIDs
	socket     net.Conn // beneath TLS and multiplexing, to cut it
}

type secureConn struct {
	*tls.Conn
	wire   *wire
	muxer  protocol.ID // yamux or dedicatedID, as agreed with TLS
	local  peer.ID
	remote *provenKey
}

var _ sec.SecureConn = (*secureConn)(nil)

func (c *secureConn) LocalPeer() peer.ID             { return c.local }
func (c *secureConn) RemotePeer() peer.ID            { return c.remote.peer.ID }
func (c *secureConn) RemotePublicKey() crypto.PubKey { return c.remote }

// ConnState names the muxer, agreed with TLS: that saves the round trip of choosing it later.
func (c *secureConn) ConnState() network.ConnectionState {
	return network.ConnectionState{Security: SecurityID, StreamMultiplexer: c.muxer, UsedEarlyMuxerNegotiation: true, Transport: "tcp"}
}

// Write hands the records of p to the kernel in as few calls as possible.
func (c *secureConn) Write(p []byte) (int, error) {
	if len(p) <= maxRecord {
		return c.Conn.Write(p)
	}
	return c.wire.burst(func() (int, error) { return c.Conn.Write(p) })
}

// WriteFrame writes a short header and a payload as one.
func (c *secureConn) WriteFrame(header, payload []byte) (int, error) {
	return c.wire.burst(func() (int, error) {
		n, err := c.Conn.Write(header)
		if err != nil {
			return n, err
		}
		m, err := c.Conn.Write(payload)
		return n + m, err
	})
}

// Close closes the socket at once. TLS's own Close would wait for a dead peer; truncation needs no notice here,
// since yamux frames carry their length and streams their end.
func (c *secureConn) Close() error { return c.NetConn().Close() }

// transport is the security transport: TLS 1.3 with SVIDs, then the hello exchange.
type transport struct {
	key     crypto.PrivKey
	local   peer.ID
	source  identity.Source
	domains identity.Domains
	swarmID func() string
	refuse  func(peer.ID) error                 // nil: nobody
	missed  func(identity.ID, string, net.Addr) // nil: nobody is told
	log     *slog.Logger
	said    throttle // what is logged of refusals
}

var _ sec.SecureTransport = (*transport)(nil)

func (t *transport) ID() protocol.ID { return SecurityID }

// SecureInbound runs the server side and logs whom it refuses.
func (t *transport) SecureInbound(ctx context.Context, insecure net.Conn, p peer.ID) (sec.SecureConn, error) {
	c, err := t.secure(ctx, insecure, p, serverSide)
	if err != nil {
		// A port scan or a peer that goes away is no news; a peer that spoke TLS and was turned away is.
		level := slog.LevelWarn
		if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) || errors.Is(err, net.ErrClosed) {
			level = slog.LevelDebug
		}
		if omitted, ok := t.said.allow(ctx, t.log, level); ok {
			t.log.Log(ctx, level, "connection refused", "remote", insecure.RemoteAddr().String(), "error", err, "not_logged", omitted)
		}
		return nil, err
	}
	if p, ok := insecure.(unproven); ok {
		p.Proven()
	}
	return c, nil
}

// SecureOutbound runs the client side. An empty p takes any peer.
func (t *transport) SecureOutbound(ctx context.Context, insecure net.Conn, p peer.ID) (sec.SecureConn, error) {
	c, err := t.secure(ctx, insecure, p, clientSide)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// secure closes insecure if it fails.
func (t *transport) secure(ctx context.Context, insecure net.Conn, want peer.ID, us side) (*secureConn, error) {
	stop := context.AfterFunc(ctx, func() { _ = insecure.Close() })
	defer stop()
	if deadline, ok := ctx.Deadline(); ok {
		_ = insecure.SetDeadline(deadline)
	}
	c, err := t.handshake(ctx, insecure, want, us)
	if err != nil {
		_ = insecure.Close()
		if ctx.Err() != nil {
			return nil, fmt.Errorf("handshake: %w", context.Cause(ctx))
		}
		return nil, fmt.Errorf("handshake: %w", err)
	}
	if !stop() {
		_ = insecure.Close()
		return nil, fmt.Errorf("handshake: %w", context.Cause(ctx))
	}
	if err := insecure.SetDeadline(time.Time{}); err != nil {
		_ = insecure.Close()
		return nil, fmt.Errorf("handshake: %w", err)
	}
	return c, nil
}

func (t *transport) handshake(ctx context.Context, insecure net.Conn, want peer.ID, us side) (*secureConn, error) {
	// TLS checks the chain and the possession of its key; trust domain and role are checked after it, where the
	// refusal can be given in words instead of as a TLS alert.
	cfg := identity.MutualTLS(t.source, nil)
	cfg.NextProtos = offers(ctx, us)
	seen := observe(cfg)
	w := &wire{Conn: insecure}
	conn := tls.Server(w, cfg)
	if us == clientSide {
		conn = tls.Client(w, cfg)
	}
	if err := conn.HandshakeContext(ctx); err != nil {
		if seen.chain != nil { // an alert went out: leave the peer the time to read it
			_ = insecure.SetDeadline(time.Now().Add(refusalDrain))
			_, _ = io.Copy(io.Discard, io.LimitReader(insecure, 4096))
		}
		return nil, seen.explain(err)
	}
	state := conn.ConnectionState()
	if !slices.Contains(cfg.NextProtos, state.NegotiatedProtocol) {
		return nil, fmt.Errorf("%w: it does not offer %s", ErrNoSwarmNode, yamux.ID)
	}
	exporter, err := exporterOf(conn)
	if err != nil {
		return nil, err
	}
	shown, err := t.shown(seen)
	if err != nil {
		return nil, err
	}
	svid, err := identity.CertID(t.source, state.PeerCertificates[0])
	if err != nil {
		return nil, err
	}
	id, unfit := t.domains.Check(svid)
	ours := t.swarmID()
	mine, err := newHello(t.key, exporter, us, ours)
	if err != nil {
		return nil, err
	}
	theirSwarm := "" // "": it has none, or has not proven its key
	check := func(h hello) (*provenKey, error) {
		if unfit != nil {
			return nil, unfit
		}
		p, err := t.check(h, exporter, want, us, ours)
		if _, other := errors.AsType[*SwarmMismatchError](err); err == nil || other {
			theirSwarm = h.swarmID
		}
		return p, err
	}
	var proven *provenKey
	if us == clientSide {
		proven, err = exchangeAsClient(conn, mine, check)
	} else {
		var theirs error
		proven, theirs, err = exchangeAsServer(conn, mine, check)
		if t.missed != nil && theirSwarm != "" && expectedAnother(theirs) {
			t.missed(id, theirSwarm, insecure.RemoteAddr())
		}
	}
	switch {
	case unfit != nil:
		return nil, fmt.Errorf("%w: %w", ErrPeerSVID, unfit)
	case err != nil:
		return nil, seen.explain(err)
	}
	proven.peer.Identity = id
	proven.expires, proven.shown = state.PeerCertificates[0].NotAfter, shown
	proven.us, proven.exporter, proven.socket = us, exporter, insecure
	return &secureConn{Conn: conn, wire: w, muxer: protocol.ID(state.NegotiatedProtocol), local: t.local, remote: proven}, nil
}

// offers are what the connection may carry: a dialler knows what it wants, a listener takes either.
func offers(ctx context.Context, us side) []string {
	switch {
	case us == serverSide:
		return []string{yamux.ID, string(dedicatedID)}
	case ctx.Value(dedicatedKey{}) != nil:
		return []string{string(dedicatedID)}
	}
	return []string{yamux.ID}
}

// observed is what TLS does not tell of a handshake.
type observed struct {
	shown *tls.Certificate // ours
	own   error            // why there is none
	chain error            // why the peer's chain was refused
}

// observe fills its result during the one handshake that cfg is for.
func observe(cfg *tls.Config) *observed {
	o := &observed{}
	server, client, verify := cfg.GetCertificate, cfg.GetClientCertificate, cfg.VerifyPeerCertificate
	cfg.GetCertificate = func(i *tls.ClientHelloInfo) (*tls.Certificate, error) {
		o.shown, o.own = server(i)
		return o.shown, o.own
	}
	cfg.GetClientCertificate = func(i *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		o.shown, o.own = client(i)
		return o.shown, o.own
	}
	cfg.VerifyPeerCertificate = func(raw [][]byte, chains [][]*x509.Certificate) error {
		o.chain = verify(raw, chains)
		return o.chain
	}
	return o
}

// explain says which side's SVID an error of TLS is about.
func (o *observed) explain(err error) error {
	text := err.Error()
	switch {
	case o.own != nil:
		return fmt.Errorf("%w: %w", ErrOwnSVID, err)
	case o.chain != nil:
		return fmt.Errorf("%w: %w", ErrPeerSVID, err)
	case strings.Contains(text, "remote error: tls: ") && strings.Contains(text, "certificate"):
		return fmt.Errorf("%w by the peer (not issued by a trust domain that it knows, or expired; compare trust domains and clocks): %w", ErrOwnSVID, err)
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return fmt.Errorf("%w: %w", ErrNoSwarmNode, err)
	}
	return err
}

// shown reads the SVID that we showed.
func (t *transport) shown(seen *observed) (shownSVID, error) {
	if seen.shown == nil || len(seen.shown.Certificate) == 0 {
		return shownSVID{}, fmt.Errorf("%w: it asks for no SVID", ErrNoSwarmNode)
	}
	leaf, err := x509.ParseCertificate(seen.shown.Certificate[0])
	if err != nil {
		return shownSVID{}, fmt.Errorf("read own SVID: %w", err)
	}
	id, err := identity.CertID(t.source, leaf)
	if err != nil {
		return shownSVID{}, fmt.Errorf("read own SVID: %w", err)
	}
	return shownSVID{der: leaf.Raw, id: id, expires: leaf.NotAfter}, nil
}

// check decides on a peer by its hello. Its error is told to the peer.
func (t *transport) check(h hello, exporter []byte, want peer.ID, us side, ours string) (*provenKey, error) {
	key, pid, err := h.verify(exporter, us.other())
	if err != nil {
		return nil, err
	}
	if want != "" && pid != want {
		return nil, &PeerMismatchError{Want: want, Got: pid}
	}
	if pid == t.local {
		return nil, errors.New("this is the same node: its own address, or a copied state directory")
	}
	if ours != "" && h.swarmID != "" && ours != h.swarmID {
		return nil, &SwarmMismatchError{Mine: ours, Theirs: h.swarmID}
	}
	if t.refuse != nil {
		if err := t.refuse(pid); err != nil {
			return nil, err
		}
	}
	return &provenKey{PubKey: key, localSwarm: ours, peer: Peer{ID: pid, SwarmID: h.swarmID}}, nil
}

// PeerMismatchError reports that another node answered at the address than the one that was dialled.
type PeerMismatchError struct{ Want, Got peer.ID }

// anotherAnswers is how a PeerMismatchError begins, by which the other side knows it.
const anotherAnswers = "another node answers at this address: "

func (e *PeerMismatchError) Error() string {
	return fmt.Sprintf(anotherAnswers+"expected peer %s, found %s", e.Want, e.Got)
}

// expectedAnother reports whether a peer has refused us because it looks for another node at our address.
func expectedAnother(verdict error) bool {
	refused, ok := errors.AsType[*RefusedError](verdict)
	return ok && strings.HasPrefix(refused.Reason, anotherAnswers)
}

// SwarmMismatchError reports a peer of another swarm.
type SwarmMismatchError struct{ Mine, Theirs string }

func (e *SwarmMismatchError) Error() string {
	if mine, err := epoch.Parse(e.Mine); err == nil && mine.Compare(e.Theirs) != epoch.Other {
		theirs, _ := epoch.Parse(e.Theirs) // else they would be different swarms
		return fmt.Sprintf("different epochs of swarm %s: one side follows epoch %d, the other epoch %d, as the swarm was recovered", mine.SwarmID, mine.Number(), theirs.Number())
	}
	return fmt.Sprintf("different swarms: one side belongs to swarm %s, the other to swarm %s", e.Mine, e.Theirs)
}

func exchangeAsClient(conn net.Conn, mine hello, check func(hello) (*provenKey, error)) (*provenKey, error) {
	if _, err := conn.Write(mine.marshal()); err != nil {
		return nil, err
	}
	theirs, err := readHello(conn)
	if err != nil {
		return nil, err
	}
	verdict := readVerdict(conn)
	var refused *RefusedError
	if verdict != nil && !errors.As(verdict, &refused) {
		return nil, verdict
	}
	proven, err := check(theirs)
	if err != nil {
		_ = refuse(conn, nil, err)
		return nil, err
	}
	if refused != nil {
		return nil, refused
	}
	return proven, writeVerdict(conn, nil)
}

// exchangeAsServer returns the peer's verdict too, which it gives also if it is refused.
func exchangeAsServer(conn net.Conn, mine hello, check func(hello) (*provenKey, error)) (proven *provenKey, verdict, err error) {
	theirs, err := readHello(conn)
	if err != nil {
		return nil, nil, err
	}
	if proven, err = check(theirs); err != nil {
		return nil, refuse(conn, mine.marshal(), err), err
	}
	if _, err := conn.Write(append(mine.marshal(), marshalVerdict(nil)...)); err != nil {
		return nil, nil, err
	}
	verdict = readVerdict(conn)
	return proven, verdict, verdict
}

// refuse sends prefix and the reason and waits a moment for the peer to hang up, so that it can read it. It returns what the
// peer says to it, its verdict if it gives one.
func refuse(conn net.Conn, prefix []byte, reason error) error {
	_ = conn.SetDeadline(time.Now().Add(refusalDrain))
	if _, err := conn.Write(append(prefix, marshalVerdict(reason)...)); err != nil {
		return err
	}
	if c, ok := conn.(*tls.Conn); ok {
		_ = c.CloseWrite()
	}
	verdict := readVerdict(conn)
	_, _ = io.Copy(io.Discard, io.LimitReader(conn, 4096))
	return verdict
}
