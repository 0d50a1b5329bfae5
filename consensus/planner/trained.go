package planner

import (
	"maps"
	"slices"

	"github.com/swarmd/swarmd/consensus/planner/reports"
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

// take adds what the run's sessions have reported last, and returns what is found to be wrong that was not known.
func (t *trainings) take(c *state.Contract, reports map[string]reports.Report) (found []warning.Warning) {
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
	if t.of = c; !news {
		return nil
	}
	maps.DeleteFunc(t.by, func(id string, _ round.Trained) bool { return c.Sessions[id] == nil })
	known := len(t.warnings)
	t.warnings = warning.Add(t.warnings, warning.Find(warning.Facts{Contract: c, Trained: t.by}))
	return t.warnings[known:]
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
func (l *Planner) toldOf(c *state.Contract, reports map[string]reports.Report) []warning.Warning {
	known := l.contracts[c.Name]
	if known == nil || known.run != c.Run {
		return nil // the next decision is soon
	}
	l.warn(c, known.told.take(c, reports))
	return slices.Clone(known.told.warnings)
}

// warn logs what was found.
func (l *Planner) warn(c *state.Contract, found []warning.Warning) {
	for _, w := range found {
		if w.Advice {
			l.log.Info("training could be better", "contract", c.Name, "reason", w.Reason, "advice", w.Text)
			continue
		}
		l.log.Warn("training may be in vain", "contract", c.Name, "reason", w.Reason, "warning", w.Text)
	}
}
