package audit

import (
	"slices"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
)

// Deletion is the end of a contract.
type Deletion struct {
	Record uint64 // number of the record
	AtMS   int64
	Run    uint64 // its last
	By     string // SPIFFE ID of the operator; empty: it went by itself
}

// RulesAt returns the rules that the contract was given before a record, in order, without those of one of its name that was deleted
// before.
func (c *Contract) RulesAt(record uint64) []RuleSet {
	var out []RuleSet
	for _, r := range c.Rules {
		gone := slices.ContainsFunc(c.Deletions, func(d Deletion) bool { return r.Record < d.Record && d.Record < record })
		if r.Record < record && !gone {
			out = append(out, r)
		}
	}
	return out
}

// begin makes a contract that is new, or was deleted, be in its first run. When it was made is on no record: its run follows on one of
// what had been deleted since its name was free. A copy that begins late does not show what had been deleted before.
func (k *contracts) begin(c *course, run uint64) {
	from := k.floors[c.floor:]
	_, fits := slices.BinarySearch(from, run-1)
	if !fits && !(k.report.Late && run > c.shown.Run) {
		run = from[len(from)-1] + 1
	}
	c.shown.Deleted, c.records, c.paused = false, 0, false
	c.goTo(run)
}

// goTo begins another run.
func (c *course) goTo(run uint64) {
	c.shown.Run, c.shown.LastRound, c.shown.Model, c.shown.Over = run, 0, "", false
	c.models, c.runShares, c.programs = map[uint64]string{}, map[string]*Share{}, map[string]string{}
}

func (k *contracts) deleted(d ledger.Deleted) {
	c := k.course(d.Contract, d.Run)
	if d.Run != c.shown.Run {
		k.bad("run", "contract %s is in run %d, not %d", d.Contract, c.shown.Run, d.Run)
	}
	by := ""
	switch asked := (&swarmv1.DeleteContractRequest{}); {
	case d.Expired && d.Order != nil:
		k.bad("order", "nobody orders what goes by itself")
	case d.Expired && c.records > 1:
		k.bad("expired", "contract %s was used, or made by an operator, and does not go by itself", d.Contract)
	case d.Expired:
	case d.Order == nil:
		k.bad("order", "it is missing")
	case k.orders.asked(d.Order, asked):
		by = d.Order.By
		if asked.GetContract() != d.Contract || asked.GetRun() != 0 && asked.GetRun() != d.Run {
			k.bad("run", "the operator asked to delete run %d of contract %q; 0 is any", asked.GetRun(), asked.GetContract())
		}
	}
	if d.Run > k.floors[len(k.floors)-1] {
		k.floors = append(k.floors, d.Run)
	}
	c.floor, c.shown.Deleted = len(k.floors)-1, true
	c.shown.Deletions = append(c.shown.Deletions, Deletion{Record: k.seq, AtMS: k.atMS, Run: d.Run, By: by})
}
