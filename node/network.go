package node

import (
	"context"
	"fmt"
	"net"

	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/p2p"
)

// raftNetwork gives consensus its streams over the libp2p host.
type raftNetwork struct{ host Host }

var _ consensus.Network = raftNetwork{}

// Dial implements consensus.Network.
func (n raftNetwork) Dial(ctx context.Context, address, protocol string) (net.Conn, error) {
	to, err := p2p.ParseAddr(address)
	if err != nil {
		return nil, err
	}
	s, err := n.host.Dial(ctx, to, protocol, false, isSN)
	if err != nil {
		return nil, err
	}
	return raftConn{s}, nil
}

// isSN says that a peer is of the role sn: only such connections are used to reach a member.
func isSN(p p2p.Peer) error { return isOf(p, identity.RoleSN) }

// isOf holds who has answered to a role, which its SVID proves.
func isOf(p p2p.Peer, want identity.Role) error {
	if role := p.Identity.Role(); role != want {
		return fmt.Errorf("%w: it has the role %s, not %s", identity.ErrNotAuthorized, role, want)
	}
	return nil
}

// Handle implements consensus.Network.
func (n raftNetwork) Handle(protocol string, fn func(net.Conn, consensus.Peer)) {
	n.host.Handle(protocol, p2p.Policy{Roles: []identity.Role{identity.RoleSN}}, func(_ context.Context, s Stream) {
		fn(raftConn{s}, raftPeer(s))
	})
}

// raftConn tells consensus who answered.
type raftConn struct{ Stream }

// RemotePeer names the proven peer.
func (c raftConn) RemotePeer() consensus.Peer { return raftPeer(c.Stream) }

func raftPeer(s Stream) consensus.Peer {
	p := s.Peer()
	return consensus.Peer{
		PeerID: p.ID.String(), Role: string(p.Identity.Role()), SPIFFEID: p.Identity.String(), NodeName: p.Identity.NodeName(), SwarmID: p.SwarmID,
	}
}
