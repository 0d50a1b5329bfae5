package planner

import (
	"time"

	"github.com/swarmd/swarmd/consensus/planner/reports"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
)

// Inputs are everything that a decision depends on. Decide changes nothing in them.
type Inputs struct {
	Now      time.Time
	View     *state.State
	Contract string
	Reports  map[string]reports.Report // by session, of the contract's current run
	Memory   Memory                    // what the last Decision for this contract returned
	Config   Config
	Recent   []state.CommittedRound // of the contract's current run, as far as the leader remembers
	Recorded map[uint64]round.Model // by round: the run's models as the ledger has them; nil: not looked up, or not known
	Brief    bool                   // the Decision's Waiting has no Snapshot; nothing else depends on it
}

// Decision is what to do for one contract now.
type Decision struct {
	Command state.Command // to propose; nil: nothing
	Waiting Waiting       // why not more; always set
	Memory  Memory        // for the next call, whether the proposal succeeds or not
}

// Decide looks at one contract and says what to propose, at most one command, and what is waited for.
//
// While an operator has paused the contract nothing is planned, and no wait counts. An attempt that runs goes on to its end, and is not
// tried again.
//
// When all who are ready have weight 0 there is nothing to merge: a due final round then ends the contract with the last
// model, the first round fails when nobody else could come, any other waits, with that as its reason.
func Decide(in Inputs) Decision {
	c := in.View.Contracts[in.Contract]
	if c == nil {
		return Decision{}
	}
	mem := in.Memory.of(c)
	f := newFacts(in, c)
	l := &lineup{facts: f, out: &mem.out}
	a := &answer{facts: f, said: &mem.said, observer: &observer{facts: f, lineup: l, out: &mem.out}}
	o := &opening{facts: f, lineup: l, answer: a, times: &mem.times, tries: &mem.tries, out: &mem.out}
	ad := &adoption{facts: f, answer: a, times: &mem.adoption}
	rc := &recovery{facts: f, answer: a, times: &mem.recovery}
	switch {
	case c.Over:
		a.wait(Waiting{Kind: WaitCompleted, Round: c.Round()})
	case c.Halt.Pauses() && c.Plan == nil:
		mem.paused()
		a.paused()
	case ad.ahead():
	case c.Plan != nil:
		at := &attempt{
			facts: f, lineup: l, answer: a, opening: o, tries: &mem.tries, out: &mem.out,
			blame:      &blame{facts: f, lineup: l, tries: &mem.tries, out: &mem.out},
			comparison: &comparison{facts: f, tries: &mem.tries},
			interval:   &interval{facts: f, loss: &mem.loss},
		}
		at.advance()
	case c.Terms == nil:
		o.enrolling()
	case rc.modelLost():
	default:
		o.plan()
	}
	a.decision.Memory = mem
	return a.decision
}
