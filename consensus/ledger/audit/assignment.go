package audit

import (
	"fmt"
	"reflect"
	"slices"

	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/consensus/task/onwire"
)

// open is an assignment without a verdict.
type open struct {
	ledger.Assigned // groups, retries and what it joins are those that were signed, also if the record has none

	record uint64
	again  bool // its ID was another's before
}

// assigned holds an assignment to the task, to those that are open, and to what the operator asked for.
func (k *tasks) assigned(a ledger.Assigned) {
	if k.known(a.Task) && k.digest[a.Task] != a.Digest {
		k.bad("digest", "task %.160q was not finalised with this digest", a.Task)
	}
	if _, there := k.open[a.Assignment]; there {
		k.bad("assignment", "assignment %.20s has no verdict yet", a.Assignment)
	}
	asked := &swarmv1.AssignTaskRequest{}
	if k.ordered(a.Order) && k.orders.asked(a.Order, asked) {
		k.assignedAsAsked(a, asked)
		a.Groups, a.Joins, a.Retries, a.JobTerms = groupsOf(asked), asked.GetJoins(), asked.GetRetries(), ledger.JobTerms(onwire.JobTerms(asked))
	}
	k.place(a)
	again := k.again(a.Assignment)
	k.open[a.Assignment] = open{a, k.seq, again}
}

// again reports whether an ID was another assignment's. SNs can take it when that is not kept any more, and no host carries it out whose journal
// has the other.
func (k *tasks) again(id string) bool {
	before, known := k.lastUse[id]
	k.lastUse[id] = k.seq
	switch {
	case !known:
	case len(k.report.Reused) < maxReused:
		k.report.Reused = append(k.report.Reused, Reused{k.seq, before, id})
	default:
		k.report.MoreReused++
	}
	return known
}

// maxReused bounds how many records are named whose assignment has the ID of another; the rest is counted.
const maxReused = 20

// Reused is the record of an assignment that has the ID of an earlier one. What a host signed of its part may be about that one.
type Reused struct {
	Record, Before uint64
	Assignment     string
}

// place holds an assignment to those that are open: a taskrunner has one at a time, and what joins another is of its task and taskrunner.
func (k *tasks) place(a ledger.Assigned) {
	if a.Taskrunner == "" {
		return
	}
	main, there := k.open[a.Joins]
	switch {
	case a.Joins == "" && k.busy[a.Taskrunner] > 0:
		k.bad("taskrunner", "taskrunner %.160q has an assignment without a verdict", a.Taskrunner)
	case a.Joins != "" && !there && !k.report.Late:
		k.bad("joins", "assignment %.20s was not made, or has its verdict", a.Joins)
	case there && (main.Task != a.Task || main.Digest != a.Digest || main.Taskrunner != a.Taskrunner || main.Joins != ""):
		k.bad("joins", "assignment %.20s is of another task or taskrunner, or joins one itself", a.Joins)
	}
	k.busy[a.Taskrunner]++
}

