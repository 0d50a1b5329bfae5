package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/libp2p/go-libp2p/core/peer"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/session"
	"github.com/swarmd/swarmd/merge/exchange"
)

// slNetwork is Network over libp2p.
type slNetwork struct{ host *p2p.Host }

var _ Network = slNetwork{}

// OpenMerge implements Network.
func (n slNetwork) OpenMerge(ctx context.Context, peerID, host string, port uint32) (exchange.Stream, error) {
	to, err := addr(peerID, host, port)
	if err != nil {
		return nil, err
	}
	return n.host.Dial(ctx, to, MergeProtocol)
}

// FetchModel implements Network.
func (n slNetwork) FetchModel(ctx context.Context, from *swarmv1.Session, req session.FetchRequest, dst io.Writer) error {
	to, err := addr(from.PeerId, from.Host, from.FsPort)
	if err != nil {
		return err
	}
	return p2p.Fetch(ctx, n.host, to, p2p.FetchRequest{
		Kind: "model", Contract: req.Contract, Run: req.Run, Round: req.Round, Digest: req.Digest,
	}, req.Bytes, dst)
}

func addr(peerID, host string, port uint32) (p2p.Addr, error) {
	id, err := peer.Decode(peerID)
	if err != nil {
		return p2p.Addr{}, fmt.Errorf("peer ID %q: %w", peerID, err)
	}
	return p2p.Addr{PeerID: id, Host: host, Port: int(port)}, nil
}

// serveSL answers other SLs: merge streams of the current attempt, and fetches of the committed model by nodes that are
// enrolled in the contract.
func serveSL(host *p2p.Host, hub *exchange.Hub, engine *session.Engine, log *slog.Logger) {
	policy := p2p.Policy{Roles: []identity.Role{identity.RoleSL}}
	host.Handle(MergeProtocol, policy, func(ctx context.Context, s *p2p.Stream) {
		if err := hub.Serve(ctx, s, s.Peer().ID.String()); err != nil && ctx.Err() == nil {
			log.Debug("merge stream refused", "peer", s.Peer().String(), "err", err)
		}
	})
	p2p.ServeFetch(host, policy, func(_ context.Context, from p2p.Peer, req p2p.FetchRequest) (io.ReadCloser, int64, error) {
		if req.Kind != "model" {
			return nil, 0, fmt.Errorf("nothing of kind %q here", req.Kind)
		}
		if !Enrolled(engine.View(), from.ID.String()) {
			return nil, 0, errors.New("not enrolled in this contract")
		}
		r, size, err := engine.OpenModel(session.FetchRequest{Contract: req.Contract, Run: req.Run, Round: req.Round, Digest: req.Digest})
		if err != nil {
			return nil, 0, err
		}
		if req.Offset < 0 || req.Offset > size {
			return nil, 0, fmt.Errorf("offset %d is beyond the model's %d bytes", req.Offset, size)
		}
		if _, err := r.Seek(req.Offset, io.SeekStart); err != nil {
			return nil, 0, err
		}
		return r, size - req.Offset, nil
	})
}
