package rpc

import (
	"context"
	"errors"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
)

var errNotYet = errors.New("this version can't do that yet")

// CreateContract fixes rules of a contract.
func (s *Server) CreateContract(context.Context, *connect.Request[swarmv1.CreateContractRequest]) (*connect.Response[swarmv1.CreateContractResponse], error) {
	return nil, connect.NewError(connect.CodeUnimplemented, errNotYet)
}

// ListModels tells where committed models are held.
func (s *Server) ListModels(context.Context, *connect.Request[swarmv1.ListModelsRequest]) (*connect.Response[swarmv1.ListModelsResponse], error) {
	return nil, connect.NewError(connect.CodeUnimplemented, errNotYet)
}

// ReadLedger streams this SN's ledger.
func (s *Server) ReadLedger(context.Context, *connect.Request[swarmv1.ReadLedgerRequest], *connect.ServerStream[swarmv1.LedgerChunk]) error {
	return connect.NewError(connect.CodeUnimplemented, errNotYet)
}
