package session

import (
	"cmp"
	"errors"
	"slices"
)

// maxSpans bounds how many gaps there may be between the attempts of a round that a node has begun.
const maxSpans = 256

// Begun says which attempts of a round this node has begun. It is kept before an attempt's first byte: an owner that was started
// again within an attempt, and took part in it once more, could sign two results for it, and two signatures convict a liar.
type Begun struct {
	Round    uint64 `json:"round"`
	Attempts []Span `json:"attempts"` // ascending, with gaps between
}

// Span is some attempts in a row.
type Span struct {
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
}

var errBegun = errors.New("this node has begun that attempt before, and begins none twice")

// after returns what was begun after an attempt too. It is an error if that was begun already, or is of a round before: rounds
// only go up. Of too many gaps, which honest leaders leave none of, the first counts as begun.
func (b *Begun) after(round, attempt uint64) (*Begun, error) {
	if b == nil || round > b.Round {
		return &Begun{Round: round, Attempts: []Span{{attempt, attempt}}}, nil
	}
	// The first span that the attempt is not behind.
	i, _ := slices.BinarySearchFunc(b.Attempts, attempt, func(s Span, n uint64) int { return cmp.Compare(s.Last, n) })
	if round < b.Round || i < len(b.Attempts) && b.Attempts[i].First <= attempt {
		return nil, errBegun
	}
	out := &Begun{Round: round, Attempts: slices.Insert(slices.Clone(b.Attempts), i, Span{attempt, attempt})}
	out.join(i)
	out.join(i - 1)
	if len(out.Attempts) > maxSpans {
		out.Attempts[0].Last = out.Attempts[1].Last
		out.Attempts = slices.Delete(out.Attempts, 1, 2)
	}
	return out, nil
}

// join makes one of a span and the next if there is no gap between.
func (b *Begun) join(i int) {
	if a := b.Attempts; i >= 0 && i+1 < len(a) && a[i].Last+1 == a[i+1].First {
		a[i].Last = a[i+1].Last
		b.Attempts = slices.Delete(a, i+1, i+2)
	}
}

// check holds that a record may be one of this package.
func (b *Begun) check() error {
	if b == nil {
		return nil
	}
	for i, s := range b.Attempts {
		if s.First > s.Last || i > 0 && s.First <= b.Attempts[i-1].Last || len(b.Attempts) > maxSpans {
			return errors.New("the attempts that it has begun are in no order")
		}
	}
	return nil
}
