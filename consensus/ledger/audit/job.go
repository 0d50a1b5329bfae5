package audit

import (
	"fmt"
	"slices"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/task"
)

// isJob reports whether an assignment is of a job. In a ledger that begins after its task was made, its end alone may say so.
func (k *tasks) isJob(a ledger.Assigned, e ledger.EndedAssignment) bool {
	kind := k.types[a.Task]
	return kind == task.RunJob || kind == "" && k.report.Late && e.End != ""
}

// twice reports whether a member's host has another part in the assignment, which it may in a job alone; there it is one host with one key.
func twice(e ledger.EndedAssignment, i int, job bool) (first int, is bool) {
	m := e.Members[i]
	for j, x := range e.Members[:i] {
		if sameNode, sameKey := x.Node == m.Node, x.PeerID == m.PeerID; sameNode != sameKey || sameNode && !job {
			return j, true
		}
	}
	return 0, false
}

// jobEnded holds the end of a job to its verdict, to what the operator asked for, and to what hosts say of its members.
func (k *tasks) jobEnded(e ledger.EndedAssignment, a ledger.Assigned, t *tally) {
	on := map[string]int{}
	for i, m := range e.Members {
		if on[m.Node]++; m.Peers != 1 || on[m.Node] > task.MaxHosted {
			k.bad(fmt.Sprintf("members[%d].peers", i), "a member of a job is one peer, and a host has %d of them at most", task.MaxHosted)
		}
	}
	if a.Together && len(on) > 1 {
		k.bad("members", "they are on %d hosts, and the operator asked for one", len(on))
	}
	end := task.End(e.End)
	switch {
	case end.Verdict() == "" || string(end.Verdict()) != e.Verdict:
		k.bad("end", "%.40q is no end of a job that %.40s", e.End, e.Verdict)
	case end == task.EndEntryDone && !doneWith(a, t.all):
		k.bad("verdict", "it succeeded as its programs were done, and those that the operator demanded were not: %.320s", fmt.Sprint(t.all))
	case end == task.EndTTL && a.LivesMS == 0:
		k.bad("end", "it has lived as long as it was to, and the operator set no time")
	case end == task.EndStopFile && !a.Stops:
		k.bad("end", "it was ended as there was a file for that, and the operator has not said that it may be")
	case end == task.EndStopFile && !stopAsked(e):
		k.bad("end", "it was ended as there was a file for that, and no host has said so")
	case e.Asked != nil && (end != task.EndStopFile || !k.askedFor(e)):
		k.bad("asked", "it did not end so, or the host of members[%d] did not sign that it asks for the end", e.Asked.Member)
	case e.Withdrawn && (end.Verdict() == task.Succeeded || e.Epoch == 0 || e.Epoch > a.Retries):
		k.bad("withdrawn", "placement %d was withdrawn, of a job that %.40s and that was to be placed anew %d times at most", e.Epoch, e.Verdict, a.Retries)
	case end.Verdict() == task.Failed && !e.Withdrawn && doneWith(a, t.signed):
		k.bad("verdict", "it failed, and hosts have signed that as many succeeded as the operator demanded")
	}
}

// doneWith reports whether a job is done with so many successes in its groups.
func doneWith(a ledger.Assigned, succeeded map[string]uint64) bool {
	j := task.Assignment{Request: task.Request{JobTerms: task.JobTerms(a.JobTerms)}, Shares: true, Phase: task.Running}
	for _, g := range a.Groups {
		j.Groups = append(j.Groups, task.Group(g))
		j.Members = append(j.Members, task.Member{Group: g.Name, Peers: uint32(min(succeeded[g.Name], task.MaxMembers)), State: task.Exited}) //nolint:gosec // bounded
	}
	return j.Met()
}

// stopAsked reports whether a host has asked for the end of a job: with what has become of its member, or before that.
func stopAsked(e ledger.EndedAssignment) bool {
	return e.Asked != nil || slices.ContainsFunc(e.Members, func(m ledger.Member) bool { return m.Asks == task.AskStop })
}

// askedFor reports whether the host of a member has signed that it asks for the end of its job, as a record says that it has before.
func (k *tasks) askedFor(e ledger.EndedAssignment) bool {
	if uint64(e.Asked.Member) >= uint64(len(e.Members)) || e.Asked.Signature == "" {
		return false
	}
	m := e.Members[e.Asked.Member]
	m.State, m.Code, m.Asks, m.Signature = e.Asked.State, e.Asked.Code, task.AskStop, e.Asked.Signature
	return k.said(e, e.Asked.Member, m)
}
