package messages_test

import (
	"testing"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/rpc/messages"
)

// TestMetricNames: the metric is called what all call it that name it, and nothing where they differ: then it has no mean.
func TestMetricNames(t *testing.T) {
	none, same, differ := "none", "f1", ""
	for _, test := range []struct {
		names []string
		want  string
	}{{nil, none}, {[]string{"", ""}, none}, {[]string{"", "f1"}, same}, {[]string{"f1", "f1"}, same}, {[]string{"f1", "auc", "f1"}, differ}} {
		past := &swarmv1.HistoryRound{Round: 1}
		view, told := &swarmv1.ContractView{Run: 2}, planner.Status{Progress: map[string]round.Progress{"before": {MetricName: "r2"}}}
		view.Sessions = append(view.Sessions, &swarmv1.Session{Id: "before", Run: 1})
		for i, name := range test.names {
			id := string(rune('a' + i))
			past.Peers = append(past.Peers, &swarmv1.HistoryPeer{Node: id, MetricName: name, Metric: new(0.5), Contributed: true})
			view.Sessions = append(view.Sessions, &swarmv1.Session{Id: id, Run: 2})
			told.Progress[id] = round.Progress{HasMetric: true, MetricName: name}
		}
		messages.ShowHistory(&swarmv1.GetHistoryResponse{Rounds: []*swarmv1.HistoryRound{past}}, "")
		got := none
		if past.MetricName != nil {
			got = past.GetMetricName()
		}
		if mean := past.Metric != nil; mean != (len(test.names) > 0 && test.want != differ) {
			t.Errorf("of a round with %q there is a mean: %t", test.names, mean)
		}
		if got != test.want {
			t.Errorf("of a round with %q: %q", test.names, got)
		}
		if got := messages.Status("sn-1", view, told, 0).GetMetricName(); got != test.want && !(got == "" && test.want == none) {
			t.Errorf("of sessions with %q: %q", test.names, got)
		}
	}
}
