package task

import "github.com/swarmd/swarmd/identity/naming"

// Offer is what a host takes tasks for, as its owner has it registered.
type Offer struct {
	Taskrunner string `json:"taskrunner"` // whose assignments it takes
	Peers      uint32 `json:"peers"`      // how many SLs its profile starts: so many peers it is in a RUN_SWARM task, in others one
	// Group is the group's name in its profile, under which the original shows it; empty: it did not say.
	Group string `json:"group,omitempty"`
}

// Valid reports whether an offer keeps its bounds.
func (o Offer) Valid() bool {
	return naming.ValidContract(o.Taskrunner) && (o.Group == "" || naming.ValidContract(o.Group)) && o.Peers > 0 && o.Peers <= MaxMembers
}

// Counts is for how many peers the host counts in a task of a type.
func (o Offer) Counts(taskType string) uint32 {
	if taskType == RunSwarm {
		return o.Peers
	}
	return 1
}
