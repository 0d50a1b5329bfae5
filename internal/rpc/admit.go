package rpc

import (
	"context"
	"fmt"
	"slices"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/admission"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/naming"
)

// AdmitNode lets a node key join as the SN of a name.
func (s *nodeService) AdmitNode(ctx context.Context, req *connect.Request[swarmv1.AdmitNodeRequest]) (*connect.Response[swarmv1.AdmitNodeResponse], error) {
	caller, err := callerFrom(ctx)
	if err != nil {
		return nil, err
	}
	name, peerID := req.Msg.GetName(), req.Msg.GetPeerId()
	if id, ok := asKey(peerID); !ok || id != peerID {
		return nil, fmt.Errorf("%w: %.80q is no peer ID", ErrBadRequest, peerID)
	}
	res, err := s.orders.order(ctx, req.Msg)
	if err != nil {
		return nil, err
	}
	if res.Changed {
		s.cfg.Log.WarnContext(ctx, "admitted SN", "node", name, "peer_id", peerID, "caller", caller.ID.String())
	}
	return connect.NewResponse(&swarmv1.AdmitNodeResponse{}), nil
}

// expected reports whether an SN of a name may join: it was admitted, or invited.
func expected(view *state.State, name string) bool {
	i := view.Invitations.Of(name)
	return i != nil && i.ClaimedBy == "" || slices.ContainsFunc(view.Admissions(), func(a *state.Admission) bool { return a.Name == name })
}

// askedCandidates are the SNs that wait, as the leader tells of them. What one that lies says is held to its bounds.
func askedCandidates(all []*swarmv1.Candidate) []admission.Candidate {
	var out []admission.Candidate
	for _, m := range all[:min(len(all), admission.MaxCandidates)] {
		if id, ok := asKey(m.GetPeerId()); ok && id == m.GetPeerId() && naming.ValidNode(m.GetName()) {
			out = append(out, admission.Candidate{
				Name: m.GetName(), PeerID: id, SPIFFEID: spoken(m.GetSpiffeId(), maxShortText), Host: spoken(m.GetHost(), maxShortText), SinceMS: m.GetSinceUnixMs(),
			})
		}
	}
	return out
}
