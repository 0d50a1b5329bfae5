package planner

import (
	"slices"

	"github.com/swarmd/swarmd/consensus/planner/warning"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
)

// trainings is what the leader knows of what a run's programs have trained. Reports repeat it as long as a session lives, so a new leader
// knows all of it but what is of sessions that have ended.
type trainings struct {
	by       map[string]round.Trained // by session
	of       *state.Contract          // as it was when it was looked at last
	warnings []warning.Warning
}

// take adds what the run's sessions have reported last, and finds what is wrong.
func (t *trainings) take(c *state.Contract, reports map[string]Report) {
	news := t.of != c
	for id, r := range reports {
		if r.Trained == nil || t.by[id] == *r.Trained {
			continue
		}
		if t.by == nil {
			t.by = map[string]round.Trained{}
		}
		t.by[id], news = *r.Trained, true
	}
	if t.of = c; news {
		t.warnings = warning.Add(t.warnings, warning.Find(warning.Facts{Contract: c, Trained: t.by}))
	}
}

// Warnings returns what is probably wrong with the current run of a contract's training, as far as this node knows, if it leads.
func (l *Planner) Warnings(name string) []warning.Warning {
	c := l.raft.View().Contracts[name]
	l.mu.Lock()
	defer l.mu.Unlock()
	if c == nil || !l.leading {
		return nil
	}
	return l.toldOf(c, l.reports.Of(c))
}

// toldOf takes what was reported since the last decision too. The caller holds mu.
func (l *Planner) toldOf(c *state.Contract, reports map[string]Report) []warning.Warning {
	known := l.contracts[c.Name]
	if known == nil || known.run != c.Run {
		return nil // the next decision is soon
	}
	known.told.take(c, reports)
	return slices.Clone(known.told.warnings)
}
