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

// showAssignment shows an assignment with its hosts and members.
func showAssignment(b *task.Board, a *task.Assignment) *swarmv1.Assignment {
	out := summarise(b, a)
	out.Hosts = a.Hosts
	for i, m := range a.Members {
		out.Members = append(out.Members, &swarmv1.AssignmentMember{
			Index: uint32(i), Node: m.Node, PeerId: m.PeerID, Group: m.Group, Peers: m.Peers, State: string(m.State), Code: m.Code, Text: m.Text, //nolint:gosec // at most MaxMembers
			Cleaned: m.Cleaned, Status: m.Status(), ChangedUnixMs: m.ChangedMS,
		})
	}
	for _, x := range a.Approvals {
		out.Approvals = append(out.Approvals, &swarmv1.Approval{Host: x.Host, Refused: x.Refuse, Reason: x.Reason, By: x.By, AtUnixMs: x.AtMS})
	}
	return out
}

// summarise shows an assignment without its hosts and members.
func summarise(b *task.Board, a *task.Assignment) *swarmv1.Assignment {
	out := onwire.Request(&a.Request)
	out.Hosts = nil
	out.Phase, out.Epoch, out.Wants, out.Status, out.Verdict, out.Reason = string(a.Phase), a.Epoch, a.Wants, a.Status(), string(a.Verdict), a.Reason
	out.CreatedUnixMs, out.ChangedUnixMs, out.EndedUnixMs = a.CreatedMS, a.ChangedMS, a.EndedMS
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

// showAssignments shows all assignments, those first that were made first.
func showAssignments(b *task.Board) (out []*swarmv1.Assignment) {
	b = b.Whole()
	all := slices.SortedFunc(maps.Values(b.Assignments), func(x, y *task.Assignment) int {
		return cmp.Or(cmp.Compare(x.CreatedMS, y.CreatedMS), cmp.Compare(x.ID, y.ID))
	})
	for _, a := range all {
		out = append(out, summarise(b, a))
	}
	return out
}
