package planner_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/planner/explain"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
)

// TestPeersThatRefuseOneAnother: the largest set in which all accept one another is planned; too small a one waits, and people
// are told who refuses whom.
func TestPeersThatRefuseOneAnother(t *testing.T) {
	for _, tt := range []struct {
		name    string
		refuses map[int][]string
		min     uint32
		want    []string // who is planned
		says    string
	}{
		{"nobody", nil, 2, []string{"sl-0", "sl-1", "sl-2", "sl-3"}, ""},
		{"one refuses one", map[int][]string{0: {"sl-3"}}, 3, []string{"sl-1", "sl-2", "sl-3"}, "sl-0 refuses sl-3"},
		{"one refuses all", map[int][]string{2: {"sl-0", "sl-1", "sl-3"}}, 3, []string{"sl-0", "sl-1", "sl-3"}, "sl-2 refuses sl-0"},
		{"two camps", map[int][]string{0: {"sl-2", "sl-3"}, 1: {"sl-2", "sl-3"}}, 2, []string{"sl-2", "sl-3"}, "sl-1 refuses sl-2"},
		{"too few accept", map[int][]string{0: {"sl-2", "sl-3"}, 1: {"sl-2", "sl-3"}}, 3, nil, "too few peers accept one another"},
		{"whom nobody knows, and oneself", map[int][]string{0: {"sl-0", "sl-9"}}, 4, []string{"sl-0", "sl-1", "sl-2", "sl-3"}, ""},
	} {
		b := newTable(t, tt.min, 4)
		b.ready(1, 0, 1, 2, 3)
		for i, names := range tt.refuses {
			b.reports[id(i)].Ready.Refuses = names
		}
		d := b.decide()
		var got []string
		if plan, ok := d.Command.(state.PlanRound); ok {
			for _, p := range plan.Participants {
				got = append(got, p.Node)
			}
		}
		text := d.Waiting.String() + "\n" + strings.Join(explain.Lines(d.Waiting, b.now), "\n")
		if !slices.Equal(got, tt.want) || !strings.Contains(text, tt.says) || tt.want == nil && d.Waiting.Kind != planner.WaitRefusal {
			t.Errorf("%s: planned %v, want %v:\n%s", tt.name, got, tt.want, text)
		}
	}
}

// TestARefusalWithinARound: one that refuses a participant of the plan is heard before the next attempt.
func TestARefusalWithinARound(t *testing.T) {
	b := newTable(t, 2, 3)
	b.ready(1, 0, 1, 2)
	b.apply(b.decide().Command)
	r := b.reports[id(0)]
	r.Ready.Refuses = []string{"sl-2"}
	r.Failed, r.FailedAt = &round.Failed{Round: 1, Attempt: 1, Reason: "refused", Code: "REFUSED"}, b.now
	b.reports[id(0)] = r
	for range 200 {
		if plan, ok := b.decide().Command.(state.PlanRound); ok {
			if len(plan.Participants) != 2 || plan.Participants[0].Node == "sl-0" {
				t.Errorf("planned %v", plan.Participants)
			}
			return
		}
		b.now = b.now.Add(100e6)
	}
	t.Error("no further attempt")
}
