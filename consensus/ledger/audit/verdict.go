package audit

import (
	"encoding/base64"
	"fmt"
	"slices"

	"github.com/swarmd/swarmd/consensus/ledger"
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

// ran holds the members of an assignment to the hosts that there are and that the operator named, and its success to what was demanded.
func (k *tasks) ran(e ledger.EndedAssignment, a open) {
	peers, grouped := map[string]uint64{}, false
	for i, m := range e.Members {
		field := func(name string) string { return fmt.Sprintf("members[%d].%s", i, name) }
		switch known := k.members.hosts[hostKey{m.Node, m.PeerID}]; {
		case !known && !k.report.Late:
			k.bad(field("peer_id"), "no host %.63q with node key %.80s has registered", m.Node, m.PeerID)
		case len(a.Hosts) > 0 && !slices.Contains(a.Hosts, m.Node):
			k.bad(field("node"), "the operator asked for hosts %.320q, and not for %.63q", a.Hosts, m.Node)
		}
		grouped = grouped || m.Group != ""
		k.memberSigned(field("signature"), e, uint32(i)) //nolint:gosec // a record has not so many
		if m.Group != "" && m.Peers == 0 || m.Group != "" && !slices.ContainsFunc(a.Groups, func(g ledger.Group) bool { return g.Name == m.Group }) {
			k.bad(field("group"), "the operator asked for no group %.63q, or it counts for nobody", m.Group)
		}
		if m.State == "exited" && m.Code == 0 {
			peers[m.Group] += max(1, uint64(m.Peers))
		}
	}
	switch {
	case grouped:
		k.detailed = earlier(k.detailed, k.seq)
	case len(e.Members) > 0 && k.detailed > 0 && a.record > k.detailed:
		k.bad("members", "their groups are missing, and assignments made after record %d say them", k.detailed)
	}
	if e.Verdict != "succeeded" {
		return
	}
	if len(peers) == 0 {
		k.bad("verdict", "it succeeded, and no host has carried it out")
	}
	for _, g := range a.Groups {
		if grouped && peers[g.Name] < uint64(g.Least) {
			k.bad("verdict", "it succeeded with %d peers of group %.63q, and the operator demanded %d", peers[g.Name], g.Name, g.Least)
		}
	}
}

// memberSigned holds what is said of a member to its host's signature. That it was placed or lost the leader says.
func (k *tasks) memberSigned(field string, e ledger.EndedAssignment, i uint32) {
	m := e.Members[i]
	if m.Signature == "" {
		if m.State != "placed" && m.State != "lost" {
			k.report.UnsignedMembers++
		}
		return
	}
	signature, err := base64.StdEncoding.DecodeString(m.Signature)
	message := identity.MemberMessage(identity.MemberState{
		SwarmID: k.report.SwarmID, Node: m.Node, Assignment: e.Assignment, Epoch: e.Epoch, Member: i, State: m.State, Code: m.Code,
	})
	if err != nil || !k.opts.Unsigned && identity.VerifyNodeSignature(m.PeerID, message, signature) != nil {
		k.bad(field, "host %.63q did not sign that its part in assignment %.20s is %.20q with code %d", m.Node, e.Assignment, m.State, m.Code)
	}
}
