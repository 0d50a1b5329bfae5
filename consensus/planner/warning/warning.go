// Package warning finds what is probably wrong with a training that goes on without an error: a model that nobody trains, hooks that
// are never called, a peer without data. It is pure: facts in, warnings out.
//
// To add a warning write a Reason, a function from Facts to warnings, and a line in finders; docs/reference/warnings.md has a row for it.
// What else it has to know becomes a field of Facts. It is shown, logged and counted by itself then.
package warning

import (
	"cmp"
	"slices"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
)

// Reason tells kinds of warnings apart. They are a contract with scripts and never change their meaning.
type Reason string

// The reasons.
const (
	Unchanged   Reason = "MODEL_UNCHANGED" // a peer trains, and no tensor of what it contributes changes
	NoData      Reason = "NO_DATA"         // a peer has trained no batch
	HooksUnused Reason = "HOOKS_UNUSED"    // a peer's model changed, though on_batch_end was never called
	NeverDue    Reason = "NEVER_DUE"       // a peer's training was shorter than its syncFrequency
	MinPeers    Reason = "MIN_PEERS"       // a round needs more peers than will come
	UnequalData Reason = "UNEQUAL_DATA"    // advice: peers' data differ much in size, their weights do not
	Anchor      Reason = "FINISHED_COUNTS" // a peer has finished, and its last weights count on and on
)

// Limit bounds how many warnings are kept of a contract's run.
const Limit = 64

// Warning is one thing that is probably wrong.
type Warning struct {
	Reason Reason
	Node   string // whom it is about; empty: the contract
	Text   string // one line, with what to do
	Advice bool   // nothing is wrong, but something could be better
}

// Facts are what is known of a contract's run.
type Facts struct {
	Contract *state.Contract
	Trained  map[string]round.Trained // by session, as its node has reported it last
}

// finders are all that look for something.
var finders = []func(Facts) []Warning{minPeers, unchanged, noData, hooksUnused, neverDue, anchors, unequalData}

// Find returns what is probably wrong, in a stable order.
func Find(f Facts) []Warning {
	var all []Warning
	for _, find := range finders {
		all = append(all, find(f)...)
	}
	return all
}

// Add returns known with those of found whose reason and node it does not have yet, up to Limit: what was wrong once stays worth
// knowing, in the words in which it was said first. Nobody may write through known.
func Add(known, found []Warning) []Warning {
	for _, w := range found {
		same := func(x Warning) bool { return x.Reason == w.Reason && x.Node == w.Node }
		if len(known) < Limit && !slices.ContainsFunc(known, same) {
			known = append(slices.Clip(known), w)
		}
	}
	return known
}

// trained is a session with what is known of its training.
type trained struct {
	*state.Session
	round.Trained
}

// sessions are those of the run that have told something and have taken part in a round with weight, or with none
// because they have no data, in the order of their opening. Those
// that have not may be there for the final model alone.
func (f Facts) sessions() []trained {
	var all []trained
	for id, t := range f.Trained {
		if s := f.Contract.Sessions[id]; s != nil && s.Run == f.Contract.Run && (s.Weight > 0 || s.Terms.Weights == state.WeightsSamples) && s.LastRound > 0 {
			all = append(all, trained{s, t})
		}
	}
	slices.SortFunc(all, func(a, b trained) int { return cmp.Compare(a.Order, b.Order) })
	return all
}
