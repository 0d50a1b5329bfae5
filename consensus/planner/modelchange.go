package planner

import (
	"maps"
	"time"

	"github.com/swarmd/swarmd/consensus/state"
)

// modelChange is what was logged last of a contract whose training went on from another model than the last one that was merged.
type modelChange struct {
	lost    state.LostModel
	adopted state.AdoptedRound
}

// logModelChanges logs each lost model and each adopted round once, on every SN. Those from before since, when this SN was started, were
// logged by the run before. Only Run calls it.
func (l *Planner) logModelChanges(view *state.State, since time.Time) {
	maps.DeleteFunc(l.modelChanges, func(name string, _ modelChange) bool { return view.Contracts[name] == nil })
	for name, c := range view.Contracts {
		logged := l.modelChanges[name]
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
		l.modelChanges[name] = change
		log := l.log.With("contract", name, "run", c.Run)
		if change.lost != logged.lost && change.lost.AtMS >= since.UnixMilli() {
			log.Error("a committed model was lost", "why", change.lost.String())
		}
		if change.adopted != logged.adopted && change.adopted.AtMS >= since.UnixMilli() {
			log.Warn("training goes on from a model that the SNs did not know", "why", change.adopted.String())
		}
	}
}
