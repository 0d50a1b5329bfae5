package notices

import (
	"maps"

	"github.com/swarmd/swarmd/consensus/state"
)

// modelChange is what was logged last of a contract whose training went on from another model than the last one that was merged.
type modelChange struct {
	lost    state.LostModel
	adopted state.AdoptedRound
}

// logModelChanges logs each lost model and each adopted round once.
func (n *Notices) logModelChanges(view *state.State) {
	maps.DeleteFunc(n.modelChanges, func(name string, _ modelChange) bool { return view.Contracts[name] == nil })
	for name, c := range view.Contracts {
		logged := n.modelChanges[name]
		change := logged
		if c.Lost != nil {
			change.lost = *c.Lost
		}
		if c.Adopted != nil {
			change.adopted = *c.Adopted
		}
		if change == logged {
			continue
		}
		n.modelChanges[name] = change
		log := n.log.With("contract", name, "run", c.Run)
		if change.lost != logged.lost && change.lost.AtMS >= n.since.UnixMilli() {
			log.Error("a committed model was lost", "why", change.lost.String())
		}
		if change.adopted != logged.adopted && change.adopted.AtMS >= n.since.UnixMilli() {
			log.Warn("training goes on from a model that the SNs did not know", "why", change.adopted.String())
		}
	}
}
