package warning_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/planner/warning"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
)

// facts are those of one session of sl-0 in a contract's second run, and one of the run before.
func facts(t round.Trained) warning.Facts {
	return warning.Facts{
		Contract: &state.Contract{Run: 2, Sessions: map[string]*state.Session{
			"s": {ID: "s", Node: "sl-0", Run: 2, Order: 1, SyncFrequency: 1000, Weight: 1, LastRound: 1}, "old": {ID: "old", Node: "sl-1", Run: 1, SyncFrequency: 1000, Weight: 1, LastRound: 1},
			"watches": {ID: "watches", Node: "sl-2", Run: 2, SyncFrequency: 1000, LastRound: 1}, "late": {ID: "late", Node: "sl-3", Run: 2, SyncFrequency: 1000, Weight: 1},
		}},
		Trained: map[string]round.Trained{"s": t, "old": {Ended: true, Counted: true}, "watches": {Ended: true, Counted: true}, "late": {Seq: 1, Ended: true, Counted: true}, "unknown": {Ended: true, Counted: true}},
	}
}

func TestFind(t *testing.T) {
	for _, tt := range []struct {
		name string
		told round.Trained
		want warning.Reason // empty: nothing is wrong
		text string
	}{
		{"just opened", round.Trained{Seq: 1, Counted: true}, "", ""},
		{"in the middle", round.Trained{Seq: 9, Counted: true, Batches: 8, TotalBatches: 64, Changed: 8}, "", ""},
		{"a whole training", round.Trained{Seq: 9, Counted: true, Ended: true, TotalBatches: 5000, Changed: 8}, "", ""},
		{"ended right after a merge", round.Trained{Seq: 9, Counted: true, Ended: true, TotalBatches: 5000, Changed: 8, Batches: 0}, "", ""},
		{"a first step of size 0", round.Trained{Seq: 2, Counted: true, TotalBatches: 1, Unchanged: 1, UnchangedSince: 1}, "", ""},
		{"last steps of size 0", round.Trained{Seq: 12, Counted: true, TotalBatches: 1100, Changed: 8, Unchanged: 4, UnchangedSince: 8}, "", ""},

		{"another model", round.Trained{Seq: 3, Counted: true, TotalBatches: 16, Unchanged: 2, UnchangedSince: 1}, warning.Unchanged, "no tensor of sl-0 has changed since round 1, though it trained 16 batches: is this the model that the optimizer trains?"},
		{"another model, merged once", round.Trained{Seq: 2, Counted: true, Ended: true, TotalBatches: 1024, Unchanged: 1, UnchangedSince: 1}, warning.Unchanged, "though it trained 1024 batches"},
		{"another model from the middle on", round.Trained{Seq: 14, Counted: true, TotalBatches: 1100, Changed: 8, Unchanged: 5, UnchangedSince: 9}, warning.Unchanged, "since round 9"},
		{"a client that does not count", round.Trained{Seq: 3, Unchanged: 2, UnchangedSince: 1}, warning.Unchanged, "no tensor of sl-0 has changed since round 1: is this"},
		{"a client that does not count, ended", round.Trained{Seq: 1, Ended: true}, "", ""},

		{"no data", round.Trained{Seq: 1, Counted: true, Ended: true}, warning.NoData, "sl-0 has trained no batch"},
		{"no data, unchanged", round.Trained{Seq: 1, Counted: true, Ended: true, Unchanged: 1}, warning.NoData, "sl-0 has trained no batch"},
		{"rounds without data", round.Trained{Seq: 2, Counted: true}, warning.NoData, "without having trained a batch"},
		{"no hook", round.Trained{Seq: 1, Counted: true, Ended: true, Changed: 1}, warning.HooksUnused, "on_batch_end was never called at sl-0"},
		{"never due", round.Trained{Seq: 1, Counted: true, Ended: true, Changed: 1, TotalBatches: 24}, warning.NeverDue, "syncFrequency is 1000, the training of sl-0 had 24 batches: nothing was merged between begin and end; give it less, 2 say"},
		{"one batch", round.Trained{Seq: 1, Counted: true, Ended: true, Changed: 1, TotalBatches: 1}, warning.NeverDue, "had 1 batch: nothing was merged between begin and end; give it less, 1 say"},
		{"late: over before anything was due", round.Trained{Seq: 1, Counted: true, Ended: true, Changed: 1, TotalBatches: 1000}, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := warning.Find(facts(tt.told))
			switch {
			case tt.want == "" && len(got) > 0:
				t.Errorf("got %+v, want nothing", got)
			case tt.want != "" && (len(got) != 1 || got[0].Reason != tt.want || got[0].Node != "sl-0" || !strings.Contains(got[0].Text, tt.text)):
				t.Errorf("got %+v, want %s with %q", got, tt.want, tt.text)
			}
		})
	}
}

