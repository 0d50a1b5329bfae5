package planner_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/planner/reports"
	"github.com/swarmd/swarmd/internal/round"
)

// word is what one of four peers reports of each attempt that all four are in; the zero value is that it reports nothing.
type word struct {
	blamed, heardFrom string
	failed, done      bool
	model             string // the digest's digit; empty: 1
	unsealed          string // whose shard it reports otherwise than its owner has sealed; empty: nobody's
}

func saw(blamed string) word         { return word{failed: true, blamed: blamed} }
func heard(blamed, from string) word { return word{failed: true, blamed: blamed, heardFrom: from} }

// TestOnlyWhoSawItAccuses: words of failure are repeated among peers; what counts is who has seen what.
func TestOnlyWhoSawItAccuses(t *testing.T) {
	const (
		named = 25 * time.Second // two attempts that stall
		grace = time.Minute
	)
	tests := []struct {
		name  string
		words [4]word
		out   string
		from  time.Duration // since the first failure
		says  string        // the reason after the first failure
	}{
		{
			"a cut link, and each end is believed by one",
			[4]word{saw("sl-1"), saw("sl-0"), heard("sl-1", "sl-0"), heard("sl-0", "sl-1")},
			"sl-1", grace,
			"sl-0 could not go on with sl-1: no byte; sl-1 could not go on with sl-0: no byte",
		},
		{
			"a cut link, and one end is believed by all",
			[4]word{saw("sl-1"), heard("sl-0", "sl-2"), heard("sl-1", "sl-0"), heard("sl-1", "sl-0")},
			"sl-1", grace,
			"sl-0 could not go on with sl-1: no byte",
		},
		{
			"two have seen it",
			[4]word{saw("sl-3"), saw("sl-3"), heard("sl-3", "sl-0"), heard("sl-3", "sl-1")},
			"sl-3", 0,
			"sl-0 could not go on with sl-3: no byte; sl-1 could not go on with sl-3: no byte",
		},
		{
			"one accuses and all repeat it, the accused too",
			[4]word{heard("sl-2", "sl-3"), heard("sl-2", "sl-0"), heard("sl-2", "sl-3"), saw("sl-2")},
			"sl-3", grace,
			"sl-3 could not go on with sl-2: no byte",
		},
		{
			"one accuses to the others and tells the leader nothing",
			[4]word{{}, heard("sl-3", "sl-0"), heard("sl-3", "sl-0"), heard("sl-3", "sl-0")},
			"sl-0", grace,
			"sl-1 could not go on with sl-0: no byte; sl-2 could not go on with sl-0: no byte; sl-3 could not go on with sl-0: no byte",
		},
		{
			"one accuses to the others and tells the leader that all is well",
			[4]word{{done: true}, heard("sl-3", "sl-0"), heard("sl-3", "sl-1"), heard("sl-3", "sl-0")},
			"sl-0", grace,
			"sl-1 could not go on with sl-0: no byte; sl-3 could not go on with sl-0: no byte",
		},
		{
			"two name each other as their source",
			[4]word{heard("sl-3", "sl-1"), heard("sl-3", "sl-0"), heard("sl-3", "sl-0"), heard("", "sl-1")},
			"sl-1", grace,
			"sl-0 could not go on with sl-1: no byte; sl-1 could not go on with sl-0: no byte",
		},
		{
			"one names itself as its source", [4]word{heard("sl-3", "sl-0"), heard("sl-3", "sl-0"), {}, {}}, "sl-0", grace, "sl-0: no byte",
		},
		{
			"one ends every attempt and blames nobody",
			[4]word{heard("", "sl-1"), saw(""), heard("", "sl-1"), heard("", "sl-0")},
			"sl-1", grace, "sl-1: no byte",
		},
		{
			"one has it from a stranger",
			[4]word{heard("sl-3", "sl-9"), {}, {}, {}},
			"sl-3", grace,
			"sl-0 could not go on with sl-3: no byte",
		},
		{
			"all have seen a stranger fail",
			[4]word{saw("sl-9"), saw("sl-9"), saw("sl-9"), {}},
			"", 0,
			"sl-0: no byte; sl-1: no byte; sl-2: no byte",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newTable(t, 2, 4)
			b.ready(1, 0, 1, 2, 3)
			b.follow()
			out, says, took := b.fail(tt.words)
			if says != tt.says {
				t.Errorf("reason %q, want %q", says, tt.says)
			}
			if got := strings.Join(out, ", "); got != tt.out {
				t.Fatalf("left out: %q, want %q", got, tt.out)
			}
			if to := max(named, tt.from+named); out != nil && (took < tt.from || took > to) {
				t.Errorf("left out %s after the first failure, want %s to %s", took, tt.from, to)
			}
		})
	}
}

// fail has attempts of all four stall for ten seconds and end as the peers say, for three minutes or until one is planned
// without some, and returns who these are, the reason that was given first, and how long it took since the first failure.
func (b *table) fail(words [4]word) (out []string, says string, took time.Duration) {
	b.t.Helper()
	var first time.Time
	for attempt, end := uint64(0), b.now.Add(3*time.Minute); b.now.Before(end); b.now = b.now.Add(100 * time.Millisecond) {
		b.follow()
		p := b.contract().Plan
		if p.Attempt == attempt {
			continue
		}
		attempt = p.Attempt
		for i := range words {
			if p.Participant(id(i)) == nil {
				out = append(out, b.contract().Sessions[id(i)].Node)
			}
		}
		if out != nil {
			break
		}
		b.now = b.now.Add(10 * time.Second)
		for i, w := range words {
			b.tells(i, w)
		}
		if first.IsZero() {
			first = b.now
			b.now = b.now.Add(300 * time.Millisecond) // for those who report nothing
			says = b.follow().Detail
		}
	}
	slices.Sort(out)
	return out, says, b.now.Sub(first)
}

// tells has one peer report on the running attempt.
func (b *table) tells(i int, w word) {
	p, r := b.contract().Plan, reports.Report{Ready: b.reports[id(i)].Ready, At: b.now}
	if c := b.contract().Committed; c != nil {
		r.Held = []round.Model{{Round: c.Round, Digest: c.Digest}}
	}
	if w.failed {
		r.FailedAt = b.now
		r.Failed = &round.Failed{Round: p.Round, Attempt: p.Attempt, Blamed: w.blamed, HeardFrom: w.heardFrom, Reason: "no byte"}
	}
	if w.done {
		r.Done = &round.Done{Round: p.Round, Attempt: p.Attempt, ModelDigest: strings.Repeat(cmp.Or(w.model, "1"), 64), ShardDigests: []string{"as asked"}}
		r.Unsealed = w.unsealed
	}
	b.reports[id(i)] = r
}
