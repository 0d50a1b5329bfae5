package swop

import (
	"fmt"
	"time"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/policy"
)

// earlierOn returns what finds the assignments of which this host has members and which it received before one, by its own clock. So of two that came
// at a time one counts the other, and none that runs is judged by what came later.
func earlierOn(view *View, received func(assignment string) time.Time) func(h *task.Hosted) []task.Hosted {
	return func(h *task.Hosted) (earlier []task.Hosted) {
		all, _ := view.Hosted()
		own := received(h.ID)
		for _, other := range all {
			at := received(other.ID)
			if other.ID == h.ID || at.IsZero() || len(other.Members) == 0 {
				continue
			}
			if own.IsZero() || at.Before(own) || at.Equal(own) && other.ID < h.ID {
				earlier = append(earlier, other)
			}
		}
		return earlier
	}
}

// beside adds to a request what members of other jobs take of this host. Where one of them does not say that, an SN that keeps to the rules has none
// beside it.
func (o Owner) beside(r *policy.Request, h *task.Hosted) error {
	if o.Earlier == nil {
		return nil
	}
	limits := o.Policy.Terms().Limits
	for _, other := range o.Earlier(h) {
		if !modest(h) || !modest(&other) {
			return fmt.Errorf("this host has members of assignment %s, and one of the two does not say what it takes of its host, or is no job: assign it again when that is over", other.ID)
		}
		if kind := unsaid(h, limits); kind != "" {
			return fmt.Errorf("it does not say how much %s its members take, which this host's policy limits, and this host has members of assignment %s: say %[1]s under resources, or assign it again when that is over", kind, other.ID)
		}
		if kind := unsaid(&other, limits); kind != "" {
			return fmt.Errorf("this host has members of assignment %s, which does not say how much %s they take: they may take all that this host gives: assign it again when that is over", other.ID, kind)
		}
		take(r, &other)
	}
	return nil
}

// unsaid is what a host limits and members of a job on it do not say: such members are held to their part of the whole limit, so that nothing of it is
// left for others; empty: they say all.
func unsaid(h *task.Hosted, limits policy.Limits) string {
	for _, m := range h.Members {
		switch n := needsOf(h, m.Group); {
		case limits.CPUs > 0 && n.MilliCPU == 0:
			return "cpu"
		case limits.Memory > 0 && n.Memory == 0:
			return "memory"
		}
	}
	return ""
}

// modest reports whether a job says what its members take of their hosts.
func modest(h *task.Hosted) bool {
	return task.Modest(&task.Assignment{Request: h.Request, Shares: true})
}

// take adds what a job's members take of this host.
func take(r *policy.Request, h *task.Hosted) {
	for _, m := range h.Members {
		n := needsOf(h, m.Group)
		r.CPUs += float64(n.MilliCPU) / 1000
		r.Memory += int64(n.Memory) //nolint:gosec // bounded by the request
		r.GPUs += int(n.GPUs)
		r.Disk += int64(n.Disk) //nolint:gosec // likewise
	}
}

func needsOf(h *task.Hosted, group string) ledger.Needs {
	for _, g := range h.Groups {
		if g.Name == group {
			return g.Needs
		}
	}
	return ledger.Needs{}
}
