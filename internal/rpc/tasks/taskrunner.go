package tasks

import (
	"context"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
)

// CreateTaskrunner makes a taskrunner.
func (s *Service) CreateTaskrunner(ctx context.Context, req *connect.Request[swarmv1.CreateTaskrunnerRequest]) (*connect.Response[swarmv1.CreateTaskrunnerResponse], error) {
	if err := s.sn.Order(ctx, req.Msg); err != nil {
		return nil, err
	}
	return connect.NewResponse(&swarmv1.CreateTaskrunnerResponse{Taskrunner: showTaskrunner(s.sn.View().Tasks, req.Msg.GetName())}), nil
}

// DeleteTaskrunner removes a taskrunner.
func (s *Service) DeleteTaskrunner(ctx context.Context, req *connect.Request[swarmv1.DeleteTaskrunnerRequest]) (*connect.Response[swarmv1.DeleteTaskrunnerResponse], error) {
	if err := s.sn.Order(ctx, req.Msg); err != nil {
		return nil, err
	}
	return connect.NewResponse(&swarmv1.DeleteTaskrunnerResponse{}), nil
}

// ListTaskrunners shows all taskrunners.
func (s *Service) ListTaskrunners(context.Context, *connect.Request[swarmv1.ListTaskrunnersRequest]) (*connect.Response[swarmv1.ListTaskrunnersResponse], error) {
	return connect.NewResponse(&swarmv1.ListTaskrunnersResponse{Taskrunners: showTaskrunners(s.sn.View().Tasks)}), nil
}

// GetTaskrunner shows a taskrunner with its last assignment.
func (s *Service) GetTaskrunner(_ context.Context, req *connect.Request[swarmv1.GetTaskrunnerRequest]) (*connect.Response[swarmv1.GetTaskrunnerResponse], error) {
	b := s.sn.View().Tasks
	r := showTaskrunner(b, req.Msg.GetName())
	if r == nil {
		return nil, &state.Error{Reason: state.ReasonTaskUnknown, Message: "no such taskrunner", Remedy: "see: swarmctl list taskrunners"}
	}
	out := &swarmv1.GetTaskrunnerResponse{Taskrunner: r}
	if a := b.AssignmentOf(r.GetName()); a != nil {
		out.Assignment = showAssignment(b, a)
		for _, joined := range task.Joined(b, a.ID) {
			out.Joined = append(out.Joined, showAssignment(b, joined))
		}
	}
	return connect.NewResponse(out), nil
}

// ResetTaskrunner makes a taskrunner idle.
func (s *Service) ResetTaskrunner(ctx context.Context, req *connect.Request[swarmv1.ResetTaskrunnerRequest]) (*connect.Response[swarmv1.ResetTaskrunnerResponse], error) {
	if err := s.sn.Order(ctx, req.Msg); err != nil {
		return nil, err
	}
	return connect.NewResponse(&swarmv1.ResetTaskrunnerResponse{Taskrunner: showTaskrunner(s.sn.View().Tasks, req.Msg.GetName())}), nil
}
