// Package tasks is the part of an SN's API that deals in tasks: what operators write and name, each change by a signed order.
package tasks

import (
	"context"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
)

// Replica is the SN's copy of the swarm's state.
type Replica interface {
	// View returns the state as applied here. It is immutable.
	View() *state.State
}

// Asking is a request that an operator signs.
type Asking interface {
	proto.Message
	GetOrder() *swarmv1.Order
}

// Orders carries out what operators sign.
type Orders interface {
	// Order returns when the command that [Command] makes of the request shows in the view.
	Order(ctx context.Context, m Asking) error
}

// Service implements swarmv1connect.TaskServiceHandler.
type Service struct {
	replica Replica
	orders  Orders
}

// New returns the service of an SN.
func New(replica Replica, orders Orders) *Service { return &Service{replica: replica, orders: orders} }

// CreateTask makes a task.
func (s *Service) CreateTask(ctx context.Context, req *connect.Request[swarmv1.CreateTaskRequest]) (*connect.Response[swarmv1.CreateTaskResponse], error) {
	out, err := s.ordered(ctx, req.Msg.GetName(), req.Msg)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&swarmv1.CreateTaskResponse{Task: out}), nil
}

// EditTask writes lines of a task.
func (s *Service) EditTask(ctx context.Context, req *connect.Request[swarmv1.EditTaskRequest]) (*connect.Response[swarmv1.EditTaskResponse], error) {
	out, err := s.ordered(ctx, req.Msg.GetName(), req.Msg)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&swarmv1.EditTaskResponse{Task: out}), nil
}

// FinaliseTask fixes a task.
func (s *Service) FinaliseTask(ctx context.Context, req *connect.Request[swarmv1.FinaliseTaskRequest]) (*connect.Response[swarmv1.FinaliseTaskResponse], error) {
	out, err := s.ordered(ctx, req.Msg.GetName(), req.Msg)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&swarmv1.FinaliseTaskResponse{Task: out}), nil
}

// ordered carries out what an operator asks for of a task, and shows the task afterwards.
func (s *Service) ordered(ctx context.Context, name string, m Asking) (*swarmv1.Task, error) {
	if err := s.orders.Order(ctx, m); err != nil {
		return nil, err
	}
	t := s.replica.View().Tasks.Task(name)
	if t == nil {
		return nil, unknownTask() // somebody has deleted it since
	}
	return showTask(t), nil
}

// DeleteTask removes a task.
func (s *Service) DeleteTask(ctx context.Context, req *connect.Request[swarmv1.DeleteTaskRequest]) (*connect.Response[swarmv1.DeleteTaskResponse], error) {
	if err := s.orders.Order(ctx, req.Msg); err != nil {
		return nil, err
	}
	return connect.NewResponse(&swarmv1.DeleteTaskResponse{}), nil
}

// GetTask shows a task with its definition.
func (s *Service) GetTask(_ context.Context, req *connect.Request[swarmv1.GetTaskRequest]) (*connect.Response[swarmv1.GetTaskResponse], error) {
	t := s.replica.View().Tasks.Task(req.Msg.GetName())
	if t == nil {
		return nil, unknownTask()
	}
	return connect.NewResponse(&swarmv1.GetTaskResponse{Task: showTask(t), Definition: t.Definition, Digest: t.Sum()}), nil
}

// ListTasks shows all tasks.
func (s *Service) ListTasks(context.Context, *connect.Request[swarmv1.ListTasksRequest]) (*connect.Response[swarmv1.ListTasksResponse], error) {
	return connect.NewResponse(&swarmv1.ListTasksResponse{Tasks: showTasks(s.replica.View().Tasks)}), nil
}

func unknownTask() error {
	return &state.Error{Reason: state.ReasonTaskUnknown, Message: "no such task", Remedy: "see which there are: ListTasks"}
}
