package client

import (
	"context"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
)

// DeleteContract removes a contract and returns its last run. It names that run, so that repeating it does no harm.
func (c *Client) DeleteContract(ctx context.Context, contract string, force bool) (uint64, error) {
	run, err := c.runOf(ctx, contract)
	if err != nil {
		return 0, err
	}
	req := &swarmv1.DeleteContractRequest{Contract: contract, Force: force, Run: run}
	res, err := ordered(ctx, c, manner{once: run == 0}, req, func(o *swarmv1.Order) { req.Order = o },
		func(s *stubs, ctx context.Context, r *connect.Request[swarmv1.DeleteContractRequest]) (*connect.Response[swarmv1.DeleteContractResponse], error) {
			return s.contract.DeleteContract(ctx, r)
		})
	return res.GetRun(), err
}

// runOf returns the run that a contract is in; 0: there is no such contract.
func (c *Client) runOf(ctx context.Context, contract string) (uint64, error) {
	all, err := c.ListContracts(ctx)
	if err != nil {
		return 0, err
	}
	for _, x := range all {
		if x.GetName() == contract {
			return x.GetRun(), nil
		}
	}
	return 0, nil
}

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
