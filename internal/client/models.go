package client

import (
	"context"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
)

// ListModels returns the committed models of a contract that live nodes hold, newest first.
func (c *Client) ListModels(ctx context.Context, contract string) (*swarmv1.ListModelsResponse, error) {
	return call(ctx, c, manner{}, &swarmv1.ListModelsRequest{Contract: contract},
		func(s *stubs, ctx context.Context, r *connect.Request[swarmv1.ListModelsRequest]) (*connect.Response[swarmv1.ListModelsResponse], error) {
			return s.model.ListModels(ctx, r)
		})
}

// RecordFetch has the ledger note that our node lets a model out, and returns when it has.
func (c *Client) RecordFetch(ctx context.Context, req *swarmv1.RecordFetchRequest) error {
	_, err := call(ctx, c, manner{speaks: true}, req,
		func(s *stubs, ctx context.Context, r *connect.Request[swarmv1.RecordFetchRequest]) (*connect.Response[swarmv1.RecordFetchResponse], error) {
			return s.model.RecordFetch(ctx, r)
		})
	return err
}