// TestMinPeers: while sessions enrol the least that one of them wants counts, then the terms do.
func TestMinPeers(t *testing.T) {
	for _, tt := range []struct {
		name            string
		want            [2]uint32
		terms, expected uint32
		over            bool
		text            string // empty: nothing is wrong
	}{
		{"enough", [2]uint32{2, 3}, 0, 3, false, ""},
		{"one of them will do", [2]uint32{5, 2}, 0, 3, false, ""},
		{"too few", [2]uint32{5, 6}, 0, 3, false, "minPeers is 5, but only 3 peers are expected"},
		{"too few of one", [2]uint32{2, 2}, 0, 1, false, "minPeers is 2, but only 1 peer is expected"},
		{"not known how many", [2]uint32{5, 6}, 0, 0, false, ""},
		{"by the terms", [2]uint32{2, 2}, 4, 3, false, "minPeers is 4, but only 3 peers are expected"},
		{"over", [2]uint32{2, 2}, 4, 3, true, ""},
	} {
		c := &state.Contract{Run: 2, Over: tt.over, Sessions: map[string]*state.Session{
			"a":    {Run: 2, Terms: state.Terms{MinPeers: tt.want[0]}, ExpectedPeers: tt.expected},
			"b":    {Run: 2, Terms: state.Terms{MinPeers: tt.want[1]}},
			"old":  {Run: 1, Terms: state.Terms{MinPeers: 1}, ExpectedPeers: 9},
			"gone": {Run: 2, Terms: state.Terms{MinPeers: 1}, ExpectedPeers: 9, State: state.SessionEnded},
		}}
		if tt.terms > 0 {
			c.Terms = &state.Terms{MinPeers: tt.terms}
		}
		got := warning.Find(warning.Facts{Contract: c})
		if tt.text == "" && len(got) > 0 || tt.text != "" && (len(got) != 1 || got[0].Reason != warning.MinPeers || !strings.Contains(got[0].Text, tt.text)) {
			t.Errorf("%s: got %+v, want %q", tt.name, got, tt.text)
		}
	}
}

// TestUnequalData: peers that weigh the same are advised if the largest has more than twice the samples of the smallest.
func TestUnequalData(t *testing.T) {
	for _, tt := range []struct {
		name    string
		samples [3]uint64
		weights [3]uint32
		text    string // empty: nothing is said
	}{
		{"not known", [3]uint64{}, [3]uint32{1, 1, 1}, ""},
		{"known of one", [3]uint64{500, 0, 0}, [3]uint32{1, 1, 1}, ""},
		{"much alike", [3]uint64{500, 251, 400}, [3]uint32{1, 1, 1}, ""},
		{"a third", [3]uint64{400, 300, 1200}, [3]uint32{1, 1, 1}, "sl-2 trains on 1200 samples and sl-1 on 300, but all peers weigh the same: give nodeWeightage=\"samples\" at all peers, or nodeWeightage=100 and nodeWeightage=25, which are in proportion to their samples"},
		{"hardly any", [3]uint64{1, 0, 100000}, [3]uint32{100, 100, 100}, "nodeWeightage=100 and nodeWeightage=1, which are in proportion to their samples"},
		{"weighed", [3]uint64{400, 300, 1200}, [3]uint32{33, 25, 100}, ""},
		{"the smallest takes no part", [3]uint64{400, 3, 500}, [3]uint32{1, 0, 1}, ""},
	} {
		f := warning.Facts{Contract: &state.Contract{Sessions: map[string]*state.Session{}}, Trained: map[string]round.Trained{}}
		for i := range tt.samples {
			id := fmt.Sprint(i)
			f.Contract.Sessions[id] = &state.Session{ID: id, Node: "sl-" + id, Order: uint64(i), Weight: tt.weights[i], SyncFrequency: 1, LastRound: 1}
			f.Trained[id] = round.Trained{Seq: 2, Counted: true, TotalBatches: 9, Changed: 1, DataSamples: tt.samples[i]}
		}
		got := warning.Find(f)
		f.Contract.Terms = &state.Terms{Weights: state.WeightsSamples}
		if by := warning.Find(f); len(by) > 0 {
			t.Errorf("%s: said though weights are numbers of samples: %+v", tt.name, by)
		}
		if tt.text == "" && len(got) > 0 || tt.text != "" && (len(got) != 1 || !got[0].Advice || !strings.HasSuffix(got[0].Text, tt.text)) {
			t.Errorf("%s: got %+v, want %q", tt.name, got, tt.text)
		}
	}
}

// TestAdd: what was said once stays, in its first words, and the list does not grow without end.
func TestAdd(t *testing.T) {
	first := warning.Add(nil, []warning.Warning{{Reason: warning.NoData, Node: "a", Text: "one"}, {Reason: warning.NoData, Node: "b"}})
	second := warning.Add(first, []warning.Warning{{Reason: warning.NoData, Node: "a", Text: "two"}, {Reason: warning.NeverDue, Node: "a"}})
	if len(first) != 2 || len(second) != 3 || second[0].Text != "one" || second[2].Reason != warning.NeverDue {
		t.Errorf("got %+v, before %+v", second, first)
	}
	for i := range 2 * warning.Limit {
		second = warning.Add(second, []warning.Warning{{Reason: warning.NoData, Node: fmt.Sprint(i)}})
	}
	if len(second) != warning.Limit {
		t.Errorf("%d warnings are kept", len(second))
	}
}
