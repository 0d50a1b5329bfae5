package tasks

import (
	"context"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
)

// CreateTaskrunner makes a taskrunner.
func (s *Service) CreateTaskrunner(ctx context.Context, req *connect.Request[swarmv1.CreateTaskrunnerRequest]) (*connect.Response[swarmv1.CreateTaskrunnerResponse], error) {
	if err := s.orders.Order(ctx, req.Msg); err != nil {
		return nil, err
	}
	return connect.NewResponse(&swarmv1.CreateTaskrunnerResponse{Taskrunner: showTaskrunner(s.replica.View().Tasks, req.Msg.GetName())}), nil
}

// DeleteTaskrunner removes a taskrunner.
func (s *Service) DeleteTaskrunner(ctx context.Context, req *connect.Request[swarmv1.DeleteTaskrunnerRequest]) (*connect.Response[swarmv1.DeleteTaskrunnerResponse], error) {
	if err := s.orders.Order(ctx, req.Msg); err != nil {
		return nil, err
	}
	return connect.NewResponse(&swarmv1.DeleteTaskrunnerResponse{}), nil
}

// ListTaskrunners shows all taskrunners.
func (s *Service) ListTaskrunners(context.Context, *connect.Request[swarmv1.ListTaskrunnersRequest]) (*connect.Response[swarmv1.ListTaskrunnersResponse], error) {
	return connect.NewResponse(&swarmv1.ListTaskrunnersResponse{Taskrunners: showTaskrunners(s.replica.View().Tasks)}), nil
}
