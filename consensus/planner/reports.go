package planner

import (
	"sync"
	"time"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
)

// Report is everything that one session told the leader last.
type Report struct {
	Session  string
	Contract string
	Run      uint64
	Node     string    // name of the node that reported, proven by its signature
	Number   uint64    // counts up as the node has other things to say
	Ready    *Ready    // set while the session waits for a round
	Done     *Done     // set after an exchange until it is committed or superseded
	Failed   *Failed   // set after a failed exchange until superseded
	Progress *Progress // nil keeps what was reported before
	Held     []Held    // committed models of the run that the node can give out
	// Proofs are committed rounds of the run that may be newer than the last one known, each with the reporter's signature alone. Whoever
	// records them has verified it.
	Proofs []ledger.Round

	At       time.Time // when it was recorded; set by Record
	FailedAt time.Time // when this Failed was first recorded; set by Record
}

// Held is one committed model at a node.
type Held struct {
	Round       uint64
	Digest      string // hex
	StateDigest string // hex; empty if the method has no optimiser state
}

// Ready says that a session's weights are ready to be merged.
type Ready struct {
	Seq        uint64 // the program's Sync number
	BaseRound  uint64 // the round that training started from; 0: none
	BaseDigest string // hex; empty for none
	Weight     uint32
	UpdateNorm float64  // of the offered model minus the base, for methods that bound it
	Refuses    []string // names of nodes that this one takes part in nothing with
}

// Done says that a session holds the merged model of an attempt. Whoever records it has checked that it is the node's word, and that the
// node signed what the ledger keeps.
type Done struct {
	Round, Attempt uint64
	ModelDigest    string   // hex BLAKE3
	ShardsDigest   string   // hex BLAKE3 over the digests of all shards
	ShardDigests   []string // of each participant's shard, in plan order; empty as long as they were not asked for
	Signature      []byte   // by the node key, over what the ledger keeps
	StateDigest    string   // hex BLAKE3 of the optimiser state; empty if the method has none
	// Unsealed names an owner that has not signed the digest that ShardDigests has of its shard; empty: all have. Whoever records it has
	// found that out.
	Unsealed string
	// UpdateSquares are the sums of squares of each participant's update over the leaves that the reporter owns.
	UpdateSquares []float64
	// Claims are of the parts that the reporter merged, ascending by owner, if they have witnesses.
	Claims []Claim
	// Signed reports whether a contributor has signed an input of one owner's part, both by their index in the plan; nil: none has.
	Signed func(contributor, owner int, in Input) bool
}

// Failed says that a session gave an attempt up.
type Failed struct {
	Round, Attempt uint64
	Blamed         string // node name; empty when nobody is to blame
	HeardFrom      string // the participant that said so; empty: the reporter has seen it itself
	Reason         string
	Bytes          uint64 // received in this attempt
	Code           string // of one that has begun nothing: state.ReasonThirdOwner, leaves that two may have would go to a third, or "REFUSED", it does not accept the plan; or empty
}

// Progress is shown to users; of it only the loss is used, for the adaptive interval.
type Progress struct {
	Round              uint64 // the model that loss and metric were measured on; 0: local training
	Loss, Metric       float64
	HasLoss, HasMetric bool
	EpochsDone         uint32
	TotalEpochs        uint32
	Phase              string
}

// maxReports bounds the memory of sessions that the state does not know (yet).
const maxReports = 16384

// Reports keeps the latest report of each session. It is safe for concurrent use; what it returns shares pointers that
// nobody may write through.
type Reports struct {
	mu sync.Mutex
	by map[string]Report
}

// NewReports returns an empty store.
func NewReports() *Reports { return &Reports{by: map[string]Report{}} }

// Record replaces the session's report by r, received at the given time, unless r is from before it: overtaken, or repeated by who
// passes reports on.
func (rs *Reports) Record(r Report, at time.Time) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	old, had := rs.by[r.Session]
	if had && (old.Node != r.Node || r.Number < old.Number) || !had && len(rs.by) >= maxReports {
		return // The session belongs to who opened it; its first report was checked against the state by the caller.
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
}

// Of returns the latest reports of the contract's sessions in its current run, by session.
func (rs *Reports) Of(c *state.Contract) map[string]Report {
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
func (rs *Reports) Forget(view *state.State, before time.Time) {
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
func (rs *Reports) Clear() {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	clear(rs.by)
}
