package exchange

import (
	"fmt"
	"slices"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange/leafset"
)

// mergers returns who merges each participant's shard, the owner first; nil for one that owns nothing.
func (a Attempt) mergers() [][]int {
	units, owns := make([]string, len(a.Participants)), make([]bool, len(a.Participants))
	for i, p := range a.Participants {
		units[i], owns[i] = p.Unit, p.Shard.Leaves > 0
	}
	return merge.Mergers(units, owns, a.Witnesses)
}

// checkWitnesses holds that every shard has as many mergers as the plan says.
func (a Attempt) checkWitnesses() error {
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
func (a Attempt) mostWitnessed() int {
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
