package rpc

import (
	"context"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/rpc/messages"
)

// modelService tells who holds models, and has the ledger note who lets them out.
type modelService struct{ *shared }

// ListModels tells on the leader, who alone hears what nodes hold, which models there are.
func (s *modelService) ListModels(_ context.Context, req *connect.Request[swarmv1.ListModelsRequest]) (*connect.Response[swarmv1.ListModelsResponse], error) {
	name := req.Msg.GetContract()
	if !naming.ValidContract(name) {
		return nil, badContractName(name)
	}
	view := s.cfg.Core.View()
	c := view.Contracts[name]
	if c == nil {
		return nil, unknownContract(name)
	}
	return connect.NewResponse(messages.Models(view, c, s.cfg.Lead.Status(c.Name))), nil
}
