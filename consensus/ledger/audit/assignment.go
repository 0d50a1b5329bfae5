package audit

import (
	"slices"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
)

// assigned holds an assignment to the task, and to what the operator asked for.
func (k *tasks) assigned(a ledger.Assigned) {
	if k.known(a.Task) && k.digest[a.Task] != a.Digest {
		k.bad("digest", "task %.160q was not finalised with this digest", a.Task)
	}
	if _, there := k.live[a.Assignment]; there {
		k.bad("assignment", "assignment %.20s has no verdict yet", a.Assignment)
	}
	k.live[a.Assignment] = a
	asked := &swarmv1.AssignTaskRequest{}
	if !k.ordered(a.Order) || !k.orders.asked(a.Order, asked) {
		return
	}
	if asked.GetId() != a.Assignment || asked.GetTask() != a.Task || asked.GetDigest() != a.Digest || asked.GetTaskrunner() != a.Taskrunner || a.By != a.Order.By ||
		!slices.Equal(asked.GetHosts(), a.Hosts) {
		k.bad("assignment", "the operator %.160s asked for assignment %.20q of task %.160q with digest %.64q on taskrunner %.160q, hosts %.320q",
			a.Order.By, asked.GetId(), asked.GetTask(), asked.GetDigest(), asked.GetTaskrunner(), asked.GetHosts())
	}
	var groups []ledger.Group
	for _, g := range asked.GetGroups() {
		groups = append(groups, ledger.Group{Name: g.GetName(), Peers: g.GetPeers(), Least: g.GetLeast()})
	}
	kept := len(a.Groups) > 0
	if kept && (!slices.Equal(groups, a.Groups) || asked.GetInOrder() != a.InOrder || asked.GetRetries() != a.Retries || asked.GetTimeoutMs() != a.TimeoutMS || asked.GetExpiresUnixMs() != a.ExpiresMS) {
		k.bad("groups", "the operator %.160s asked for assignment %.20q with %d groups, %d retries, a time-out of %d ms and the expiry %d, in these or other numbers",
			a.Order.By, asked.GetId(), len(groups), asked.GetRetries(), asked.GetTimeoutMs(), asked.GetExpiresUnixMs())
	}
}

// ended holds a verdict to its assignment. Operators cancel, and only the leader judges.
func (k *tasks) ended(e ledger.EndedAssignment) {
	a, there := k.live[e.Assignment]
	delete(k.live, e.Assignment)
	switch {
	case !there && !k.report.Late:
		k.bad("assignment", "assignment %.20s was not made, or has its verdict", e.Assignment)
	case there && (a.Task != e.Task || a.Digest != e.Digest):
		k.bad("task", "assignment %.20s is of another task", e.Assignment)
	}
	switch cancelled := e.Verdict == "cancelled"; {
	case cancelled:
		k.cancelled(e, a)
	case e.Order != nil:
		k.bad("order", "operators give no verdict but cancelled")
	case !slices.Contains([]string{"succeeded", "failed"}, e.Verdict):
		k.bad("verdict", "%.40q is none", e.Verdict)
	}
}

// cancelled holds the end of an assignment to the operator's order: for it, or for its taskrunner.
func (k *tasks) cancelled(e ledger.EndedAssignment, a ledger.Assigned) {
	if !k.ordered(e.Order) {
		return
	}
	reset, cancel := &swarmv1.ResetTaskrunnerRequest{}, &swarmv1.CancelAssignmentRequest{}
	switch {
	case e.Order.Method == "ResetTaskrunner":
		if k.orders.asked(e.Order, reset) && a.Assignment != "" && reset.GetName() != a.Taskrunner {
			k.bad("order", "the operator reset taskrunner %.160q, and the assignment's is %.160q", reset.GetName(), a.Taskrunner)
		}
	case k.orders.asked(e.Order, cancel) && cancel.GetId() != e.Assignment:
		k.bad("order", "the operator cancelled assignment %.20q", cancel.GetId())
	}
}
