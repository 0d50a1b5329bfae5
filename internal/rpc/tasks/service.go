// Package tasks is the part of an SN's API that deals in tasks: operators write them and have hosts carry them out, each change by a signed
// order; hosts see what is theirs to do, and say what has become of it.
package tasks

import (
	"context"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
)

// Asking is a request that an operator signs.
type Asking interface {
	proto.Message
	GetOrder() *swarmv1.Order
}

// SN is what the service needs of the SN that serves it.
type SN interface {
	// View returns the state as applied here. It is immutable.
	View() *state.State
	// Order carries out what an operator has signed. It returns when what [Command] makes of it shows in the view.
	Order(ctx context.Context, m Asking) error
	// Follow shows the view to the node that calls, first the current one and then each newer one, until ctx ends, the node is not to see it
	// any more, or show fails.
	Follow(ctx context.Context, show func(Sight) error) error
}

// Sight is what a node that follows the view is shown.
type Sight struct {
	Node  string
	View  *state.State
	Index uint64 // raft index of the view
	Again bool   // what is shown is to be sent also if it has not changed: it is the first, or so much time has passed
}

// Service implements swarmv1connect.TaskServiceHandler.
type Service struct{ sn SN }

// New returns the service of an SN.
func New(sn SN) *Service { return &Service{sn} }

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
	if err := s.sn.Order(ctx, m); err != nil {
		return nil, err
	}
	t := s.sn.View().Tasks.Task(name)
	if t == nil {
		return nil, unknownTask() // somebody has deleted it since
	}
	return showTask(t), nil
}

// DeleteTask removes a task.
func (s *Service) DeleteTask(ctx context.Context, req *connect.Request[swarmv1.DeleteTaskRequest]) (*connect.Response[swarmv1.DeleteTaskResponse], error) {
	if err := s.sn.Order(ctx, req.Msg); err != nil {
		return nil, err
	}
	return connect.NewResponse(&swarmv1.DeleteTaskResponse{}), nil
}

// GetTask shows a task with its definition.
func (s *Service) GetTask(_ context.Context, req *connect.Request[swarmv1.GetTaskRequest]) (*connect.Response[swarmv1.GetTaskResponse], error) {
	b := s.sn.View().Tasks
	t := b.Task(req.Msg.GetName())
	if t == nil {
		return nil, unknownTask()
	}
	return connect.NewResponse(&swarmv1.GetTaskResponse{Task: showTask(t), Definition: t.Definition, Digest: task.SumOn(b, t)}), nil
}

// ListTasks shows all tasks.
func (s *Service) ListTasks(context.Context, *connect.Request[swarmv1.ListTasksRequest]) (*connect.Response[swarmv1.ListTasksResponse], error) {
	return connect.NewResponse(&swarmv1.ListTasksResponse{Tasks: showTasks(s.sn.View().Tasks)}), nil
}

func unknownTask() error {
	return &state.Error{Reason: state.ReasonTaskUnknown, Message: "no such task", Remedy: "see: swarmctl list tasks"}
}
