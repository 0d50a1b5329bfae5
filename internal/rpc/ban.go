package rpc

import (
	"context"
	"errors"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
)

// BanNode shuts a node key out.
func (s *Server) BanNode(context.Context, *connect.Request[swarmv1.BanNodeRequest]) (*connect.Response[swarmv1.BanNodeResponse], error) {
	return nil, connect.NewError(connect.CodeUnimplemented, errors.New("not there yet"))
}

// UnbanNode lets a node key in again.
func (s *Server) UnbanNode(context.Context, *connect.Request[swarmv1.UnbanNodeRequest]) (*connect.Response[swarmv1.UnbanNodeResponse], error) {
	return nil, connect.NewError(connect.CodeUnimplemented, errors.New("not there yet"))
}
