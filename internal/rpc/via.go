package rpc

import (
	"context"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/consensus/admission"
	"github.com/swarmd/swarmd/consensus/state"
)

// viaTimeout is short: the list of nodes is told without it too.
const viaTimeout = time.Second

// ledNodes is what the leader alone knows of nodes.
type ledNodes struct {
	via     map[string]string             // the SN through which each node last reported
	dialled map[string]*swarmv1.DialBack  // what came of dialling each node back, nil where that is not known
	links   map[string]*swarmv1.NodeLinks // what each node last said of its connections, likewise
	asking  []admission.Candidate
}

// ownNodes is what this SN knows of nodes as the leader.
func (s *nodeService) ownNodes(view *state.State) ledNodes {
	out := newLedNodes(s.cfg.Core.Candidates())
	out.links[s.cfg.Name] = s.ownHealth().GetLinks()
	now, room := s.cfg.Now(), roomForLinks()
	for _, n := range reporters(view) {
		out.via[n.Name], out.dialled[n.Name], out.links[n.Name] = s.healths.Via(n.Name), s.cfg.DialBack.Of(n), room.fit(s.healths.Links(n.Name, now))
	}
	return out
}

func newLedNodes(asking []admission.Candidate) ledNodes {
	return ledNodes{via: map[string]string{}, dialled: map[string]*swarmv1.DialBack{}, links: map[string]*swarmv1.NodeLinks{}, asking: asking}
}

// linksRoom is how much an answer has left for what nodes say of their connections, in bytes.
type linksRoom int

// maxLinksTold bounds that, so that nodes can't make an answer as large as they like.
const maxLinksTold = 256 << 10

func roomForLinks() *linksRoom {
	r := linksRoom(maxLinksTold)
	return &r
}

// fit returns what a node says, or where there is no room for it only that there is something.
func (r *linksRoom) fit(l *swarmv1.NodeLinks) *swarmv1.NodeLinks {
	size := linksRoom(proto.Size(l))
	if *r -= size; *r >= 0 || size == 0 {
		return l
	}
	*r += size
	return &swarmv1.NodeLinks{Contract: l.GetContract(), Sn: l.GetSn(), More: uint32(len(l.GetLinks())) + l.GetMore()} //nolint:gosec // bounded when it came
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
		out = newLedNodes(askedCandidates(res.Msg.GetCandidates()))
		for _, n := range res.Msg.GetNodes() {
			out.via[n.GetName()], out.dialled[n.GetName()], out.links[n.GetName()] = n.GetSn(), n.GetDialBack(), n.GetLinks()
		}
		out.links[s.cfg.Name] = s.ownHealth().GetLinks()
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
