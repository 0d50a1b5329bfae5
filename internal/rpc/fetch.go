package rpc

import (
	"context"
	"fmt"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity"
)

// RecordFetch has the ledger note that the calling node lets a model out.
func (s *modelService) RecordFetch(ctx context.Context, req *connect.Request[swarmv1.RecordFetchRequest]) (*connect.Response[swarmv1.RecordFetchResponse], error) {
	m := req.Msg
	node := speaker(ctx)
	_, err := s.proposeFor(ctx, node, state.RecordFetch{
		Contract: m.GetContract(), Run: m.GetRun(), Round: m.GetRound(), Digest: m.GetDigest(), By: m.GetBy(), Node: node, SeenMS: m.GetAtUnixMs(),
		Signature: m.GetSignature(), AtMS: s.nowMS(),
	})
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&swarmv1.RecordFetchResponse{}), nil
}

// vetFetch holds on the leader what a node is said to let out to its signature.
func (s *orders) vetFetch(c state.RecordFetch) error {
	view := s.cfg.Core.View()
	n := view.Nodes[c.Node]
	if n == nil {
		return unknownNode(c.Node)
	}
	if id, err := identity.ParseIDString(c.By); err != nil || id.Role() != identity.RoleSWCI {
		return fmt.Errorf("%w: %.80q is no operator", ErrBadRequest, c.By)
	}
	message := identity.FetchMessage(identity.Fetch{
		SwarmID: view.SwarmID, Node: c.Node, Contract: c.Contract, Run: c.Run, Round: c.Round, Model: c.Digest, By: c.By, AtMS: c.SeenMS,
	})
	if err := identity.VerifyNodeSignature(n.PeerID, message, c.Signature); err != nil {
		return fmt.Errorf("%w: node %s did not sign that it lets a model out", ErrSignature, c.Node)
	}
	return nil
}

func unknownNode(name string) error {
	return &state.Error{Reason: state.ReasonNodeUnknown, Message: fmt.Sprintf("no node %.64q", name), Remedy: "see: swarmctl list nodes"}
}
