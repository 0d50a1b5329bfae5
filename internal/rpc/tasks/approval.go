package tasks

import (
	"context"
	"fmt"
	"time"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/consensus/task/onwire"
)

// ApproveTask has a host that waits hear that it may carry out an assignment.
func (s *Service) ApproveTask(ctx context.Context, req *connect.Request[swarmv1.ApproveTaskRequest]) (*connect.Response[swarmv1.ApproveTaskResponse], error) {
	out, err := s.word(ctx, req.Msg, req.Msg.GetPart())
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&swarmv1.ApproveTaskResponse{Assignment: out}), nil
}

// RefuseTask has a host that waits hear that it is not to carry out an assignment.
func (s *Service) RefuseTask(ctx context.Context, req *connect.Request[swarmv1.RefuseTaskRequest]) (*connect.Response[swarmv1.RefuseTaskResponse], error) {
	out, err := s.word(ctx, req.Msg, req.Msg.GetPart())
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&swarmv1.RefuseTaskResponse{Assignment: out}), nil
}

// word carries out an operator's word on an assignment, and shows that afterwards.
func (s *Service) word(ctx context.Context, m Asking, on *swarmv1.PartOfHost) (*swarmv1.Assignment, error) {
	if err := s.sn.Order(ctx, m); err != nil {
		return nil, err
	}
	return s.assignment(on.GetAssignment())
}

// partOf demands what hosts go by, beside what the state demands: it stands in what was signed.
func partOf(m *swarmv1.PartOfHost, o *ledger.Order, atMS int64) (state.PartOfHost, error) {
	p := state.PartOfHost{
		Assignment: m.GetAssignment(), Task: m.GetTask(), Digest: m.GetDigest(), Taskrunner: m.GetTaskrunner(), Host: m.GetHost(), By: o.By, AtMS: atMS, Order: o,
	}
	switch left := m.GetExpiresUnixMs() - atMS; {
	case m.GetExpiresUnixMs() <= 0:
		return p, badPart(m, "sign until when the host may take it", "it never expires")
	case left <= 0:
		return p, badPart(m, "set the clocks, or give it more time", "it expired %v ago by the leader's clock", time.Duration(-left)*time.Millisecond)
	case left > task.MaxValidMS:
		return p, badPart(m, "sign one of at most 7 days", "no host takes one that is valid for %v", time.Duration(left)*time.Millisecond)
	}
	return p, nil
}

func badPart(m *swarmv1.PartOfHost, remedy, format string, args ...any) error {
	return &state.Error{
		Reason: state.ReasonBadCommand, Message: fmt.Sprintf("word on assignment %.20q: ", m.GetAssignment()) + fmt.Sprintf(format, args...), Remedy: remedy,
	}
}

// refuseTask makes the command of a refusal, whose reason the ledger has as it was signed.
func refuseTask(m *swarmv1.RefuseTaskRequest, o *ledger.Order, atMS int64) (state.Command, error) {
	p, err := partOf(m.GetPart(), o, atMS)
	if reason := m.GetReason(); err == nil && onwire.KeptReason(reason) != reason {
		err = badPart(m.GetPart(), "give one line of at most 256 bytes", "its reason has %d bytes, or more than one line", len(reason))
	}
	return state.RefuseTask{PartOfHost: p, Reason: m.GetReason()}, err
}

// approveTask makes the command of an approval.
func approveTask(m *swarmv1.ApproveTaskRequest, o *ledger.Order, atMS int64) (state.Command, error) {
	p, err := partOf(m.GetPart(), o, atMS)
	return state.ApproveTask{PartOfHost: p}, err
}
