// Package begun remembers which attempts of which rounds a node has begun.
package begun

import (
	"cmp"
	"errors"
	"slices"
)

// maxSpans bounds how many gaps there may be between the attempts of a round that a node has begun.
const maxSpans = 256

// maxRounds bounds of how many rounds besides the newest a node keeps what it has begun, and maxOldSpans how many gaps of each.
const (
	maxRounds   = 64
	maxOldSpans = 16
)

// Record says which attempts of a round this node has begun. It is kept before an attempt's first byte: an owner that was started
// again within an attempt, and took part in it once more, could sign two results for it, and two signatures convict a liar.
// Until this node has a model of the run, run and round are what one SN says, and another one may show others that are true.
type Record struct {
	Run      uint64 `json:"run,omitempty"` // 0: the session's, in records of before it was kept
	Round    uint64 `json:"round"`
	Attempts []Span `json:"attempts"` // ascending, with gaps between
	// Passed is the newest round of the run of which this node has had the model: rounds only go up from there. 0: none.
	Passed uint64 `json:"passed,omitempty"`
	// Others are of other runs and rounds, as long as none is passed.
	Others []Record `json:"others,omitempty"`
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

// After returns what was begun after an attempt too, if the model of one round was had by now; 0: of none. It is an error if that was
// begun already, or is of a round that is passed. Of too many gaps, which honest leaders leave none of, the first counts as begun.
func (b *Record) After(run, round, attempt, passed uint64) (*Record, error) {
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
			out.Attempts = slices.Clone(x.Attempts)
		case out.Passed == 0:
			x.Attempts = slices.Clone(x.Attempts)
			x.bound(maxOldSpans)
			out.Others = append(out.Others, x)
		}
	}
	if len(out.Others) > maxRounds {
		return nil, errRounds
	}
	// The first span that the attempt is not behind.
	i, _ := slices.BinarySearchFunc(out.Attempts, attempt, func(s Span, n uint64) int { return cmp.Compare(s.Last, n) })
	if i < len(out.Attempts) && out.Attempts[i].First <= attempt {
		return nil, errBegun
	}
	out.Attempts = slices.Insert(out.Attempts, i, Span{attempt, attempt})
	out.join(i)
	out.join(i - 1)
	out.bound(maxSpans)
	return out, nil
}

// all are the rounds, each by itself.
func (b *Record) all() []Record {
	if b == nil {
		return nil
	}
	return append(slices.Clip(b.Others), Record{Run: b.Run, Round: b.Round, Attempts: b.Attempts})
}

// bound has the first gaps count as begun while there are too many.
func (b *Record) bound(spans int) {
	if more := len(b.Attempts) - spans; more > 0 {
		b.Attempts[more].First = b.Attempts[0].First
		b.Attempts = b.Attempts[more:]
	}
}

// join makes one of a span and the next if there is no gap between.
func (b *Record) join(i int) {
	if a := b.Attempts; i >= 0 && i+1 < len(a) && a[i].Last+1 == a[i+1].First {
		a[i].Last = a[i+1].Last
		b.Attempts = slices.Delete(a, i+1, i+2)
	}
}

// Check holds that a record may be one of this package.
func (b *Record) Check() error {
	if b == nil {
		return nil
	}
	for _, x := range b.all() {
		for i, s := range x.Attempts {
			if s.First > s.Last || i > 0 && s.First <= x.Attempts[i-1].Last || len(x.Attempts) > maxSpans {
				return errors.New("the attempts that it has begun are in no order")
			}
		}
		if len(x.Others) > 0 || len(b.Others) > maxRounds {
			return errors.New("the rounds that it has begun are too many")
		}
	}
	return nil
}
