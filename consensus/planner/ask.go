package planner

import (
	"time"

	"github.com/swarmd/swarmd/consensus/planner/reports"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
)

// asked is a question to all participants of an attempt: what they hold is not the same, and so each is to say what it got of every
// owner, with the owner's seal on it.
type asked struct {
	attempt uint64            // 0: nothing was asked
	said    map[string]string // by session, what it had signed until then
	since   time.Time         // since when half have answered
}

// of reports whether the participants of a plan are asked.
func (a asked) of(p *state.Plan) bool { return a.attempt == p.Attempt }

// outcome is what a participant signs that it holds.
func outcome(d *round.Done) string { return d.ModelDigest + " " + d.StateDigest + " " + d.ShardsDigest }

// ask reports whether the leader must hear more than what all participants have said, and asks for it then. The question stands until the
// attempt is decided. Another leader finds the same reports, and asks again.
func (at *attempt) ask(done map[string]reports.Report) bool {
	p := at.facts.c.Plan
	said, whole, same := map[string]string{}, true, true
	for _, part := range p.Participants {
		r := done[part.Session].Done
		said[part.Session] = outcome(r)
		whole = whole && len(r.ShardDigests) > 0
		same = same && said[part.Session] == said[p.Participants[0].Session]
	}
	if whole || same {
		return false
	}
	if at.tries.asked.attempt != p.Attempt {
		at.tries.asked = asked{attempt: p.Attempt, said: said}
		at.tries.epoch = p.Epoch + 1 // Nothing of it is resumed: some hold what others do not.
	}
	return true
}

// answered returns those who have said all, and the names of those who have not.
func (at *attempt) answered(done map[string]reports.Report) (whole map[string]reports.Report, pending []string) {
	whole = map[string]reports.Report{}
	for _, part := range at.facts.c.Plan.Participants {
		switch r, ok := done[part.Session]; {
		case !ok: // it has failed
		case len(r.Done.ShardDigests) > 0:
			whole[part.Session] = r
		default:
			pending = append(pending, part.Node)
		}
	}
	return whole, pending
}

// retracts reports whether a participant has signed another outcome of the running attempt before it was asked. No honest node ends an
// attempt twice.
func (co *comparison) retracts(session string, now *round.Done) bool {
	said := co.tries.asked.said[session]
	return co.tries.asked.of(co.facts.c.Plan) && said != "" && said != outcome(now)
}

// Asks reports whether sessions that are done with an attempt are to say all of it.
func (l *Planner) Asks(name string, run, round, attempt uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.contracts[name]
	return c != nil && c.memory.run == run && c.memory.round == round && c.memory.tries.asked.attempt == attempt && attempt > 0
}
