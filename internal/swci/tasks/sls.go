package tasks

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
)

// SL is a node that a host started for a RUN_SWARM task.
type SL struct {
	Name, UID string
	Status    string // as a peer's: ASSIGNED, RUNNING, COMPLETE or ERROR
	Text      string // what the swarm knows of it

	index uint64 // in the host's profile
}

// SLs are those that a member's host has in an assignment, by their index in its profile; of other tasks there are none. A host names them by
// itself, so that they have the same names in each assignment.
func SLs(a *swarmv1.Assignment, m *swarmv1.AssignmentMember, nodes []*swarmv1.Node) (all []SL) {
	if a.GetTaskType() != runSwarm {
		return nil
	}
	for _, n := range nodes {
		number, ok := strings.CutPrefix(n.GetName(), m.GetNode()+"-sl-")
		if index, err := strconv.ParseUint(number, 10, 32); ok && err == nil && n.GetRole() == "sl" {
			sl := SL{Name: n.GetName(), UID: n.GetPeerId(), index: index}
			sl.Status, sl.Text = stateOfSL(a, m, n)
			all = append(all, sl)
		}
	}
	slices.SortFunc(all, func(x, y SL) int { return cmp.Compare(x.index, y.index) })
	return all
}

func stateOfSL(a *swarmv1.Assignment, m *swarmv1.AssignmentMember, n *swarmv1.Node) (status, text string) {
	switch {
	case n.GetBanned():
		return "ERROR", "it is banned"
	case n.GetLive():
		return "RUNNING", "it takes part in the swarm"
	case n.GetLiveSinceUnixMs() < a.GetCreatedUnixMs():
		if m.GetStatus() == "RUNNING" {
			return "ASSIGNED", "it has not joined the swarm since the task was assigned"
		}
		return m.GetStatus(), "it has not joined the swarm since the task was assigned"
	case n.GetLeftReason() == "":
		return "ERROR", "it is not heard any more"
	case m.GetStatus() == "COMPLETE" || n.GetLeftReason() == "training is over":
		return "COMPLETE", n.GetLeftReason()
	}
	return "ERROR", n.GetLeftReason()
}

// GroupOf is the name of a host's group in its profile; empty: it did not say.
func GroupOf(m *swarmv1.AssignmentMember, nodes []*swarmv1.Node) string {
	i := slices.IndexFunc(nodes, func(n *swarmv1.Node) bool { return n.GetName() == m.GetNode() && n.GetPeerId() == m.GetPeerId() })
	if i < 0 {
		return ""
	}
	return nodes[i].GetOffer().GetGroup()
}
