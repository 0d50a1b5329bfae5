package tasks

import (
	"context"
	"encoding/base64"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/consensus/task/onwire"
)

// AssignTask hands a task to hosts.
func (s *Service) AssignTask(ctx context.Context, req *connect.Request[swarmv1.AssignTaskRequest]) (*connect.Response[swarmv1.AssignTaskResponse], error) {
	if err := s.sn.Order(ctx, req.Msg); err != nil {
		return nil, err
	}
	out, err := s.assignment(req.Msg.GetId())
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&swarmv1.AssignTaskResponse{Assignment: out}), nil
}

// CancelAssignment ends an assignment.
func (s *Service) CancelAssignment(ctx context.Context, req *connect.Request[swarmv1.CancelAssignmentRequest]) (*connect.Response[swarmv1.CancelAssignmentResponse], error) {
	if err := s.sn.Order(ctx, req.Msg); err != nil {
		return nil, err
	}
	out, err := s.assignment(req.Msg.GetId())
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&swarmv1.CancelAssignmentResponse{Assignment: out}), nil
}

// GetAssignment shows an assignment with its members.
func (s *Service) GetAssignment(_ context.Context, req *connect.Request[swarmv1.GetAssignmentRequest]) (*connect.Response[swarmv1.GetAssignmentResponse], error) {
	out, err := s.assignment(req.Msg.GetId())
	if err != nil {
		return nil, err
	}
	if out.GetTaskType() == task.RunJob && out.GetPhase() != string(task.Over) {
		addAddresses(s.sn.View(), out)
	}
	return connect.NewResponse(&swarmv1.GetAssignmentResponse{Assignment: out}), nil
}

// addAddresses shows where members are reached, as far as their nodes are those that were placed, and where they are in their job's network.
func addAddresses(view *state.State, out *swarmv1.Assignment) {
	told := view.Tasks.Whole().Assignments[out.GetId()]
	for i, m := range out.GetMembers() {
		if told != nil && told.Epoch == out.GetEpoch() && i < len(told.Members) && told.Members[i].IP != "" {
			m.OwnAddress = told.Members[i].IP
			m.OwnAddressSignature, _ = base64.StdEncoding.DecodeString(told.Members[i].IPSignature) // or no host takes it
		}
		if n := view.Nodes[m.GetNode()]; n != nil && n.PeerID == m.GetPeerId() {
			m.Address = onwire.Address(n.Host)
		}
	}
}

// ListAssignments shows all assignments that are kept.
func (s *Service) ListAssignments(context.Context, *connect.Request[swarmv1.ListAssignmentsRequest]) (*connect.Response[swarmv1.ListAssignmentsResponse], error) {
	return connect.NewResponse(showAssignments(s.sn.View().Tasks, maxAnswer)), nil
}

func (s *Service) assignment(id string) (*swarmv1.Assignment, error) {
	b := s.sn.View().Tasks.Whole()
	a := b.Assignments[id]
	if a == nil {
		return nil, &state.Error{Reason: state.ReasonTaskUnknown, Message: "no such assignment", Remedy: "see which are kept: swarmctl list assignments; the ledger has all: swarmctl audit"}
	}
	approvals := room(maxAnswer / 4)
	if t := b.Task(a.Task); t != nil && t.Type == task.RunJob {
		approvals = maxAnswer / 16 // addresses of members have the rest
	}
	return showAssignment(b, a, approvals), nil
}
