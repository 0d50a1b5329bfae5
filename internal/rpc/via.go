package rpc

import (
	"context"
	"net/http"
	"time"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/consensus/admission"
	"github.com/swarmd/swarmd/consensus/state"
)

// viaTimeout is short: the list of nodes is told without it too.
const viaTimeout = time.Second

// ledNodes is what the leader alone knows of nodes.
type ledNodes struct {
	via     map[string]string            // the SN through which each node last reported
	dialled map[string]*swarmv1.DialBack // what came of dialling each node back, nil where that is not known
	asking  []admission.Candidate
}

// ownNodes is what this SN knows of nodes as the leader.
func (s *nodeService) ownNodes(view *state.State) ledNodes {
	out := ledNodes{via: map[string]string{}, dialled: map[string]*swarmv1.DialBack{}, asking: s.cfg.Core.Candidates()}
	for _, n := range reporters(view) {
		out.via[n.Name], out.dialled[n.Name] = s.healths.Via(n.Name), s.cfg.DialBack.Of(n)
	}
	return out
}

// askNodes returns what the leader knows of nodes, as far as it tells.
func (s *nodeService) askNodes(ctx context.Context, view *state.State) ledNodes {
	if _, _, led := s.cfg.Core.Leader(); !led {
		return ledNodes{}
	}
	if via(ctx) != "" { // another SN asks this one as the leader
		return s.ownNodes(view)
	}
	ctx, cancel := context.WithTimeout(ctx, viaTimeout)
	defer cancel()
	var out ledNodes
	_ = s.cfg.Core.WithLeader(ctx, func(ctx context.Context, way http.RoundTripper) error { // without it the list is shorter
		if way == nil {
			out = s.ownNodes(view)
			return nil
		}
		res, err := swarmv1connect.NewNodeServiceClient(&http.Client{Transport: way}, toLeader).ListNodes(ctx, asSN(s.shared, &swarmv1.ListNodesRequest{}))
		if err != nil {
			return err
		}
		out = ledNodes{via: map[string]string{}, dialled: map[string]*swarmv1.DialBack{}, asking: askedCandidates(res.Msg.GetCandidates())}
		for _, n := range res.Msg.GetNodes() {
			out.via[n.GetName()], out.dialled[n.GetName()] = n.GetSn(), n.GetDialBack()
		}
		return nil
	})
	return out
}

// toLeader is the address of this SN's own calls: where they go says the way.
const toLeader = "http://sn"

// asSN is a call of this SN's own to the leader.
func asSN[T any](s *shared, m *T) *connect.Request[T] {
	r := connect.NewRequest(m)
	r.Header().Set(HeaderSwarmID, pinOf(s.cfg.Core.View()).String())
	return r
}