// assignedAsAsked holds the record of an assignment to what was signed. Records of before say less; once one says more all later ones must.
func (k *tasks) assignedAsAsked(a ledger.Assigned, asked *swarmv1.AssignTaskRequest) {
	if asked.GetId() != a.Assignment || asked.GetTask() != a.Task || asked.GetDigest() != a.Digest || asked.GetTaskrunner() != a.Taskrunner || a.By != a.Order.By ||
		!slices.Equal(asked.GetHosts(), a.Hosts) {
		k.bad("assignment", "the operator %.160s asked for assignment %.20q of task %.160q with digest %.64q on taskrunner %.160q, hosts %.320q",
			a.Order.By, asked.GetId(), asked.GetTask(), asked.GetDigest(), asked.GetTaskrunner(), asked.GetHosts())
	}
	groups, whole := onwire.Groups(asked.GetGroups()), len(a.Groups) > 0
	switch {
	case whole && (!task.SameGroups(groups, recorded(a.Groups)) || asked.GetInOrder() != a.InOrder || asked.GetRetries() != a.Retries || asked.GetTimeoutMs() != a.TimeoutMS || asked.GetExpiresUnixMs() != a.ExpiresMS):
		k.bad("groups", "the operator %.160s asked for assignment %.20q with %d groups, %d retries, a time-out of %d ms and the expiry %d, in these or other numbers",
			a.Order.By, asked.GetId(), len(groups), asked.GetRetries(), asked.GetTimeoutMs(), asked.GetExpiresUnixMs())
	case !whole && k.whole > 0:
		k.bad("groups", "they are missing, and since record %d all assignments say whom they need", k.whole)
	case !whole && (a.InOrder || a.Retries > 0 || a.TimeoutMS > 0 || a.ExpiresMS > 0):
		k.bad("groups", "they are missing, and what comes with them is there")
	case whole:
		k.whole = earlier(k.whole, k.seq)
	}
	if terms := ledger.JobTerms(onwire.JobTerms(asked)); terms != a.JobTerms {
		k.bad("done", "the operator %.160s asked for a job with the terms %.160q, and the record has %.160q", a.Order.By, fmt.Sprint(terms), fmt.Sprint(a.JobTerms))
	}
	switch joins := asked.GetJoins(); {
	case a.Joins != "" && a.Joins != joins:
		k.bad("joins", "the operator %.160s asked for one that joins %.20q", a.Order.By, joins)
	case a.Joins == "" && joins != "" && k.detailed > 0:
		k.bad("joins", "it is missing, and since record %d assignments say what they join: the operator asked for %.20q", k.detailed, joins)
	case a.Joins != "":
		k.detailed = earlier(k.detailed, k.seq)
	}
}

// earlier is the earlier record of the two; 0 is none.
func earlier(known, now uint64) uint64 {
	if known > 0 {
		return known
	}
	return now
}

// groupsOf are the groups that were asked for, as they are recorded.
func groupsOf(asked *swarmv1.AssignTaskRequest) (groups []ledger.Group) {
	for _, g := range onwire.Groups(asked.GetGroups()) {
		groups = append(groups, ledger.Group(g))
	}
	return groups
}

// recorded are the groups of a record.
func recorded(all []ledger.Group) (groups []task.Group) {
	for _, g := range all {
		groups = append(groups, task.Group(g))
	}
	return groups
}

// cancelled holds the end of an assignment to the operator's order: for it, for what it joins, or for its taskrunner. One order may end
// several, in records that follow each other.
func (k *tasks) cancelled(e ledger.EndedAssignment, a ledger.Assigned) {
	if !k.ordered(e.Order) {
		return
	}
	reset, cancel := &swarmv1.ResetTaskrunnerRequest{}, &swarmv1.CancelAssignmentRequest{}
	switch {
	case e.Order.Method == "ResetTaskrunner":
		if k.askedOnce(e.Order, reset) && a.Assignment != "" && reset.GetName() != a.Taskrunner {
			k.bad("order", "the operator reset taskrunner %.160q, and the assignment's is %.160q", reset.GetName(), a.Taskrunner)
		}
		k.because(e.Reason, reset.GetReason())
	case k.askedOnce(e.Order, cancel):
		if id := cancel.GetId(); id != e.Assignment && (id == "" || id != a.Joins) {
			k.bad("order", "the operator cancelled assignment %.20q", id)
		}
		k.ofItsOwn(e.Order, a.By)
		k.because(e.Reason, cancel.GetReason())
	}
}

// because holds a reason to the one that the operator gave, in the form in which it is kept.
func (k *tasks) because(recorded, given string) {
	if recorded != onwire.KeptReason(given) {
		k.bad("reason", "the operator gave %.256q", given)
	}
}

// askedOnce is orders.asked, also for the further records of an order that ended several assignments. They must follow it, and carry the same.
func (k *tasks) askedOnce(o *ledger.Order, request proto.Message) bool {
	if k.cancel.seq == 0 || k.cancel.seq+1 != k.seq || !reflect.DeepEqual(k.cancel.order, o) {
		k.cancel = lastOrder{k.seq, o}
		return k.orders.asked(o, request)
	}
	k.cancel.seq = k.seq
	k.report.Orders++
	return k.orders.read(o, request)
}

// lastOrder is the order of the record that ended an assignment last.
type lastOrder struct {
	seq   uint64 // 0: there was none
	order *ledger.Order
}
