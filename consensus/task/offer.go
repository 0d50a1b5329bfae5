package task

import (
	"strings"

	"github.com/swarmd/swarmd/identity/naming"
)

// Offer is what a host takes tasks for, as its owner has it registered, and what the host has. The latter is shown, and decides nothing yet.
type Offer struct {
	Taskrunner string `json:"taskrunner"` // whose assignments it takes
	Peers      uint32 `json:"peers"`      // how many SLs its profile starts: so many peers it is in a RUN_SWARM task, in others one
	// Group is the group's name in its profile, under which the original shows it; empty: it did not say.
	Group string `json:"group,omitempty"`

	// Jobs is how it runs members of jobs, JobsAsProcesses or JobsInContainers; empty: it takes none, as hosts of before.
	Jobs string `json:"jobs,omitempty"`

	CPUs        uint32   `json:"cpus,omitempty"`         // 0: not known
	MemoryBytes uint64   `json:"memory_bytes,omitempty"` // 0: not known
	GPUs        uint32   `json:"gpus,omitempty"`
	DiskBytes   uint64   `json:"disk_bytes,omitempty"` // free for members of jobs when it was registered; 0: not known
	Labels      []string `json:"labels,omitempty"`     // K=V, sorted, each K once
}

// How hosts run members of jobs.
const (
	JobsAsProcesses  = "process"
	JobsInContainers = "docker"
)

// Bounds of an offer.
const (
	maxCPUs        = 1 << 16
	maxGPUs        = 1 << 10
	maxMemoryBytes = 1 << 50
	// MaxLabels is how many labels a host has.
	MaxLabels     = 32
	maxLabel      = 128     // bytes of one
	maxLabelBytes = 2 << 10 // of all together
)

// Valid reports whether an offer keeps its bounds.
func (o Offer) Valid() bool {
	if !naming.ValidContract(o.Taskrunner) || o.Group != "" && !naming.ValidContract(o.Group) || o.Peers == 0 || o.Peers > MaxMembers || o.CPUs > maxCPUs || o.GPUs > maxGPUs || max(o.MemoryBytes, o.DiskBytes) > maxMemoryBytes || len(o.Labels) > MaxLabels {
		return false
	}
	if o.Jobs != "" && o.Jobs != JobsAsProcesses && o.Jobs != JobsInContainers {
		return false
	}
	last, bytes := "", 0
	for _, l := range o.Labels {
		k, _, _ := strings.Cut(l, "=")
		if !ValidLabel(l) || k <= last {
			return false
		}
		last, bytes = k, bytes+len(l)
	}
	return bytes <= maxLabelBytes
}

// ValidLabel reports whether s is K=V, of letters, digits and what names have between them.
func ValidLabel(s string) bool {
	k, v, ok := strings.Cut(s, "=")
	if !ok || k == "" || v == "" || len(s) > maxLabel {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !naming.Alphanumeric(c) && !strings.ContainsRune("._/:-", rune(c)) && i != len(k) {
			return false
		}
	}
	return true
}

// Counts is for how many peers the host counts in a task of a type.
func (o Offer) Counts(taskType string) uint32 {
	if taskType == RunSwarm {
		return o.Peers
	}
	return 1
}
