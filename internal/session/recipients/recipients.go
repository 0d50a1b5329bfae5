// Package recipients remembers which leaves of what a node contributes may have gone to which other nodes.
package recipients

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/merge"
)

// maxOwners is how many other nodes may get one leaf of one contribution, whoever plans the attempts.
const maxOwners = 2

// maxRuns bounds how finely plans may cut a model before this node refuses to follow them.
const maxRuns = 1 << 13

// Record says which leaves of one contribution went, or may have gone, to which owners. It is kept before an attempt's first
// byte. A closed session's frozen weights are the contribution of its last Sync: nobody can report whether the program has
// changed them since.
type Record struct {
	Seq  uint64 `json:"seq"`
	Runs []Run  `json:"runs"` // ascending
	// Witnessed says which went to whom as witnesses of owners, ascending.
	Witnessed []Run `json:"witnessed,omitempty"`
	// Merging is how many nodes merge each part, as the contribution's first plan had it.
	Merging uint32 `json:"merging,omitempty"`
}

// Run is some leaves in a row that went to the same owners.
type Run struct {
	First  uint64   `json:"first"`
	Leaves uint64   `json:"leaves"`
	To     []string `json:"to"` // peer IDs
}

func (r Run) end() uint64 { return r.First + r.Leaves }

// ErrThirdOwner says that an attempt would give a leaf to a third owner.
var ErrThirdOwner = errors.New("two nodes may have leaves of what this node offers that a third would get")

// ErrRule says that the plans for one contribution have different numbers of nodes merge each part, once leaves of it may have gone to
// some: no rule changes while a session is open, so whoever says so lies now or did before. For the next contribution either may be true.
var ErrRule = errors.New("the rule on witnesses is not that of the first plan for what this node offers")

var errWitnesses = errors.New("as many witnesses may have leaves of what this node offers as may ever, and another would get them")

// maxWitnesses is how many other nodes may get one leaf as witnesses, if so many merge each part: twice those of one attempt, as
// there may be two owners.
func maxWitnesses(merging uint32) int { return 2 * max(0, int(merging)-1) }

// After returns what will have gone to whom after an attempt too. It is an error if a leaf would go to a third owner, or if there are to be
// more or fewer witnesses than before: what is offered is then spent.
func (s *Record) After(seq uint64, p *round.Plan, self int) (*Record, error) {
	out := &Record{Seq: seq, Merging: p.Witnesses}
	if s != nil && s.Seq == seq {
		if s.Merging != p.Witnesses {
			return nil, fmt.Errorf("%w: %d are to merge each part of the model, and it was %d", ErrRule, p.Witnesses, s.Merging)
		}
		out.Runs, out.Witnessed = slices.Clone(s.Runs), slices.Clone(s.Witnessed)
	}
	owners, witnesses := sentTo(p, self)
	var err error
	if out.Runs, err = addAll(out.Runs, owners, maxOwners); err != nil {
		return nil, ErrThirdOwner
	}
	if out.Witnessed, err = addAll(out.Witnessed, witnesses, maxWitnesses(p.Witnesses)); err != nil {
		return nil, errWitnesses
	}
	return out, nil
}

// sentTo are the runs of leaves that go to others in an attempt, as owners and as witnesses of owners.
func sentTo(p *round.Plan, self int) (owners, witnesses []Run) {
	units, owns := make([]string, len(p.Participants)), make([]bool, len(p.Participants))
	for i, m := range p.Participants {
		units[i], owns[i] = m.Unit(), len(m.Shards) > 0 && m.Shards[0].Leaves > 0
	}
	mergers := merge.Mergers(units, owns, int(p.Witnesses))
	for i, m := range p.Participants {
		for _, r := range m.Shards {
			if r.Leaves == 0 {
				continue
			}
			if i != self {
				owners = append(owners, Run{First: r.First, Leaves: r.Leaves, To: []string{m.PeerID}})
			}
			for _, w := range mergers[i][min(1, len(mergers[i])):] {
				if w != self {
					witnesses = append(witnesses, Run{First: r.First, Leaves: r.Leaves, To: []string{p.Participants[w].PeerID}})
				}
			}
		}
	}
	return owners, witnesses
}

// errFull says that more nodes would get a leaf than may.
var errFull = errors.New("too many nodes, or too many runs")

// addAll returns the runs, which are ascending and the caller's, with more.
func addAll(runs, more []Run, most int) ([]Run, error) {
	if len(more) > maxRuns {
		return nil, errFull
	}
	slices.SortStableFunc(more, func(a, b Run) int { return cmp.Compare(a.First, b.First) })
	for _, r := range more {
		var err error
		if r.end() < r.First {
			return nil, errFull
		}
		if runs, err = add(runs, r, most); err != nil {
			return nil, err
		}
	}
	return runs, nil
}

// add returns the runs, which are ascending and the caller's, with one more node that gets some leaves, if no more than so many do.
func add(runs []Run, more Run, most int) ([]Run, error) {
	i, _ := slices.BinarySearchFunc(runs, more.First, func(r Run, at uint64) int { return cmp.Compare(r.end(), at+1) })
	if i == len(runs) {
		return append(runs, more), nil
	}
	out := slices.Clone(runs[:i])
	at := more.First
	for ; i < len(runs) && runs[i].First < more.end(); i++ {
		r := runs[i]
		out = append(out, part(r, r.First, at)...)
		out = append(out, part(more, at, r.First)...)
		both := Run{First: max(at, r.First), To: r.To}
		both.Leaves = min(r.end(), more.end()) - both.First
		if !slices.Contains(r.To, more.To[0]) {
			if len(r.To) >= most {
				return nil, errFull
			}
			both.To = append(slices.Clip(r.To), more.To[0])
		}
		out = append(out, both)
		at = both.end()
		out = append(out, part(r, at, r.end())...)
	}
	out = append(append(out, part(more, at, more.end())...), runs[i:]...)
	if len(out) > maxRuns {
		return nil, errFull
	}
	return out, nil
}

// part is what of a run lies from one leaf up to another: nothing or one run.
func part(r Run, from, to uint64) []Run {
	if from = max(from, r.First); from >= to {
		return nil
	}
	return []Run{{First: from, Leaves: to - from, To: r.To}}
}

// Check holds that a record may be one of this package.
func (s *Record) Check() error {
	if s == nil {
		return nil
	}
	if err := checkRuns(s.Runs, maxOwners); err != nil {
		return err
	}
	return checkRuns(s.Witnessed, maxWitnesses(state.MaxWitnesses))
}

func checkRuns(runs []Run, most int) error {
	next := uint64(0)
	for _, r := range runs {
		if r.First < next || r.end() <= r.First || len(r.To) == 0 || len(r.To) > most || len(runs) > maxRuns {
			return fmt.Errorf("bad run of leaves at %d", r.First)
		}
		next = r.end()
	}
	return nil
}
