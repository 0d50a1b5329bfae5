// Package track follows a training and writes what is known of its rounds into trackers of experiments, so that every round is there once,
// however often the follower, a tracker or an SN stops in between.
//
// It keeps nothing of its own: where it goes on is what a tracker says that it has, and what it lacks comes from the swarm's history.
package track

import "context"

// Param says how a training was set up.
type Param struct{ Key, Value string }

// Value is a figure of a round. Figures that nobody has told are absent.
type Value struct {
	Key   string
	Value float64 // finite
}

// State is how a training stands.
type State struct {
	Swarm    string // ID
	Contract string
	Run      uint64 // number; 0: the contract has not begun
	Round    uint64 // the last one that was committed; 0: none
	AtMS     int64  // when that was, by the SN that led
	Over     bool   // there will be no further round
	Standing Standing
	Params   []Param
	Peers    map[string]Peer // by node
}

// Peer is how one of a training's nodes stands.
type Peer struct {
	Standing Standing
	Params   []Param
}

// Standing is how a training or a peer of one stands.
type Standing string

// What a training or a peer may be.
const (
	Running  Standing = "running"
	Finished Standing = "finished"
	Failed   Standing = "failed"
	Ended    Standing = "ended" // by somebody's word or by a loss, not by its program
)

// Round is what is known of a round.
type Round struct {
	Round  uint64
	AtMS   int64 // when it was committed
	Digest string
	Record uint64 // of the ledger; 0: not known
	Metric string // what its peers call the metric; empty: nobody says, or they differ
	Told   bool   // its record is known, and all peers whose models were merged have said how good the merged one is
	Swarm  []Value
	Peers  []PeerRound // by node
}

// PeerRound is what is known of a peer in a round.
type PeerRound struct {
	Node   string
	Metric string // what its program calls the metric; empty: it does not say
	Values []Value
}

// Page are rounds of a run, ascending.
type Page struct {
	Run    uint64
	Rounds []Round // those between them the swarm's history no longer has
	More   bool    // there are further ones
}

// Source is a swarm that is asked about one contract.
type Source interface {
	// State says how the training stands. With an error of exit.NotFound the contract is gone: then Swarm and Contract alone are known.
	State(ctx context.Context) (State, error)
	// After returns the first rounds behind one.
	After(ctx context.Context, round uint64) (Page, error)
}

// Sink is a tracker of experiments. After any error Open is called again before anything else.
type Sink interface {
	// Open finds what there is of a run, and returns the last round that is written whole. It ends runs before, if there are any that have not ended.
	Open(ctx context.Context, s *State) (after uint64, err error)
	// End ends what has not ended of the contract's runs, of which none goes on.
	End(ctx context.Context, s *State) error
	// Write adds rounds; those that are there already, or in part, are completed.
	Write(ctx context.Context, rounds []Round) error
	// Stand says how the training and its peers stand.
	Stand(ctx context.Context, s *State) error
	// String names it to the user.
	String() string
}
