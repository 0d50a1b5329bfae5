package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"connectrpc.com/connect"
	p2pcrypto "github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/logs"
	"github.com/swarmd/swarmd/internal/logs/direct"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/reach"
)

// directWithin is how long a host has to begin with a log when it is dialled; then SNs are asked for it.
const directWithin = 2 * time.Second

// Direct dials hosts that hand out logs, and forward ports, by themselves. It opens its end of the peer-to-peer network when it first does. It is safe for
// concurrent use; Close closes it.
type Direct struct {
	By Operator

	mu      sync.Mutex
	network p2p.Network
}

// open returns our end of the network, with a node key of this operator's call alone: it is no node.
func (d *Direct) open() (p2p.Network, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.network != nil {
		return d.network, nil
	}
	key, _, err := p2pcrypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a node key: %w", err)
	}
	c := d.By.Client
	d.network, err = p2p.Open(p2p.Config{
		Key: key, Source: c.cfg.Source, Domains: c.cfg.Domains, SwarmID: func() string { return c.Pin().String() }, Log: slog.New(slog.DiscardHandler),
	})
	return d.network, err
}

// Close ends its connections.
func (d *Direct) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.network == nil {
		return nil
	}
	return d.network.Close()
}

// ReadFrom is Read by a connection with the host itself, by which no SN has a part in it. began is false if the host did not begin with an answer,
// or has no room for one: then Read can be tried.
func (l Logs) ReadFrom(ctx context.Context, d *Direct, at *swarmv1.Node, part *swarmv1.LogPart, fn func([]*swarmv1.LogLine) error) (began bool, err error) {
	c := l.By.Client
	if c.cfg.Source == nil {
		return false, errNoIdentity()
	}
	if err := c.ready(ctx); err != nil {
		return false, err
	}
	if at.GetName() != l.Node {
		return false, fmt.Errorf("node %s is asked for a log of %s", at.GetName(), l.Node)
	}
	until := time.Now().Add(directWithin)
	s, err := d.dial(ctx, at, l.Role, direct.Protocol, until)
	if err != nil {
		return false, err
	}
	part.Node = l.Node
	order, err := logs.AskDirect(c.cfg.Source, c.PinnedSwarmID(), part)
	if err != nil {
		_ = s.Reset()
		return false, err
	}
	var last *swarmv1.LogText
	texts := 0
	began, err = direct.Read(ctx, s, order, time.Until(until), func(t *swarmv1.LogText) error {
		last, texts = t, texts+1
		return fn(t.GetLines())
	})
	switch {
	case errors.Is(err, direct.ErrSilent):
		return began, hostSilent(l.Node, err)
	case err != nil:
		return began, fmt.Errorf("log of %s: %w", l.Node, err)
	}
	err = endOfLog(last)
	if texts == 1 && last.GetRefused() != "" && !last.GetDenied() {
		return false, err // it has no room for one more, say
	}
	return began, err
}

// dial opens a stream to the host that is registered as a node, which has a role. That it is there is an SN's word, so it has to show who it is.
func (d *Direct) dial(ctx context.Context, at *swarmv1.Node, role identity.Role, protocol string, until time.Time) (p2p.Conn, error) {
	network, err := d.open()
	if err != nil {
		return nil, err
	}
	id, err := peer.Decode(at.GetPeerId())
	if err != nil {
		return nil, fmt.Errorf("peer ID %.80q of %s: %w", at.GetPeerId(), at.GetName(), err)
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	to := p2p.Addr{PeerID: id, Host: at.GetHost(), Port: int(at.GetFsPort())}
	s, err := network.Dial(ctx, to, protocol, false, func(p p2p.Peer) error {
		if err := p.Is(role); err != nil {
			return err
		}
		if !p.Identity.MaySpeakFor(at.GetName()) {
			return fmt.Errorf("%s answers for %s", p.Identity, at.GetName())
		}
		return nil
	})
	cause, failed := errors.AsType[*reach.Error](err)
	if !failed && errors.Is(err, context.DeadlineExceeded) {
		cause, failed = &reach.Error{HostPort: to.HostPort(), Cause: reach.CauseTimeout}, true
	}
	if failed {
		err = errors.New(cause.Brief())
	}
	return s, err
}

// hostSilent says that nothing is heard of a host any more.
func hostSilent(node string, err error) *Error {
	return &Error{
		Reason: ReasonHostSilent, Message: fmt.Sprintf("%s says nothing any more: its host, or the way to it, is gone", node),
		Remedy: "see: swarmctl get health", Code: connect.CodeUnavailable, err: err,
	}
}

func errNoIdentity() error { return &Error{Message: "to read a log takes an identity to sign with"} }
