package rpc

import (
	"context"
	"errors"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
)

// GetHealth tells how this SN and the nodes that the leader knows fare.
func (s *Server) GetHealth(context.Context, *connect.Request[swarmv1.GetHealthRequest]) (*connect.Response[swarmv1.GetHealthResponse], error) {
	return nil, connect.NewError(connect.CodeUnimplemented, errors.New("not there yet"))
}
