package audit

import (
	"encoding/base64"
	"fmt"
	"slices"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/identity"
)

// ended holds a verdict to its assignment. Operators cancel, and only the leader judges.
func (k *tasks) ended(e ledger.EndedAssignment) {
	a, there := k.open[e.Assignment]
	delete(k.open, e.Assignment)
	if k.busy[a.Taskrunner]--; k.busy[a.Taskrunner] <= 0 {
		delete(k.busy, a.Taskrunner)
	}
	switch {
	case !there && !k.report.Late:
		k.bad("assignment", "assignment %.20s was not made, or has its verdict", e.Assignment)
	case there && (a.Task != e.Task || a.Digest != e.Digest):
		k.bad("task", "assignment %.20s is of another task", e.Assignment)
	}
	if there {
		k.verdict[e.Assignment] = e.Verdict
		k.ran(e, a)
	}
	switch cancelled := e.Verdict == "cancelled"; {
	case cancelled:
		k.cancelled(e, a.Assigned)
	case e.Order != nil:
		k.bad("order", "operators give no verdict but cancelled")
	case !slices.Contains([]string{"succeeded", "failed"}, e.Verdict):
		k.bad("verdict", "%.40q is none", e.Verdict)
	}
}

// ran holds the members of an assignment to the hosts that there are and that the operator named, and the verdict to what was demanded of them.
func (k *tasks) ran(e ledger.EndedAssignment, a open) {
	if uint64(e.Epoch) > uint64(a.Retries)+1 {
		k.bad("epoch", "it was placed %d times, and the operator asked for %d retries", e.Epoch, a.Retries)
	}
	job := k.isJob(a.Assigned, e)
	t := tally{all: map[string]uint64{}, signed: map[string]uint64{}}
	for i, m := range e.Members {
		field := func(name string) string { return fmt.Sprintf("members[%d].%s", i, name) }
		switch known := k.members.hosts[hostKey{m.Node, m.PeerID}]; {
		case !known && !k.report.Late:
			k.bad(field("peer_id"), "no host %.63q with node key %.80s has registered", m.Node, m.PeerID)
		case len(a.Hosts) > 0 && !slices.Contains(a.Hosts, m.Node):
			k.bad(field("node"), "the operator asked for hosts %.320q, and not for %.63q", a.Hosts, m.Node)
		}
		if !task.State(m.State).Known() {
			k.bad(field("state"), "%.40q is none", m.State)
		}
		if m.Group != "" && m.Peers == 0 || m.Group != "" && !slices.ContainsFunc(a.Groups, func(g ledger.Group) bool { return g.Name == m.Group }) {
			k.bad(field("group"), "the operator asked for no group %.63q, or it counts for nobody", m.Group)
		}
		if m.Asks != "" && (!job || !a.Stops || m.Asks != task.AskStop && m.Asks != task.AskFail || m.Signature == "") {
			k.bad(field("asks"), "%.40q is asked of no job that can be stopped so, or nobody has signed it", m.Asks)
		}
		if first, is := twice(e, i, job); is {
			k.bad(field("node"), "host %.63q is members[%d] too", m.Node, first)
		}
		t.add(m, k.memberSigned(field("signature"), e, uint32(i), a.again)) //nolint:gosec // a record has not so many
	}
	switch {
	case t.grouped && t.bare:
		k.bad("members", "some say in which group they were, and some do not")
	case t.grouped:
		k.detailed = earlier(k.detailed, k.seq)
	case t.bare && k.detailed > 0 && a.record > k.detailed:
		k.bad("members", "their groups are missing, and assignments made after record %d say them", k.detailed)
	}
	switch {
	case job:
		k.jobEnded(e, a.Assigned, &t)
		if a.again && e.Asked != nil { // what a host has signed may be of the one before
			k.report.UnsignedMembers++
		}
	case e.Withdrawn:
		k.bad("withdrawn", "placements of jobs alone are recorded to be withdrawn, and task %.160q is none", e.Task)
	case e.Asked != nil:
		k.bad("asked", "the end of jobs alone is asked for, and task %.160q is none", e.Task)
	case e.End != "":
		k.bad("end", "%.40q is one of a job, and task %.160q is none", e.End, e.Task)
	case e.Verdict == "succeeded":
		k.succeeded(&t, a.Assigned)
	case e.Verdict == "failed":
		k.failed(&t, a.Assigned)
	}
}

