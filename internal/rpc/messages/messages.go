// Package messages makes messages of the API of the replicated state, and of what the leader knows beside it.
package messages

import (
	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task/onwire"
)

// Node shows a node. What the state does not say of it is the caller's to add.
func Node(n *state.Node) *swarmv1.Node {
	return &swarmv1.Node{
		Name: n.Name, Role: n.Role, SpiffeId: n.SPIFFEID, PeerId: n.PeerID, Host: n.Host,
		P2PPort: uint32(n.P2PPort), ApiPort: uint32(n.APIPort), FsPort: uint32(n.FSPort),
		ApiService: n.APIService, Live: n.Live, LiveSinceUnixMs: n.LiveSinceMS, LeftReason: n.LeftReason, Sentinel: n.Sentinel, Runtime: n.Runtime, Version: n.Version, Offer: onwire.OfferOf(n.Offer),
	}
}

// Use shows what of the swarm's room a node takes.
func Use(u state.Use) *swarmv1.Use {
	return &swarmv1.Use{
		OpenSessions: uint32(u.Open), EndedSessions: uint32(u.Ended), Contracts: uint32(u.Contracts), Bytes: uint64(u.Bytes), //nolint:gosec // counts
	}
}

// Ban shows a ban.
func Ban(b *state.Ban) *swarmv1.Ban {
	return &swarmv1.Ban{PeerId: b.PeerID, Name: b.Name, Reason: b.Reason, By: b.By, AtUnixMs: b.AtMS}
}
