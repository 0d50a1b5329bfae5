package task

import (
	"cmp"
	"slices"
)

// A taskrunner holds one live assignment, and those that join it: its task is carried out on more hosts, which an operator names while it is
// under way. Each has an order of its own, which its hosts prove, and is judged by itself; that of the taskrunner does not wait for it.

// Joined returns the live assignments that join one, those first that were made first.
func Joined(b *Board, id string) (all []*Assignment) {
	for _, x := range b.LiveIDs() {
		if a := b.Assignments[x]; a.Joins == id {
			all = append(all, a)
		}
	}
	return all
}

// JoinedOver returns the assignments that joined one and are over, as far as they are kept, the last ones first.
func JoinedOver(b *Board, id string) (all []*Assignment) {
	for _, a := range b.Whole().Assignments {
		if a.Joins == id && !a.Live() {
			all = append(all, a)
		}
	}
	slices.SortFunc(all, func(x, y *Assignment) int { return cmp.Compare(y.Number, x.Number) })
	return all
}

// StatusOf is the state of a taskrunner in the original's words. It is not done before what has joined its assignment is over: it takes no other
// one until then.
func StatusOf(b *Board, taskrunner string) string {
	a := b.AssignmentOf(taskrunner)
	if a != nil && !a.Open() && len(Joined(b, a.ID)) > 0 {
		return "RUNNING"
	}
	return a.Status()
}

// takenBy refuses a request for a taskrunner that is busy, unless it joins what that carries out.
func takenBy(b *Board, q *Request, t *Task) error {
	if q.Joins == "" {
		return b.busy(q.Taskrunner)
	}
	main := b.Assignments[q.Joins]
	if main == nil || main.Taskrunner != q.Taskrunner || main.Joins != "" || main.Phase != Preparing && main.Phase != Running {
		return illegal(Stale, "assign the task anew", "taskrunner %s carries out no assignment %s that could be joined", q.Taskrunner, clipped(q.Joins))
	}
	if main.Task != t.Name || main.Digest != t.Digest {
		return illegal(Busy, "wait for it: swarmctl wait for taskrunner "+q.Taskrunner, "taskrunner %s is busy with another task: %s", q.Taskrunner, main.Task)
	}
	for _, a := range append(Joined(b, main.ID), main) {
		for _, h := range q.Hosts {
			if a.has(h) {
				return illegal(Busy, "see: swarmctl list taskrunner peers "+q.Taskrunner, "%s carries out assignment %s of task %s already", h, a.ID, a.Task)
			}
		}
	}
	return nil
}

// has reports whether a host takes part in an assignment, or is to.
func (a *Assignment) has(host string) bool {
	if a.Joins != "" && a.Open() && slices.Contains(a.Hosts, host) {
		return true
	}
	return slices.ContainsFunc(a.Members, func(m Member) bool { return m.Node == host && !m.Cleaned })
}

// releaseRunner makes a taskrunner idle whose assignment was cancelled, or that was reset, once nothing of it is live any more.
func releaseRunner(b *Board, a *Assignment) {
	if a.Joins != "" {
		a = b.Assignments[a.Joins]
	}
	if a != nil && !a.Live() && b.holds(a) && (a.Verdict == Cancelled || b.Taskrunners[a.Taskrunner].Reset) && len(Joined(b, a.ID)) == 0 {
		b.setAssignment(a.Taskrunner, "")
	}
}
