package membership

import (
	"context"
	"net"

	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/p2p"
)

// Network gives consensus its streams over the libp2p host.
type Network struct{ Host p2p.Network }

var _ consensus.Network = Network{}

// Dial implements consensus.Network.
func (n Network) Dial(ctx context.Context, address, protocol string) (net.Conn, error) {
	to, err := p2p.ParseAddr(address)
	if err != nil {
		return nil, err
	}
	s, err := n.Host.Dial(ctx, to, protocol, false, func(p p2p.Peer) error { return p.Is(identity.RoleSN) })
	if err != nil {
		return nil, err
	}
	return raftConn{s}, nil
}

// Handle implements consensus.Network.
func (n Network) Handle(protocol string, fn func(net.Conn, consensus.Peer)) {
	n.Host.Handle(protocol, p2p.Policy{Roles: []identity.Role{identity.RoleSN}}, func(_ context.Context, s p2p.Conn) {
		fn(raftConn{s}, raftPeer(s))
	})
}

// raftConn tells consensus who answered.
type raftConn struct{ p2p.Conn }

// RemotePeer names the proven peer.
func (c raftConn) RemotePeer() consensus.Peer { return raftPeer(c.Conn) }

func raftPeer(s p2p.Conn) consensus.Peer {
	p := s.Peer()
	return consensus.Peer{
		PeerID: p.ID.String(), Role: string(p.Identity.Role()), SPIFFEID: p.Identity.String(), NodeName: p.Identity.NodeName(), SwarmID: p.SwarmID,
	}
}
