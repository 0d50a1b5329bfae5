package tasks

import (
	"context"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/consensus/task/onwire"
	"github.com/swarmd/swarmd/identity/naming"
)

// WatchAssignments streams what a host is to know of assignments whenever that changes.
func (s *Service) WatchAssignments(ctx context.Context, _ *connect.Request[swarmv1.WatchAssignmentsRequest], stream *connect.ServerStream[swarmv1.HostedAssignments]) error {
	var board *task.Board // that was looked at last
	sent := &swarmv1.HostedAssignments{}
	return s.sn.Follow(ctx, func(at Sight) error {
		if at.View.Tasks == board && !at.Again {
			return nil
		}
		board = at.View.Tasks
		now := &swarmv1.HostedAssignments{Assignments: onwire.Hosted(task.HostedOn(board.Whole(), at.Node)), Index: sent.GetIndex()}
		if proto.Equal(now, sent) && !at.Again {
			return nil
		}
		now.Index = at.Index
		sent = now
		return stream.Send(now)
	})
}

// Members is what a node reports of members, which it may only as a host of tasks.
func Members(node *state.Node, m *swarmv1.ReportRequest) ([]task.MemberReport, error) {
	if node.Role != naming.RoleSWOP && len(m.GetMembers()) > 0 {
		return nil, fmt.Errorf("node %s is no host of tasks, and reports members of assignments", node.Name)
	}
	return onwire.FromMembers(node.Name, m.GetMembers())
}

// Wanted reports whether a part of an assignment, which a node says that it is, is to go on; of what is none it is false.
func Wanted(view *state.State, part string) bool {
	var p task.Part
	return part != "" && p.UnmarshalText([]byte(part)) == nil && task.Wanted(view.Tasks, p)
}
