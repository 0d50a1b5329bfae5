package rpc

import (
	"context"
	"fmt"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/identity/naming"
)

const (
	// maxProofs bounds the nodes whose proofs one call gives: of 17 KiB each.
	maxProofs = 32
	// maxRefusedNodes bounds the nodes that one says it refuses.
	maxRefusedNodes = 64
)

// GetProofs returns the proofs of nodes' registrations. What is in them stands in the ledger too.
func (s *nodeService) GetProofs(_ context.Context, req *connect.Request[swarmv1.GetProofsRequest]) (*connect.Response[swarmv1.GetProofsResponse], error) {
	if n := len(req.Msg.GetNames()); n > maxProofs {
		return nil, fmt.Errorf("%w: proofs of %d nodes, at most %d", ErrBadRequest, n, maxProofs)
	}
	view, out := s.cfg.Core.View(), &swarmv1.GetProofsResponse{}
	for _, name := range req.Msg.GetNames() {
		if n := view.Nodes[name]; n != nil && n.Proof != nil {
			out.Proofs = append(out.Proofs, &swarmv1.NodeProof{Name: name, Chain: n.Proof.Chain, SvidSignature: n.Proof.Signature, AddressSignature: n.Proof.Address})
		}
	}
	return connect.NewResponse(out), nil
}

// refusedFromProto takes the nodes that one says it refuses, of which too many, and what is no name, count for nothing.
func refusedFromProto(names []string) (out []string) {
	for _, name := range names[:min(len(names), maxRefusedNodes)] {
		if naming.ValidNode(name) {
			out = append(out, name)
		}
	}
	return out
}
