package exchange

import (
	"fmt"
	"slices"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange/leafset"
)

// mergers returns who merges each participant's shard, the owner first; nil for one that owns nothing.
func (a *Attempt) mergers() [][]int {
	units, owns := make([]string, len(a.Participants)), make([]bool, len(a.Participants))
	for i, p := range a.Participants {
		units[i], owns[i] = p.Unit, p.Shard.Leaves > 0
	}
	return merge.Mergers(units, owns, a.Witnesses)
}

// checkWitnesses holds that every shard has as many mergers as the plan says.
func (a *Attempt) checkWitnesses() error {
	if a.Witnesses < 0 || a.Witnesses > MaxMergers {
		return fmt.Errorf("%d nodes are to merge each shard, at most %d can", a.Witnesses, MaxMergers)
	}
	if a.Witnesses <= 1 {
		return nil
	}
	for owner, mergers := range a.mergers() {
		if mergers != nil && a.Participants[owner].Unit == "" {
			return fmt.Errorf("participant %d owns leaves and has no unit", owner)
		}
		if mergers != nil && len(mergers) < a.Witnesses {
			return fmt.Errorf("%d nodes are to merge each shard, and only %d can merge that of participant %d", a.Witnesses, len(mergers), owner)
		}
	}
	return nil
}

// mostWitnessed returns how many shards one participant merges as a witness at most.
func (a *Attempt) mostWitnessed() int {
	most, shards := 0, make([]int, len(a.Participants))
	for _, mergers := range a.mergers() {
		for k, i := range mergers {
			if k > 0 {
				shards[i]++
				most = max(most, shards[i])
			}
		}
	}
	return most
}

// duties is who merges what: computed alike by all participants.
type duties struct {
	tasks  []leafset.Runs // by participant: the leaves that it merges, as owner and as witness; contributors send it these
	shards [][]int        // by participant: the owners whose shards these are, ascending
	owners []int32        // by leaf: its owner; nil without witnesses
}

func (a *Attempt) duties(owned []leafset.Runs) duties {
	d := duties{tasks: owned, shards: make([][]int, len(owned))}
	for owner, mergers := range a.mergers() {
		for _, i := range mergers {
			d.shards[i] = append(d.shards[i], owner)
		}
	}
	if a.Witnesses <= 1 {
		return d
	}
	d.tasks, d.owners = make([]leafset.Runs, len(owned)), make([]int32, a.Layout.Leaves())
	for i, shards := range d.shards {
		d.tasks[i] = union(owned, shards)
		for _, leaf := range owned[i].All() {
			d.owners[leaf] = int32(i) //nolint:gosec // an index of at most MaxParticipants
		}
	}
	return d
}

// union joins the shards of some owners; runs that follow on one another become one.
func union(owned []leafset.Runs, owners []int) leafset.Runs {
	var all leafset.Runs
	for _, j := range owners {
		all = append(all, owned[j]...)
	}
	slices.SortFunc(all, func(a, b merge.Shard) int { return a.First - b.First })
	joined := leafset.Runs{{}}
	for _, s := range all {
		if last := &joined[len(joined)-1]; last.Leaves == 0 {
			*last = s
		} else if last.End() == s.First {
			last.Leaves += s.Leaves
		} else {
			joined = append(joined, s)
		}
	}
	return joined
}

// task returns what this node merges: its own shard, and those that it witnesses.
func (r *run) task() leafset.Runs { return r.tasks[r.Self] }

// witnessed tells whether shards have witnesses in this attempt.
func (r *run) witnessed() bool { return r.owners != nil }

// ownerOf returns whose a leaf of the task is.
func (r *run) ownerOf(leaf int) int {
	if r.owners == nil {
		return r.Self
	}
	return int(r.owners[leaf])
}

// mine tells whether a leaf of the task is of the own shard.
func (r *run) mine(leaf int) bool { return r.ownerOf(leaf) == r.Self }

// mergeLeaf has a leaf of the task merged and returns the digest of what its owner stores. Of one that it witnesses this node
// keeps nothing else: it is given the leaf by the owner, as everybody is.
func (r *run) mergeLeaf(leaf int, spare []byte, merged func(dst []byte) error) (merge.Digest, error) {
	if r.mine(leaf) {
		return r.put(leaf, spare, merged)
	}
	b := spare[:r.Layout.LeafLen(leaf)]
	if err := merged(b); err != nil {
		return merge.Digest{}, err
	}
	if err := r.travel(leaf, b, nil); err != nil {
		return merge.Digest{}, err
	}
	if r.stepping() {
		if err := r.take(leaf, b, nil); err != nil {
			return merge.Digest{}, err
		}
	}
	return merge.Sum(b), nil
}
