package planner_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/planner/explain"
	"github.com/swarmd/swarmd/consensus/planner/reports"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
)

// cannot has one say that it can't open a connection to another.
func (b *table) cannot(i, other int, with func(*round.Unreached)) {
	u := round.Unreached{Node: name(other), Address: name(other) + ".example:16000", Cause: "timeout"}
	with(&u)
	r := b.reports[id(i)]
	r.Unreached = append(slices.Clone(r.Unreached), u)
	b.reports[id(i)] = r
}

func plain(*round.Unreached)    {}
func before(u *round.Unreached) { u.Before = true }
func linked(u *round.Unreached) { u.Linked = true }
func planned(d planner.Decision) (nodes []string) {
	if plan, ok := d.Command.(state.PlanRound); ok {
		for _, p := range plan.Participants {
			nodes = append(nodes, p.Node)
		}
	}
	return nodes
}

// TestPeersThatCannotReachOneAnother: two of which neither can dial the other are not planned together, and people are told which ports to
// open. One way is enough, and one that carried before has the stall grace to come back.
func TestPeersThatCannotReachOneAnother(t *testing.T) {
	const open = "sl-0 cannot open sl-1.example:16000 (TCP), which does not answer: open it inbound at sl-1; check: swarmctl identity check sl-1.example:16000"
	all := []string{"sl-0", "sl-1", "sl-2"}
	for _, tt := range []struct {
		name     string
		min      uint32
		required []string
		there    func(*round.Unreached) // what sl-0 says of sl-1; nil: nothing
		back     func(*round.Unreached)
		want     []string
		says     string
	}{
		{"all reach all", 2, nil, nil, nil, all, ""},
		{"one way is shut", 2, nil, plain, nil, all, ""},
		{"one way is shut, the other is in use", 2, nil, linked, nil, all, ""},
		{"neither reaches the other", 2, nil, plain, plain, []string{"sl-0", "sl-2"}, ""},
		{"one of them is required", 2, []string{"sl-1"}, plain, plain, []string{"sl-1", "sl-2"}, ""},
		{"they met before", 2, nil, plain, before, all, ""},
		{"all are needed", 3, nil, plain, plain, nil, "too few peers reach one another: sl-0 and sl-1 can't open connections to each other"},
		{"all are needed, so the ports are named", 3, nil, plain, plain, nil, open},
		{"all are needed, from the other side", 3, nil, plain, plain, nil, "sl-1 cannot open sl-0.example:16000 (TCP), which does not answer: open it inbound at sl-0"},
	} {
		b := newTableOf(t, state.Rules{Required: tt.required}, 3, func(_ int, o *state.OpenSession) { o.Terms.MinPeers = tt.min })
		b.ready(1, 0, 1, 2)
		if tt.there != nil {
			b.cannot(0, 1, tt.there)
		}
		if tt.back != nil {
			b.cannot(1, 0, tt.back)
		}
		d := b.decide()
		text := d.Waiting.String() + "\n" + strings.Join(explain.Lines(d.Waiting, b.now), "\n")
		if got := planned(d); !slices.Equal(got, tt.want) || !strings.Contains(text, tt.says) || tt.want == nil && d.Waiting.Kind != planner.WaitApart {
			t.Errorf("%s: planned %v, want %v:\n%s", tt.name, got, tt.want, text)
		}
	}
}

// TestALiarPutsNobodyOutForEver: who says that it can't reach another, and is not reached by it, is left out as often as the other, whoever
// came first. If it says so only in the rounds in which that puts the other out, both take part in the rest.
func TestALiarPutsNobodyOutForEver(t *testing.T) {
	const rounds = 10
	for _, tt := range []struct {
		name         string
		liar, victim int
		sly          bool
		takes        int // rounds in which the liar takes part
	}{
		{"the liar came first", 0, 2, false, rounds / 2},
		{"the victim came first", 2, 0, false, rounds / 2},
		{"a sly liar came first", 0, 2, true, rounds},
		{"a sly liar came last", 2, 0, true, rounds},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newTable(t, 2, 3)
			takesPart := map[string]int{}
			for n := range rounds {
				b.memory = planner.Memory{} // whoever leads
				b.ready(1, 0, 1, 2)
				if wins := (n%2 == 0) == (tt.liar < tt.victim); wins || !tt.sly {
					b.cannot(tt.liar, tt.victim, plain)
					b.cannot(tt.victim, tt.liar, plain)
				}
				b.follow()
				plan := b.contract().Plan
				for _, p := range plan.Participants {
					takesPart[p.Node]++
				}
				b.commits()
				b.reports = map[string]reports.Report{}
			}
			if got := takesPart[name(tt.victim)]; got != rounds/2 || takesPart[name(tt.liar)] != tt.takes || takesPart["sl-1"] != rounds {
				t.Errorf("of %d rounds the victim took part in %d, want half; all: %v", rounds, got, takesPart)
			}
		})
	}
}

// TestTurnsHoldUpNoRound: where a rule lets only one of two take its turn, it takes part in each round.
func TestTurnsHoldUpNoRound(t *testing.T) {
	b := newTableOf(t, state.Rules{MinWeightSharePPM: 600_000}, 3, func(i int, o *state.OpenSession) {
		if i == 0 {
			o.Weight = 5
		}
	})
	for range 4 {
		b.ready(1, 0, 1, 2)
		b.cannot(0, 2, plain)
		b.cannot(2, 0, plain)
		b.follow()
		if p := b.contract().Plan; p == nil || p.Participant(id(0)) == nil {
			t.Fatalf("round %d: %+v", b.contract().Round()+1, p)
		}
		b.commits()
		b.reports = map[string]reports.Report{}
	}
}

// TestWhoCannotBeReachedIsLeftOutOfTheSecondAttempt: what came out in the first attempt counts in the next, long before the stall grace.
func TestWhoCannotBeReachedIsLeftOutOfTheSecondAttempt(t *testing.T) {
	b := newTable(t, 2, 3)
	b.ready(1, 0, 1, 2)
	b.follow()
	begun := b.now
	words := map[int]word{0: saw("sl-1"), 1: heard("sl-1", "sl-0"), 2: heard("sl-1", "sl-0")}
	for i, w := range words {
		b.tells(i, w)
	}
	b.cannot(0, 1, plain)
	b.cannot(1, 0, plain)
	for b.contract().Attempt == 1 {
		b.now = b.now.Add(100 * time.Millisecond)
		b.follow()
	}
	var with []string
	for _, p := range b.contract().Plan.Participants {
		with = append(with, p.Node)
	}
	if took := b.now.Sub(begun); !slices.Equal(with, []string{"sl-0", "sl-2"}) || took > 2*time.Second {
		t.Errorf("attempt 2 is that of %v, after %s", with, took)
	}
	// The port is opened: all take part in the next round.
	for i := range 3 {
		r := b.reports[id(i)]
		r.Unreached = nil
		b.reports[id(i)] = r
	}
	for _, i := range []int{0, 2} {
		b.tells(i, word{done: true})
	}
	b.follow()
	b.ready(1, 0, 1, 2)
	if got := planned(b.decide()); len(got) != 3 {
		t.Errorf("once there is a way %v are planned", got)
	}
}