// tally counts who has succeeded of the members of an assignment: peers by group, or under no name hosts, of records which do not say more.
type tally struct {
	all, signed   map[string]uint64 // the latter are those whose hosts say so themselves
	grouped, bare bool              // members say in which group they were, or do not
}

func (t *tally) add(m ledger.Member, signed bool) {
	t.grouped, t.bare = t.grouped || m.Group != "", t.bare || m.Group == ""
	if m.State != "exited" || m.Code != 0 {
		return
	}
	peers := max(1, uint64(m.Peers))
	if m.Group == "" {
		peers = 1
	}
	t.all[m.Group] += peers
	if signed {
		t.signed[m.Group] += peers
	}
}

// succeeded holds a success to what was demanded of each group. Of records which say no groups of members it is known that a host is in one group and,
// unless it starts SLs, counts for one peer.
func (k *tasks) succeeded(t *tally, a ledger.Assigned) {
	if len(t.all) == 0 {
		k.bad("verdict", "it succeeded, and no host has carried it out")
		return
	}
	groups, peers := uint64(0), uint64(0)
	for _, g := range a.Groups {
		if t.grouped && t.all[g.Name] < uint64(g.Least) {
			k.bad("verdict", "it succeeded with %d peers of group %.63q, and the operator demanded %d", t.all[g.Name], g.Name, g.Least)
		}
		peers += uint64(g.Least)
		if g.Least > 0 {
			groups++
		}
	}
	hosts := groups
	if kind := k.types[a.Task]; kind != "" && kind != task.RunSwarm {
		hosts = peers
	}
	if !t.grouped && t.all[""] < hosts {
		k.bad("verdict", "it succeeded with %d hosts, and the operator demanded %d peers: that takes %d hosts at least", t.all[""], peers, hosts)
	}
}

// failed reports a failure though as many hosts as the operator demanded have signed that they succeeded. What joins another assignment fails with it.
func (k *tasks) failed(t *tally, a ledger.Assigned) {
	if _, goesOn := k.open[a.Joins]; a.Joins != "" && !goesOn && k.verdict[a.Joins] != "succeeded" {
		return
	}
	if len(a.Groups) == 0 || !t.grouped && len(a.Groups) > 1 {
		return // it is not known whom it needs, or in which group its members were
	}
	for _, g := range a.Groups {
		name := g.Name
		if !t.grouped {
			name = ""
		}
		if t.signed[name] < uint64(g.Least) {
			return
		}
	}
	k.bad("verdict", "it failed, and of each group hosts have signed that as many succeeded as the operator demanded")
}

// memberSigned holds what is said of a member to its host's signature, and reports whether it has one. That it was placed or lost the leader says. A
// signature of an assignment whose ID was another's before may be about that one: it counts for none.
func (k *tasks) memberSigned(field string, e ledger.EndedAssignment, i uint32, again bool) bool {
	m := e.Members[i]
	if m.Signature == "" {
		if m.State != "placed" && m.State != "lost" {
			k.report.UnsignedMembers++
		}
		return false
	}
	grouped := k.said(e, i, m)
	bare := m
	bare.Group, bare.Peers = "", 0 // as hosts of before signed it
	switch {
	case !grouped && !k.said(e, i, bare):
		k.bad(field, "host %.63q did not sign that its part in assignment %.20s is %.20q with code %d, in group %.63q for %d peers", m.Node, e.Assignment, m.State, m.Code, m.Group, m.Peers)
		return false
	case again:
		k.report.UnsignedMembers++
		return false
	case !grouped:
		k.report.UngroupedMembers++
	}
	return true
}

// said reports whether the host of a member has signed what is said of it.
func (k *tasks) said(e ledger.EndedAssignment, i uint32, m ledger.Member) bool {
	signature, err := base64.StdEncoding.DecodeString(m.Signature)
	said := identity.MemberState{
		SwarmID: k.report.SwarmID, Node: m.Node, Assignment: e.Assignment, Epoch: e.Epoch, Member: i, State: m.State, Code: m.Code, Group: m.Group, Peers: m.Peers, Asks: m.Asks,
	}
	return err == nil && (k.opts.Unsigned || identity.VerifyNodeSignature(m.PeerID, identity.MemberMessage(said), signature) == nil)
}
