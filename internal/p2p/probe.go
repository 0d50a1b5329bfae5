package p2p

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	mss "github.com/multiformats/go-multistream"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/reach"
)

// What keeps two nodes apart; errors of Dial, Contact and Probe wrap one of these, or a *RefusedError, a
// *SwarmMismatchError or a *PeerMismatchError.
var (
	// ErrNothingListens: no program has the port open, or the way to it is barred.
	ErrNothingListens = errors.New("nothing listens there")
	// ErrNoSwarmNode: what listens there does not speak the handshake of swarm nodes.
	ErrNoSwarmNode = errors.New("no swarm node answers there")
	// ErrOwnSVID: our SVID is not good enough, in our own eyes or the peer's, which can't tell more than a TLS alert.
	ErrOwnSVID = errors.New("our SVID is not accepted")
	// ErrPeerSVID: we refuse the peer's SVID; the error says why.
	ErrPeerSVID = errors.New("the SVID of the peer is not accepted here")
)

// ProbeConfig is what a Probe shows and trusts.
type ProbeConfig struct {
	// Key is the node key to show. Nil: one that is made and thrown away, as for a user who is no node.
	Key crypto.PrivKey
	// Source gives SVID and bundles.
	Source identity.Source
	// Domains are the accepted trust domains.
	Domains identity.Domains
}

// Probe runs the handshake with the node at HOST:PORT and hangs up: any role and any swarm is accepted. It returns who
// answered, or in words what stands between the two. It gives up after five seconds.
func Probe(ctx context.Context, cfg ProbeConfig, hostport string) (Peer, error) {
	if cfg.Key == nil {
		key, _, err := crypto.GenerateEd25519Key(rand.Reader)
		if err != nil {
			return Peer{}, fmt.Errorf("make a key for the probe: %w", err)
		}
		cfg.Key = key
	}
	id, err := identity.PeerID(cfg.Key)
	if err != nil {
		return Peer{}, err
	}
	t := &transport{
		key: cfg.Key, local: id, source: cfg.Source, domains: cfg.Domains, log: slog.New(slog.DiscardHandler),
		swarmID: func() string { return "" },
	}
	p, err := t.contact(ctx, hostport)
	if err != nil {
		return Peer{}, fmt.Errorf("probe %s: %w", hostport, err)
	}
	return p, nil
}

// Contact makes first contact with a node of which only the address (HOST:PORT) is known: it runs the handshake by
// hand, checks the role, and returns who answered: peer ID, identity and swarm ID. The connection is closed. The
// caller pins what it learned.
func (h *Host) Contact(ctx context.Context, hostport string, role identity.Role) (Peer, error) {
	p, err := h.security.contact(ctx, hostport)
	if err == nil {
		_, err = h.cfg.Domains.Check(p.Identity.SPIFFE(), role)
	}
	if err != nil {
		return Peer{}, fmt.Errorf("contact %s: %w", hostport, err)
	}
	return p, nil
}

// contact does what libp2p's upgrader does, without knowing whom to expect.
func (t *transport) contact(ctx context.Context, hostport string) (Peer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, reachTimeout, fmt.Errorf("no answer within %s: %w", reachTimeout, context.DeadlineExceeded))
	defer cancel()
	raw, err := dialTCP(ctx, hostport, reachTimeout)
	if err != nil {
		return Peer{}, err
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	err = mss.SelectProtoOrFail(SecurityID, raw)
	stop()
	if err != nil {
		_ = raw.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return Peer{}, fmt.Errorf("%w (is it the port of the API, or another program's?): %w", ErrNoSwarmNode, err)
	}
	c, err := t.secure(ctx, raw, "", clientSide)
	if err != nil {
		return Peer{}, err
	}
	_ = c.Close()
	return c.remote.peer, nil
}

// dialTCP connects, within the given time at most.
func dialTCP(ctx context.Context, hostport string, within time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("no answer within %s: %w", within, context.DeadlineExceeded))
	defer cancel()
	c, err := (&net.Dialer{ControlContext: reach.Control}).DialContext(ctx, "tcp", hostport)
	switch {
	case err == nil:
		return c, nil
	case errors.Is(ctx.Err(), context.Canceled): // the caller's end says nothing of the address
		return nil, err
	}
	dial := reach.Classify(hostport, err)
	if dial.Cause == reach.CauseRefused {
		dial.Err = fmt.Errorf("%w: %w", ErrNothingListens, err)
	}
	return nil, dial
}
