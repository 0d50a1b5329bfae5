package planner_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/planner/reports"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/merge"
)

// TestWhoIsLeftOutForDigests lets owners seal and receivers report what they want. A version says which bytes somebody reports
// of a shard, 0 being the right ones; what no owner has sealed stands without a seal.
func TestWhoIsLeftOutForDigests(t *testing.T) {
	lies := func(who int, versions func(owner int) int) func(r, o int) (int, bool) {
		return func(r, o int) (int, bool) {
			if r == who && o != who {
				return versions(o), versions(o) == 0
			}
			return 0, true
		}
	}
	cheats := func(owner int, victims ...int) func(r, o int) (int, bool) {
		return func(r, o int) (int, bool) {
			if o == owner && slices.Contains(victims, r) {
				return 1, true
			}
			return 0, true
		}
	}
	always := func(int) int { return 1 }
	two := func(r, o int) (int, bool) {
		v, sealed := lies(1, always)(r, o)
		w, too := lies(2, always)(r, o)
		return v + w, sealed && too
	}
	tests := []struct {
		name    string
		n       int
		version func(reporter, owner int) (int, bool)
		model   func(reporter int) int // beside what follows from the shards
		out     string                 // who is left out of the third attempt
	}{
		{"a receiver lies about all shards", 3, lies(1, always), nil, "sl-1"},
		{"a receiver lies about one shard of three", 3, lies(1, func(o int) int { return o / 2 }), nil, "sl-1"},
		{"a receiver lies about one shard of four", 4, lies(1, func(o int) int { return o / 3 }), nil, "sl-1"},
		{"a receiver lies about the model only", 3, nil, func(r int) int { return r / 2 }, "sl-2"},
		{"a receiver repeats the right digest without its seal", 3, func(r, o int) (int, bool) { return 0, r != 2 || o != 0 }, nil, "sl-2"},
		{"two receivers report two models", 2, nil, func(r int) int { return r }, ""},
		{"an owner cheats one of two", 3, cheats(0, 2), nil, "sl-0"},
		{"an owner cheats both", 3, cheats(0, 1, 2), nil, "sl-0"},
		{"an owner cheats two of three", 4, cheats(0, 2, 3), nil, "sl-0"},
		{"an owner cheats two of six", 7, cheats(3, 0, 1), nil, "sl-3"},
		{"two receivers lie together about all", 5, two, nil, "sl-1 sl-2"},
		{"half of them lie", 4, two, nil, "sl-1 sl-2"},
		{"an owner cheats the only other", 2, cheats(0, 1), nil, ""},
		{"a receiver lies to the only other", 2, lies(1, always), nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newTable(t, uint32(max(1, (tt.n+1)/2)), tt.n) //nolint:gosec // small
			if tt.n == 2 {
				b = newTable(t, 2, 2) // nobody can be spared
			}
			all := make([]int, tt.n)
			for i := range all {
				all[i] = i
			}
			b.ready(1, all...)
			b.follow()
			left := func() string { return b.leftOut(tt.n) }
			for range 2 {
				b.digests(tt.version, tt.model)
				if b.differs() { // nobody is judged by what everybody signs
					whole := b.shorten()
					if why := b.follow(); why.Kind != planner.WaitMerging || len(why.For) != tt.n || left() != "" {
						t.Fatalf("%s for %v, plan without %q", why, why.For, left())
					}
					b.reports = whole
				}
				if why := b.follow(); why.Kind != planner.WaitRetry || left() != "" {
					t.Fatalf("%s: plan without %q", why, left())
				}
				b.now = b.now.Add(time.Second)
				b.follow()
			}
			if got := left(); got != tt.out {
				t.Errorf("attempt 3 is without %q, want %q", got, tt.out)
			}
			if got := b.contract().Round(); got != 0 {
				t.Errorf("round %d was committed", got)
			}
		})
	}
}

// leftOut names the nodes of n that are not in the plan.
func (b *table) leftOut(n int) string {
	var out []string
	for i := range n {
		if b.contract().Plan.Participant(id(i)) == nil {
			out = append(out, fmt.Sprintf("sl-%d", i))
		}
	}
	return strings.Join(out, " ")
}

// digests has all participants of the running attempt report what they say that they received.
func (b *table) digests(version func(reporter, owner int) (v int, sealed bool), model func(reporter int) int) {
	plan := b.contract().Plan
	for _, p := range plan.Participants {
		reporter := number(p.Node)
		done := &round.Done{Round: plan.Round, Attempt: plan.Attempt}
		whole, unsealed := 0, ""
		for _, o := range plan.Participants {
			v, sealed := 0, true
			if version != nil {
				v, sealed = version(reporter, number(o.Node))
			}
			if !sealed && unsealed == "" {
				unsealed = o.Node
			}
			whole = 2*whole + v
			done.ShardDigests = append(done.ShardDigests, fmt.Sprintf("%063x%d", number(o.Node)+1, v))
		}
		if model != nil {
			whole += 1000 * model(reporter)
		}
		done.ModelDigest = fmt.Sprintf("%064x", whole)
		done.ShardsDigest = merge.Sum([]byte(strings.Join(done.ShardDigests, " "))).String()
		b.reports[p.Session] = reports.Report{Done: done, Unsealed: unsealed, At: b.now}
	}
}

// differs reports whether what the participants of the running attempt hold is not one thing.
func (b *table) differs() bool {
	outcomes := map[string]bool{}
	for _, p := range b.contract().Plan.Participants {
		d := b.reports[p.Session].Done
		outcomes[d.ModelDigest+d.ShardsDigest] = true
	}
	return len(outcomes) > 1
}

// shorten has all participants say only what they said that they hold, and returns what they said.
func (b *table) shorten() map[string]reports.Report {
	whole := maps.Clone(b.reports)
	for _, p := range b.contract().Plan.Participants {
		r := b.reports[p.Session]
		short := *r.Done
		short.ShardDigests = nil
		r.Done, r.Unsealed = &short, ""
		b.reports[p.Session] = r
	}
	return whole
}

func number(node string) int { return int(node[len(node)-1] - '0') }
