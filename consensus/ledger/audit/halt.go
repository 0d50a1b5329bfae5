package audit

import (
	"google.golang.org/protobuf/proto"

	"github.com/swarmd/swarmd/consensus/ledger"
)

// Halt is that an operator paused or resumed a contract's training, or ended it.
type Halt struct {
	Record uint64 // number of the record
	AtMS   int64
	Run    uint64
	Does   string // "pause", "resume" or "end", as the record's kind
	By     string // SPIFFE ID of the operator
}

// halting is a request to pause, resume or end.
type halting interface {
	proto.Message
	GetContract() string
	GetRun() uint64
}

// halt holds a record to its order, which all records of these kinds have, and to what came before it.
func (k *contracts) halt(asked halting, h ledger.Halt) {
	contract, run, o := h.Contract, h.Run, h.Order
	c := k.course(contract, run)
	if run != c.shown.Run {
		k.bad("run", "contract %s is in run %d, not %d", contract, c.shown.Run, run)
	}
	if c.shown.Over {
		k.bad("run", "the training of contract %s has ended with round %d", contract, c.shown.LastRound)
	}
	switch paused := c.paused; {
	case k.kind == ledger.Pause{}.Kind() && paused:
		k.bad("kind", "contract %s is paused already", contract)
	case k.kind == ledger.Resume{}.Kind() && !paused && !k.report.Late:
		k.bad("kind", "contract %s is not paused", contract)
	}
	c.paused = k.kind == ledger.Pause{}.Kind()
	if o == nil {
		k.bad("order", "it is missing")
		return
	}
	if !k.orders.asked(o, asked) {
		return
	}
	if asked.GetContract() != contract || asked.GetRun() != 0 && asked.GetRun() != run {
		k.bad("run", "the operator asked for run %d of contract %q; 0 is any", asked.GetRun(), asked.GetContract())
	}
	c.shown.Halts = append(c.shown.Halts, Halt{Record: k.seq, AtMS: k.atMS, Run: run, Does: k.kind, By: o.By})
}
