package rpc

import (
	"bytes"
	"context"
	"fmt"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/identity"
)

// InviteNode lets the first node key that claims the invitation join as the SN of a name.
func (s *nodeService) InviteNode(ctx context.Context, req *connect.Request[swarmv1.InviteNodeRequest]) (*connect.Response[swarmv1.InviteNodeResponse], error) {
	caller, err := callerFrom(ctx)
	if err != nil {
		return nil, err
	}
	name, spiffeID := req.Msg.GetName(), req.Msg.GetSpiffeId()
	if id, err := identity.ParseIDString(spiffeID); err != nil || id.Role() != identity.RoleSN || id.NodeName() != name {
		return nil, fmt.Errorf("%w: %.200q is no SPIFFE ID of SN %.80q alone", ErrBadRequest, spiffeID, name)
	}
	res, err := s.orders.order(ctx, req.Msg)
	if err != nil {
		return nil, err
	}
	out := &swarmv1.InviteNodeResponse{}
	if i := s.cfg.Core.View().Invitations.Of(name); i != nil && bytes.Equal(i.Key, req.Msg.GetKey()) {
		out.Number = i.Number
	}
	if res.Changed {
		s.cfg.Log.WarnContext(ctx, "invited SN", "node", name, "spiffe_id", spiffeID, "invitation", out.Number, "caller", caller.ID.String())
	}
	return connect.NewResponse(out), nil
}
