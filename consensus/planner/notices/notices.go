// Package notices logs what each organisation's own log is to have of a swarm's trainings, whichever SN leads.
package notices

import (
	"log/slog"
	"time"

	"github.com/swarmd/swarmd/consensus/state"
)

// Notices finds in one state after the other what is new and to be logged. It is for one goroutine.
type Notices struct {
	log          *slog.Logger
	since        time.Time
	isolation    map[string]loggedIsolation // by contract
	modelChanges map[string]modelChange     // what was logged of them, by contract
}

// New returns a Notices that has logged nothing. Changes of models from before since, when this SN was started, were logged by the run
// before.
func New(log *slog.Logger, since time.Time) *Notices {
	return &Notices{log: log, since: since, isolation: map[string]loggedIsolation{}, modelChanges: map[string]modelChange{}}
}

// Log logs once each session that its SL let the program out, each lost model and each adopted round.
func (n *Notices) Log(view *state.State) {
	n.logIsolation(view)
	n.logModelChanges(view)
}
