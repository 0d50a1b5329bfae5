package tasks

import (
	"cmp"
	"maps"
	"slices"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/consensus/task/onwire"
)

// showTask shows a task without its definition.
func showTask(t *task.Task) *swarmv1.Task {
	return &swarmv1.Task{
		Name: t.Name, Type: t.Type, Author: t.Author, Prereq: t.Prereq, Outcome: t.Outcome, Status: t.Status(), Digest: t.Digest, By: t.By,
		CreatedUnixMs: t.CreatedMS, FinalisedUnixMs: t.FinalisedMS, Bytes: uint32(len(t.Definition)), PrereqDigest: t.PrereqDigest, //nolint:gosec // at most MaxDefinition
	}
}

// showTasks shows all tasks: the root task, then the others by name.
func showTasks(b *task.Board) []*swarmv1.Task {
	b = b.Whole()
	out := []*swarmv1.Task{showTask(b.Task(task.Root))}
	for _, name := range slices.Sorted(maps.Keys(b.Tasks)) {
		out = append(out, showTask(b.Tasks[name]))
	}
	return out
}

// showTaskrunner shows a taskrunner with the state of its last assignment; nil: there is none of the name.
func showTaskrunner(b *task.Board, name string) *swarmv1.Taskrunner {
	r := b.Taskrunner(name)
	if r == nil {
		return nil
	}
	return &swarmv1.Taskrunner{Name: r.Name, Status: task.StatusOf(b, name), CreatedUnixMs: r.CreatedMS}
}

// showTaskrunners shows all taskrunners: the default one, then the others by name.
func showTaskrunners(b *task.Board) []*swarmv1.Taskrunner {
	b = b.Whole()
	out := []*swarmv1.Taskrunner{showTaskrunner(b, task.DefaultTaskrunner)}
	for _, name := range slices.Sorted(maps.Keys(b.Taskrunners)) {
		if name != task.DefaultTaskrunner {
			out = append(out, showTaskrunner(b, name))
		}
	}
	return out
}

// showAssignment shows an assignment with its hosts and members, and as many of the last approvals as there is room for.
func showAssignment(b *task.Board, a *task.Assignment, approvals room) *swarmv1.Assignment {
	out := summarise(b, a)
	out.Hosts = a.Hosts
	for i, m := range a.Members {
		out.Members = append(out.Members, &swarmv1.AssignmentMember{
			Index: uint32(i), Node: m.Node, PeerId: m.PeerID, Group: m.Group, Peers: m.Peers, State: string(m.State), Code: m.Code, Text: m.Text, //nolint:gosec // at most MaxMembers
			Cleaned: m.Cleaned, Status: m.Status(), ChangedUnixMs: m.ChangedMS,
		})
	}
	for i, x := range slices.Backward(a.Approvals) {
		one := &swarmv1.Approval{Host: x.Host, Refused: x.Refuse, Reason: x.Reason, By: x.By, AtUnixMs: x.AtMS}
		if !approvals.take(one) {
			out.ApprovalsLeftOut = uint32(i + 1) //nolint:gosec // at most MaxMembers*MaxApprovals
			break
		}
		out.Approvals = append(out.Approvals, one)
	}
	slices.Reverse(out.Approvals)
	return out
}

// summarise shows an assignment without its hosts and members.
func summarise(b *task.Board, a *task.Assignment) *swarmv1.Assignment {
	out := onwire.Request(&a.Request)
	out.Hosts = nil
	out.Phase, out.Epoch, out.Wants, out.Status, out.Verdict, out.Reason = string(a.Phase), a.Epoch, a.Wants, a.Status(), string(a.Verdict), a.Reason
	out.CreatedUnixMs, out.ChangedUnixMs, out.EndedUnixMs = a.CreatedMS, a.ChangedMS, a.EndedMS
	out.End, out.ReadyUnixMs = string(a.End), a.ReadySinceMS
	out.MemberCount = uint32(len(a.Members)) //nolint:gosec // at most MaxMembers
	for _, m := range a.Members {
		switch {
		case m.Succeeded():
			out.CompletedPeers += m.Peers
		case m.Bad():
			out.FailedPeers += m.Peers
		default:
			out.ActivePeers += m.Peers
		}
	}
	if t := b.Task(a.Task); t != nil {
		out.TaskType = t.Type
	}
	return out
}

// showAssignments shows all assignments for which there is room, those first that were made first. Those that ended first are left out first.
func showAssignments(b *task.Board, left room) *swarmv1.ListAssignmentsResponse {
	b, out := b.Whole(), &swarmv1.ListAssignmentsResponse{}
	last := slices.SortedFunc(maps.Values(b.Assignments), func(x, y *task.Assignment) int {
		return cmp.Or(cmp.Compare(y.Number-1, x.Number-1), cmp.Compare(x.ID, y.ID)) // 0 is live, and the last
	})
	for i, a := range last {
		one := summarise(b, a)
		if !left.take(one) {
			out.LeftOut = uint32(len(last) - i) //nolint:gosec // at most MaxLive+MaxOver
			break
		}
		out.Assignments = append(out.Assignments, one)
	}
	slices.SortFunc(out.Assignments, func(x, y *swarmv1.Assignment) int {
		return cmp.Or(cmp.Compare(x.GetCreatedUnixMs(), y.GetCreatedUnixMs()), cmp.Compare(x.GetId(), y.GetId()))
	})
	return out
}
