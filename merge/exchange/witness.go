package exchange

import (
	"fmt"

	"github.com/swarmd/swarmd/merge"
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
