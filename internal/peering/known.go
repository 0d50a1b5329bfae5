package peering

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/probe/board"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/trust"
)

// knownTimeout bounds what Known asks SNs.
const knownTimeout = 10 * time.Second

// Known is where a node itself knows others to be, so that a raft leader can't have it dial any address: the SNs that it knows and, as its own SN
// says, the SLs of its contract and of the swarm that have signed their registrations.
type Known struct {
	SNs       func() []string // HOST:PORT of their APIs
	ListNodes func(ctx context.Context) (*swarmv1.ListNodesResponse, error)
	View      func() *round.View
	Guard     *trust.Guard // not nil
}

// place is where a node is; an API has no peer ID.
type place struct{ peerID, hostport string }

// Targets is probe.Config.Known. It asks an SN only for what is not known without.
func (k Known) Targets(ctx context.Context, targets []*swarmv1.ProbeTarget) []bool {
	places := map[place]bool{}
	for _, at := range k.SNs() {
		places[place{"", at}] = true
	}
	if v := k.View(); v != nil {
		k.addSessions(v.Sessions, places)
	}
	known := knownAmong(places, targets)
	if !slices.Contains(known, false) {
		return known
	}
	ctx, cancel := context.WithTimeout(ctx, knownTimeout)
	defer cancel()
	list, err := k.ListNodes(ctx)
	if err != nil {
		return known // what is not known is not dialled
	}
	sns := slices.DeleteFunc(slices.Clone(list.GetNodes()), func(n *swarmv1.Node) bool { return n.GetRole() != naming.RoleSN })
	for _, sn := range client.Reachable(sns) {
		places[place{"", sn.Address}] = true
	}
	wanted := map[place]bool{} // of the rest of a large swarm no proofs are asked for
	for _, t := range targets {
		wanted[place{t.GetPeerId(), board.HostPort(t)}] = true
	}
	listed := slices.DeleteFunc(sessionsOf(list.GetNodes()), func(m *round.Session) bool { return !wanted[placeOf(m)] })
	k.Guard.Learn(ctx, slices.DeleteFunc(slices.Clone(listed), func(m *round.Session) bool { return !errors.Is(k.Guard.Peer(m), trust.ErrUnknown) }))
	k.addSessions(listed, places)
	return knownAmong(places, targets)
}

func placeOf(m *round.Session) place {
	return place{m.PeerID, net.JoinHostPort(m.Host, strconv.FormatUint(uint64(m.FSPort), 10))}
}

// addSessions adds the places of those that the guard accepts.
func (k Known) addSessions(sessions []*round.Session, places map[place]bool) {
	for _, m := range sessions {
		if m.State != "ended" && m.Host != "" && k.Guard.Peer(m) == nil {
			places[placeOf(m)] = true
		}
	}
}

func knownAmong(places map[place]bool, targets []*swarmv1.ProbeTarget) []bool {
	known := make([]bool, len(targets))
	for i, t := range targets {
		at := place{t.GetPeerId(), board.HostPort(t)}
		if t.GetApi() {
			at.peerID = ""
		}
		known[i] = places[at]
	}
	return known
}

// sessionsOf are the SLs of a list as sessions, by which a guard judges them. The list does not say what they have signed last; what they have shown
// before counts.
func sessionsOf(nodes []*swarmv1.Node) (out []*round.Session) {
	for _, n := range nodes {
		if n.GetRole() == naming.RoleSL && !n.GetBanned() {
			out = append(out, &round.Session{Node: n.GetName(), SPIFFEID: n.GetSpiffeId(), PeerID: n.GetPeerId(), Host: n.GetHost(), FSPort: n.GetFsPort(), Live: true, State: "open", Proof: "listed"})
		}
	}
	return out
}
