package membership

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/reach/pairs"
)

// Links are this SN's connections with the other SNs of a view that are not well. A dial that failed long ago, where none is needed any more,
// is nothing of the kind.
func (s *Member) Links(view *state.State) *swarmv1.NodeLinks {
	out, now := &swarmv1.NodeLinks{}, time.Now()
	for _, n := range view.NodesByRole(naming.RoleSN) {
		id, err := peer.Decode(n.PeerID)
		if err != nil || n.Name == s.cfg.Name || n.Left() || view.Banned(n.PeerID) != nil {
			continue
		}
		r := s.host.Reach(p2p.Addr{PeerID: id, Host: n.Host, Port: int(n.P2PPort)}, func(p p2p.Peer) error { return p.Is(identity.RoleSN) })
		switch {
		case r.Linked && pairs.Forgotten(r.Failed, now):
		case r.Failed.Lately(now), r.Linked && r.Failed.Err != nil:
			out.Links = append(out.Links, pairs.Failed(n.Name, r.Linked, r.Failed, now))
		case !r.Linked:
			out.Links = append(out.Links, &swarmv1.NodeLink{Node: n.Name})
		}
	}
	return pairs.Bound(out)
}
