// Package attemptlog remembers which attempts of which rounds a node has begun.
package attemptlog

import (
	"cmp"
	"errors"
	"slices"
)

// maxSpans bounds how many gaps there may be between the attempts of a round that a node has begun, by one plan.
const maxSpans = 256

// maxPlans bounds by how many plans a node keeps which attempts of a round it has begun.
const maxPlans = 64

// maxRounds bounds of how many rounds besides the newest a node keeps what it has begun, and maxOldSpans how many gaps of each.
const (
	maxRounds   = 64
	maxOldSpans = 16
)

// maxPlanText bounds what names a plan, in bytes.
const maxPlanText = 128

// Record says which attempts of a round this node has begun. It is kept before an attempt's first byte: an owner that was started
// again within an attempt, and took part in it once more, could sign two results for it, and two signatures convict a liar. What it signs
// covers the plan, so an attempt of another plan under the same number is another one: else an SN could use the numbers up with plans of its own.
// Until this node has a model of the run, run and round are what one SN says, and another one may show others that are true.
type Record struct {
	Run   uint64 `json:"run,omitempty"` // 0: the session's, in records of before it was kept
	Round uint64 `json:"round"`
	// Attempts count as begun by whatever plan: all in records of before plans were kept. Ascending, with gaps between.
	Attempts []Span   `json:"attempts"`
	Plans    []ByPlan `json:"plans,omitempty"` // besides, oldest plan first
	// Passed is the newest round of the run of which this node has had the model: rounds only go up from there. 0: none.
	Passed uint64 `json:"passed,omitempty"`
	// Others are of other runs and rounds, as long as none is passed.
	Others []Record `json:"others,omitempty"`
}

// ByPlan are the attempts that were begun by one plan.
type ByPlan struct {
	Plan     string `json:"plan"`
	Attempts []Span `json:"attempts"`
}

// Span is some attempts in a row.
type Span struct {
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
}

var (
	errBegun  = errors.New("this node has begun that attempt before, and begins none twice")
	errRounds = errors.New("this node has begun attempts of too many rounds without a model of any")
)

// After returns what was begun after an attempt by a plan too, if the model of one round was had by now; 0: of none. The plan is named by
// what a signature covers. It is an error if that was begun already, or is of a round that is passed. Of too many gaps, which honest leaders
// leave none of, the first counts as begun, and of too many plans the first counts as all.
func (b *Record) After(run, round, attempt, passed uint64, plan string) (*Record, error) {
	out := &Record{Run: run, Round: round, Passed: passed}
	if b != nil && b.Run == run {
		out.Passed = max(b.Passed, passed)
	}
	if round <= out.Passed {
		return nil, errBegun
	}
	for _, x := range b.all() {
		switch {
		case x.Run == run && x.Round == round:
			out.Attempts, out.Plans = x.Attempts, x.Plans
		case out.Passed == 0:
			x.bound(maxPlans, maxOldSpans)
			out.Others = append(out.Others, x)
		}
	}
	if len(out.Others) > maxRounds {
		return nil, errRounds
	}
	i := slices.IndexFunc(out.Plans, func(p ByPlan) bool { return p.Plan == plan })
	if i < 0 {
		i, out.Plans = len(out.Plans), append(out.Plans, ByPlan{Plan: plan})
	}
	mine := &out.Plans[i].Attempts
	if has(out.Attempts, attempt) || has(*mine, attempt) {
		return nil, errBegun
	}
	*mine = insert(*mine, Span{attempt, attempt})
	out.bound(maxPlans, maxSpans)
	return out, nil
}

// all are copies of the rounds, each by itself.
func (b *Record) all() []Record {
	if b == nil {
		return nil
	}
	out := append(slices.Clip(b.Others), Record{Run: b.Run, Round: b.Round, Attempts: b.Attempts, Plans: b.Plans})
	for i := range out {
		x := &out[i]
		x.Attempts, x.Plans = slices.Clone(x.Attempts), slices.Clone(x.Plans)
		for k := range x.Plans {
			x.Plans[k].Attempts = slices.Clone(x.Plans[k].Attempts)
		}
	}
	return out
}

// bound forgets by which plan the first were begun, and has the first gaps count as begun, while there are too many.
func (b *Record) bound(plans, spans int) {
	for ; len(b.Plans) > plans; b.Plans = b.Plans[1:] {
		for _, s := range b.Plans[0].Attempts {
			b.Attempts = insert(b.Attempts, s)
		}
	}
	b.Attempts = fill(b.Attempts, spans)
	for i := range b.Plans {
		b.Plans[i].Attempts = fill(b.Plans[i].Attempts, spans)
	}
}

// fill closes the first gaps while there are too many.
func fill(all []Span, most int) []Span {
	if more := len(all) - most; more > 0 {
		all[more].First = all[0].First
		all = all[more:]
	}
	return all
}

// has reports whether an attempt is in one of the spans.
func has(all []Span, attempt uint64) bool {
	i, _ := slices.BinarySearchFunc(all, attempt, func(s Span, n uint64) int { return cmp.Compare(s.Last, n) })
	return i < len(all) && all[i].First <= attempt
}

// insert adds a span, and makes one of those that meet.
func insert(all []Span, s Span) []Span {
	from := 0
	for from < len(all) && all[from].Last < s.First && all[from].Last+1 < s.First {
		from++
	}
	to := from
	for ; to < len(all) && (all[to].First <= s.Last || all[to].First-1 == s.Last); to++ {
		s.First, s.Last = min(s.First, all[to].First), max(s.Last, all[to].Last)
	}
	return slices.Replace(all, from, to, s)
}

// Check holds that a record may be one of this package.
func (b *Record) Check() error {
	if b == nil {
		return nil
	}
	for _, x := range b.all() {
		if err := checkSpans(x.Attempts); err != nil {
			return err
		}
		for _, p := range x.Plans {
			if err := checkSpans(p.Attempts); err != nil {
				return err
			}
			if len(p.Plan) > maxPlanText {
				return errors.New("the name of a plan is too long")
			}
		}
		if len(x.Others) > 0 || len(b.Others) > maxRounds || len(x.Plans) > maxPlans {
			return errors.New("the rounds that it has begun are too many")
		}
	}
	return nil
}

func checkSpans(all []Span) error {
	for i, s := range all {
		if s.First > s.Last || i > 0 && s.First <= all[i-1].Last || len(all) > maxSpans {
			return errors.New("the attempts that it has begun are in no order")
		}
	}
	return nil
}
