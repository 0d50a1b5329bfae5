package audit

import (
	"slices"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
)

// tasks holds records of tasks and assignments to their orders, and to what came before.
type tasks struct {
	*findings
	orders   *orders
	members  *members
	digest   map[string]string // by task: of one that is finalised; empty: it is not
	types    map[string]string // by task: what it was made as last
	by       map[string]string // by task: who made it
	open     map[string]open   // by ID
	verdict  map[string]string // by ID of assignments that are not open any more
	lastUse  map[string]uint64 // by ID: the record of the assignment that had it last
	busy     map[string]int    // by taskrunner: assignments of it that are open
	whole    uint64            // the first record of an assignment that says whom it needs; 0: there was none
	detailed uint64            // the first one that says what an assignment joins, or the groups of members
	cancel   lastOrder
}

func newTasks(f *findings, o *orders, m *members) *tasks {
	return &tasks{findings: f, orders: o, members: m, digest: map[string]string{}, types: map[string]string{}, by: map[string]string{}, verdict: map[string]string{}, lastUse: map[string]uint64{}, open: map[string]open{}, busy: map[string]int{}}
}

// judge is auditor.judge for records of tasks.
func (k *tasks) judge(body ledger.Body) {
	switch b := body.(type) {
	case ledger.Task:
		k.made(b)
	case ledger.FinalTask:
		k.final(b)
	case ledger.DeletedTask:
		k.deleted(b)
	case ledger.Assigned:
		k.assigned(b)
	case ledger.Approval:
		k.approval(b)
	case ledger.EndedAssignment:
		k.ended(b)
	}
}

// known reports whether the ledger has made a task and not deleted it. A ledger that begins late may lack that.
func (k *tasks) known(name string) bool {
	_, there := k.digest[name]
	if !there && !k.report.Late {
		k.bad("task", "no record before has made task %.160q", name)
	}
	return there
}

func (k *tasks) made(t ledger.Task) {
	if _, there := k.digest[t.Task]; there {
		k.bad("task", "task %.160q was made before, and not deleted", t.Task)
	}
	k.digest[t.Task], k.types[t.Task], k.by[t.Task] = "", t.Type, t.By
	asked := &swarmv1.CreateTaskRequest{}
	if !k.ordered(t.Order) || !k.orders.asked(t.Order, asked) {
		return
	}
	if asked.GetName() != t.Task || asked.GetType() != t.Type || t.By != t.Order.By {
		k.bad("task", "the operator %.160s asked for task %.160q of type %.40q", t.Order.By, asked.GetName(), asked.GetType())
	}
}

func (k *tasks) final(t ledger.FinalTask) {
	if k.known(t.Task) && k.digest[t.Task] != "" {
		k.bad("task", "task %.160q was finalised before", t.Task)
	}
	k.digest[t.Task] = t.Digest
	asked := &swarmv1.FinaliseTaskRequest{}
	if !k.ordered(t.Order) || !k.orders.asked(t.Order, asked) {
		return
	}
	k.ofItsOwn(t.Order, k.by[t.Task])
	if asked.GetName() != t.Task || asked.GetDigest() != "" && asked.GetDigest() != t.Digest {
		k.bad("digest", "the operator asked to finalise task %.160q with digest %.64q; an empty one is any", asked.GetName(), asked.GetDigest())
	}
}

func (k *tasks) deleted(t ledger.DeletedTask) {
	if k.known(t.Task) && k.digest[t.Task] != t.Digest {
		k.bad("digest", "task %.160q had another digest", t.Task)
	}
	by := k.by[t.Task]
	delete(k.digest, t.Task)
	delete(k.by, t.Task)
	asked := &swarmv1.DeleteTaskRequest{}
	if !k.ordered(t.Order) || !k.orders.asked(t.Order, asked) {
		return
	}
	k.ofItsOwn(t.Order, by)
	if asked.GetName() != t.Task || t.Digest != "" && !asked.GetForce() {
		k.bad("task", "the operator asked to delete task %.160q, by force: %t", asked.GetName(), asked.GetForce())
	}
}

// ordered reports whether there is an order, which all records of operators' changes of tasks have.
func (k *tasks) ordered(o *ledger.Order) bool {
	if o == nil {
		k.bad("order", "it is missing")
	}
	return o != nil
}

// approval holds an operator's word to the assignment, and to what was signed.
func (k *tasks) approval(x ledger.Approval) {
	a, there := k.open[x.Assignment]
	switch {
	case !there && !k.report.Late:
		k.bad("assignment", "assignment %.20s was not made, or has its verdict", x.Assignment)
	case there && (a.Task != x.Task || a.Digest != x.Digest):
		k.bad("task", "assignment %.20s is of another task", x.Assignment)
	case there && a.By == x.By:
		k.bad("by", "%.160s asked for assignment %.20s, and can't approve or refuse it", x.By, x.Assignment)
	case there && len(a.Hosts) > 0 && !slices.Contains(a.Hosts, x.Host):
		k.bad("host", "assignment %.20s is for hosts %.320q", x.Assignment, a.Hosts)
	}
	var on *swarmv1.PartOfHost
	yes, no := &swarmv1.ApproveTaskRequest{}, &swarmv1.RefuseTaskRequest{}
	switch {
	case !k.ordered(x.Order):
		return
	case x.Refused && k.orders.asked(x.Order, no):
		on = no.GetPart()
	case !x.Refused && k.orders.asked(x.Order, yes):
		on = yes.GetPart()
	default:
		return
	}
	if there && on.GetTaskrunner() != a.Taskrunner {
		k.bad("order", "the operator %.160s signed for taskrunner %.160q, and the assignment's is %.160q", x.Order.By, on.GetTaskrunner(), a.Taskrunner)
	}
	if on.GetAssignment() != x.Assignment || on.GetTask() != x.Task || on.GetDigest() != x.Digest || on.GetHost() != x.Host || no.GetReason() != x.Reason || x.By != x.Order.By {
		k.bad("assignment", "the operator %.160s signed for assignment %.20q of task %.160q with digest %.64q on host %.63q, for the reason %.256q",
			x.Order.By, on.GetAssignment(), on.GetTask(), on.GetDigest(), on.GetHost(), no.GetReason())
	}
}
