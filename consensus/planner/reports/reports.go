// Package reports keeps what sessions told the leader last.
package reports

import (
	"sync"
	"time"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
)

// Report is everything that one session told the leader last.
type Report struct {
	Session  string
	Contract string
	Run      uint64
	Node     string          // name of the node that reported, proven by its signature
	Number   uint64          // counts up as the node has other things to say
	Ready    *round.Ready    // set while the session waits for a round
	Done     *round.Done     // set after an exchange until it is committed or superseded; without seals
	Failed   *round.Failed   // set after a failed exchange until superseded
	Progress *round.Progress // nil keeps what was reported before; of it only the loss is used, for the adaptive interval
	Held     []round.Model   // committed models of the run that the node can give out
	Trained  *round.Trained  // nil: the node does not tell
	// What whoever records Done has found out. It has checked too that Done is the node's word, and that the node signed what the ledger
	// keeps. Unsealed names an owner that has not signed the digest that Done has of its shard; empty: all have. Signed reports whether a
	// contributor has signed an input of one owner's part, both by their index in the plan; nil: none has.
	Unsealed string
	Signed   func(contributor, owner int, in round.Input) bool
	// Proofs are committed rounds of the run that may be newer than the last one known, each with the reporter's signature alone. Whoever
	// records them has verified it.
	Proofs []ledger.Round
	// Unreached are other nodes to which the reporter can't open a connection.
	Unreached []round.Unreached

	At       time.Time // when it was recorded; set by Record
	FailedAt time.Time // when this Failed was first recorded; set by Record
}

// maxReports bounds the memory of sessions that the state does not know (yet).
const maxReports = 16384

// Store keeps the latest report of each session. It is safe for concurrent use; what it returns shares pointers that
// nobody may write through.
type Store struct {
	mu sync.Mutex
	by map[string]Report
}

// New returns an empty store.
func New() *Store { return &Store{by: map[string]Report{}} }

// Record replaces the session's report by r, received at the given time, unless r is from before it: overtaken, or repeated by who
// passes reports on. It reports whether r counts.
func (rs *Store) Record(r Report, at time.Time) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	old, had := rs.by[r.Session]
	if had && (old.Node != r.Node || r.Number < old.Number) || !had && len(rs.by) >= maxReports {
		return false // The session belongs to who opened it; its first report was checked against the state by the caller.
	}
	r.At = at
	if r.Progress == nil && old.Run == r.Run {
		r.Progress = old.Progress
	}
	if r.Failed != nil {
		r.FailedAt = at
		if old.Failed != nil && old.Run == r.Run && old.Failed.Round == r.Failed.Round && old.Failed.Attempt == r.Failed.Attempt {
			r.FailedAt = old.FailedAt
		}
	}
	rs.by[r.Session] = r
	return true
}

// Of returns the latest reports of the contract's sessions in its current run, by session.
func (rs *Store) Of(c *state.Contract) map[string]Report {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	found := make(map[string]Report, len(c.Sessions))
	for id := range c.Sessions {
		if r, ok := rs.by[id]; ok && r.Contract == c.Name && r.Run == c.Run {
			found[id] = r
		}
	}
	return found
}

// Forget drops the reports of sessions that have ended, and those unknown to the view that are older than before.
func (rs *Store) Forget(view *state.State, before time.Time) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for id, r := range rs.by {
		if r.At.After(before) {
			continue
		}
		c := view.Contracts[r.Contract]
		if c == nil || c.Sessions[id] == nil || c.Sessions[id].State == state.SessionEnded {
			delete(rs.by, id)
		}
	}
}

// Clear drops everything: a new leader begins with what it hears itself.
func (rs *Store) Clear() {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	clear(rs.by)
}
