package tasks

import (
	"cmp"
	"context"
	"slices"

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
		carriedOut(out, b, a, maxAnswer)
	}
	return connect.NewResponse(out), nil
}

// carriedOut adds a taskrunner's last assignment, and of those that have joined it as many as there is room for. Those that are under way are
// all there, in the end without their members: who waits for them is not to take them for over.
func carriedOut(out *swarmv1.GetTaskrunnerResponse, b *task.Board, a *task.Assignment, left room) {
	const approvals = maxAnswer / 16 // of one assignment
	firsts := firstIndexes(b, a)
	add := func(to *[]*swarmv1.Assignment, all []*task.Assignment) {
		for _, joined := range all {
			one := showAssignment(b, joined, approvals)
			if one.FirstIndex = firsts[joined.ID]; left.take(one) {
				*to = append(*to, one)
				continue
			}
			out.LeftOut++
			if joined.Phase != task.Over {
				*to = append(*to, &swarmv1.Assignment{Id: joined.ID, Task: joined.Task, Joins: joined.Joins, Phase: string(joined.Phase), CreatedUnixMs: joined.CreatedMS})
			}
		}
	}
	out.Assignment = showAssignment(b, a, approvals)
	left.take(out.Assignment)
	add(&out.Joined, task.Joined(b, a.ID))
	add(&out.Ended, task.JoinedOver(b, a.ID))
}

// firstIndexes are, by ID, the indexes of the first members of those that have joined an assignment, among the hosts of all.
func firstIndexes(b *task.Board, a *task.Assignment) map[string]uint32 {
	all := slices.SortedFunc(slices.Values(append(task.Joined(b, a.ID), task.JoinedOver(b, a.ID)...)), func(x, y *task.Assignment) int {
		return cmp.Or(cmp.Compare(x.CreatedMS, y.CreatedMS), cmp.Compare(x.ID, y.ID))
	})
	firsts, next := map[string]uint32{}, len(a.Members)
	for _, joined := range all {
		firsts[joined.ID] = uint32(next) //nolint:gosec // at most MaxLive+MaxOver of MaxMembers
		next += len(joined.Members)
	}
	return firsts
}

// ResetTaskrunner makes a taskrunner idle.
func (s *Service) ResetTaskrunner(ctx context.Context, req *connect.Request[swarmv1.ResetTaskrunnerRequest]) (*connect.Response[swarmv1.ResetTaskrunnerResponse], error) {
	if err := s.sn.Order(ctx, req.Msg); err != nil {
		return nil, err
	}
	return connect.NewResponse(&swarmv1.ResetTaskrunnerResponse{Taskrunner: showTaskrunner(s.sn.View().Tasks, req.Msg.GetName())}), nil
}
