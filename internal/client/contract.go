package client

import (
	"context"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
)

// CreateContract sets all rules of a contract, and makes it if there is none; the method must be in its canonical form. It
// returns the contract as committed. Repeating it does no harm.
func (c *Client) CreateContract(ctx context.Context, contract string, rules *swarmv1.Rules) (*swarmv1.ContractView, error) {
	req := &swarmv1.CreateContractRequest{Contract: contract, Rules: rules}
	res, err := ordered(ctx, c, manner{}, req, func(o *swarmv1.Order) { req.Order = o },
		func(s *stubs, ctx context.Context, r *connect.Request[swarmv1.CreateContractRequest]) (*connect.Response[swarmv1.CreateContractResponse], error) {
			return s.contract.CreateContract(ctx, r)
		})
	return res.GetContract(), err
}
