package exchange

import (
	"slices"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange/leafset"
)

// assignment is an attempt and what follows from it: who contributes, and who merges what. It is computed alike by all participants
// and does not change.
type assignment struct {
	Attempt
	digest       merge.Digest // of what all attempts with these participants have in common
	method       *merge.Method
	contributors []int          // contributors by plan index: participants of weight above 0
	weights      []uint32       // theirs
	owned        []leafset.Runs // by participant
	tasks        []leafset.Runs // by participant: the leaves that it merges, as owner and as witness; contributors send it these
	shards       [][]int        // by participant: the owners whose shards these are, ascending
	owners       []int32        // by leaf: its owner; nil without witnesses
}

// newAssignment checks the attempt and works out what its method asks.
func newAssignment(a Attempt) (*assignment, error) {
	method, err := a.check()
	if err != nil {
		return nil, err
	}
	x := &assignment{Attempt: a, digest: a.planDigest(), method: method}
	for i, p := range a.Participants {
		x.owned = append(x.owned, p.runs())
		if p.Weight > 0 {
			x.contributors = append(x.contributors, i)
			x.weights = append(x.weights, p.Weight)
		}
	}
	x.tasks, x.shards = x.owned, make([][]int, len(x.owned))
	for owner, mergers := range a.mergers() {
		for _, i := range mergers {
			x.shards[i] = append(x.shards[i], owner)
		}
	}
	if a.Witnesses <= 1 {
		return x, nil
	}
	x.tasks, x.owners = make([]leafset.Runs, len(x.owned)), make([]int32, a.Layout.Leaves())
	for i, shards := range x.shards {
		x.tasks[i] = union(x.owned, shards)
		for _, leaf := range x.owned[i].All() {
			x.owners[leaf] = int32(i) //nolint:gosec // an index of at most MaxParticipants
		}
	}
	return x, nil
}

// localRuns returns what this node owns.
func (a assignment) localRuns() leafset.Runs { return a.owned[a.Self] }

// task returns what this node merges: its own shard, and those that it witnesses.
func (a assignment) task() leafset.Runs { return a.tasks[a.Self] }

// witnessed reports whether shards have witnesses in this attempt.
func (a assignment) witnessed() bool { return a.owners != nil }

// ownerOf returns whose a leaf of the task is.
func (a assignment) ownerOf(leaf int) int {
	if a.owners == nil {
		return a.Self
	}
	return int(a.owners[leaf])
}

// isLocal reports whether a leaf of the task is of the own shard.
func (a assignment) isLocal(leaf int) bool { return a.ownerOf(leaf) == a.Self }

// others returns the contributors but this node.
func (a assignment) others() []int {
	return slices.DeleteFunc(slices.Clone(a.contributors), func(i int) bool { return i == a.Self })
}

// node returns the name of a participant's node.
func (a assignment) node(i int) string { return a.Participants[i].Node }

// stepping reports whether leaves are stepped by an optimiser before they are stored.
func (a assignment) stepping() bool { return a.method.StateBytes(a.Layout) > 0 }

// merger returns one for the contributors; distances are nil if the method needs none.
func (a assignment) merger(distances []float64) (*merge.Merger, error) {
	in := merge.Contributors{Weights: a.weights, Distances: distances}
	if a.method.BoundsNorms() {
		for _, i := range a.contributors {
			in.Factors = append(in.Factors, a.Participants[i].Factor)
		}
	}
	return a.method.NewMerger(a.Layout, in)
}
