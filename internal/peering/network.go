package peering

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/admission"
	"github.com/swarmd/swarmd/internal/fetch"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session"
	"github.com/swarmd/swarmd/internal/trust"
	"github.com/swarmd/swarmd/merge/exchange"
)

// Links are the Network over libp2p.
type Links struct {
	Host  p2p.Network
	Guard *trust.Guard // nil: every SL of the view is accepted
}

var _ Network = Links{}

// OpenMerge implements Network.
func (n Links) OpenMerge(ctx context.Context, to *round.Participant, bulk bool) (exchange.Stream, error) {
	return n.dial(ctx, target{to.Node, to.SPIFFEID, to.PeerID, to.Host, to.FSPort}, Protocol, bulk)
}

// target is a node as the swarm knows it.
type target struct {
	node, spiffeID, peerID, host string
	port                         uint32
}

// dial opens a stream to the SL that shows the SPIFFE ID that it registered with. That it is one the connection must prove: what
// is known of the node is an SN's word, which may name itself.
func (n Links) dial(ctx context.Context, to target, protocol string, dedicated bool) (p2p.Conn, error) {
	a, err := addr(to.peerID, to.host, to.port)
	if err != nil {
		return nil, err
	}
	return n.Host.Dial(ctx, a, protocol, dedicated, n.fits(to))
}

// fits returns what judges whether a connection's peer is the SL that is meant, and one that this node takes part with.
func (n Links) fits(to target) func(p2p.Peer) error {
	return func(p p2p.Peer) error {
		if err := p.Is(identity.RoleSL); err != nil {
			return err
		}
		if err := n.Guard.Allowed(p.Identity.String()); err != nil {
			return err
		}
		return admission.CheckIdentity(to.node, to.spiffeID, p.Identity.String())
	}
}

// FetchModel implements Network.
func (n Links) FetchModel(ctx context.Context, from *round.Session, m round.Ref, bytes int64, dst io.Writer) error {
	s, err := n.dial(ctx, target{from.Node, from.SPIFFEID, from.PeerID, from.Host, from.FSPort}, fetch.Protocol, false)
	if err != nil {
		return fmt.Errorf("fetch model: %w", err)
	}
	return fetch.Over(ctx, s, fetch.Request{
		Kind: "model", Contract: m.Contract, Run: m.Run, Round: m.Round, Digest: m.Digest, State: m.State,
	}, bytes, dst)
}

func addr(peerID, host string, port uint32) (p2p.Addr, error) {
	id, err := peer.Decode(peerID)
	if err != nil {
		return p2p.Addr{}, fmt.Errorf("peer ID %q: %w", peerID, err)
	}
	return p2p.Addr{PeerID: id, Host: host, Port: int(port)}, nil
}

// Serve answers other SLs: merge streams of the current attempt, and fetches of the committed model by nodes that are
// enrolled in the contract.
func Serve(network Links, hub *exchange.Hub, engine *session.Engine, out *admission.Releases, log *slog.Logger) {
	host, guard := network.Host, network.Guard
	policy := p2p.Policy{Roles: []identity.Role{identity.RoleSL}}
	door := admission.New(engine, guard)
	host.Handle(Protocol, policy, func(ctx context.Context, s p2p.Conn) {
		p := s.Peer()
		from := p.ID.String()
		refused := door.Admit(ctx, from, p.Identity.String())
		if refused != nil {
			log.Warn("merge stream refused", "peer", p.String(), "err", refused)
			from += ": " + refused.Error() // it is no participant's name, and the peer is told so
		}
		if err := hub.Serve(ctx, s, from); err != nil && ctx.Err() == nil {
			log.Debug("merge stream ended", "peer", p.String(), "err", err)
		}
		stale(s, refused)
	})
	fetchers := p2p.Policy{Roles: []identity.Role{identity.RoleSL, identity.RoleSWCI}}
	open := func(ctx context.Context, from p2p.Peer, req fetch.Request) (io.ReadCloser, int64, error) {
		if req.Kind != "model" {
			return nil, 0, fmt.Errorf("nothing of kind %q here", req.Kind)
		}
		if err := admission.MayFetch(engine.View(), req.Contract, from.Identity.Role(), from.ID.String(), from.Identity.String()); err != nil {
			return nil, 0, err
		}
		if m := admission.Session(engine.View(), from.ID.String()); from.Identity.Role() == identity.RoleSL {
			if err := guard.Peer(m); err != nil {
				return nil, 0, err
			}
		}
		r, size, err := engine.OpenModel(round.Ref{
			Contract: req.Contract, Run: req.Run, Model: round.Model{Round: req.Round, Digest: req.Digest, State: req.State},
		})
		if err != nil {
			return nil, 0, err
		}
		if req.Offset < 0 || req.Offset > size {
			return nil, 0, fmt.Errorf("offset %d is beyond the model's %d bytes", req.Offset, size)
		}
		if _, err := r.Seek(req.Offset, io.SeekStart); err != nil {
			return nil, 0, err
		}
		if from.Identity.Role() == identity.RoleSWCI {
			if err := out.Record(ctx, from.Identity.String(), req); err != nil {
				_ = r.Close() // read only
				return nil, 0, err
			}
		}
		return r, size - req.Offset, nil
	}
	host.Handle(fetch.Protocol, fetchers, func(ctx context.Context, s p2p.Conn) {
		if err := fetch.Answer(ctx, s, open); err != nil {
			log.Debug("fetch not served", "peer", s.Peer().String(), "err", err)
		}
	})
}

// stale ends the connection of a peer whose registration has got a SPIFFE ID of its own since it was made: on a new one it
// shows that. Only this one: it may be a thief's of the node key, who must not end the node's.
func stale(s p2p.Conn, refused error) {
	if other, ok := errors.AsType[*admission.IdentityError](refused); ok && other.Stale {
		_ = s.Disconnect()
	}
}
