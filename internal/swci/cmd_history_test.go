package swci_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// pastAPI is a swarm that has kept a history.
type pastAPI struct{ fakeAPI }

// GetContractStatus returns one with three rounds.
func (*pastAPI) GetContractStatus(_ context.Context, name string) (*swarmv1.GetContractStatusResponse, error) {
	return &swarmv1.GetContractStatusResponse{Contract: &swarmv1.ContractView{Name: name, Run: 2}, Recent: []*swarmv1.CommittedRound{{Round: 1}, {Round: 2}, {Round: 3}}}, nil
}

// GetHistory returns the two newest of three rounds.
func (*pastAPI) GetHistory(r *swarmv1.GetHistoryRequest) *swarmv1.GetHistoryResponse {
	if r.GetContract() != "c" || !r.GetSpread() {
		return &swarmv1.GetHistoryResponse{}
	}
	f1, ms, low, high, mean, one, three, sent := "f1", uint64(1500), 0.2, 0.6, 0.3, uint32(1), uint32(3), uint64(40)
	out := &swarmv1.GetHistoryResponse{Run: 2, Last: 3, Thinned: 1, Rounds: []*swarmv1.HistoryRound{
		{Round: 2, Attempt: 1, CommittedUnixMs: 2000, Digest: "aa", Loss: &low, MetricName: &f1, Method: "mean", Record: 7, Peers: []*swarmv1.HistoryPeer{{Node: "sl-0", Loss: &low, MetricName: f1, Contributed: true}, {Node: "sl-1", Loss: &high}}},
		{
			Round: 3, Attempt: 2, PlannedUnixMs: 2500, CommittedUnixMs: 4000, Digest: "bb", TrainingMs: &ms, Loss: &mean, Weighted: true,
			Failed: []*swarmv1.HistoryFailure{{Attempt: 1, Blamed: "sl-1", Reason: "it hangs", AtUnixMs: 3000}},
			Peers: []*swarmv1.HistoryPeer{
				{Node: "sl-0", Loss: &low, Weight: &three, Contributed: true, SentBytes: &sent}, {Node: "sl-1", Loss: &high, Weight: &one, Contributed: true, SentBytes: &sent}, {Node: "sl-2"},
			},
		},
	}}
	out.Rounds = slices.DeleteFunc(out.Rounds, func(x *swarmv1.HistoryRound) bool { return x.Round <= r.GetAfter() })
	out.Earlier = []uint64{1}
	switch r.GetRun() {
	case 0, 2:
	case 1:
		out.Run = 1
	default:
		return &swarmv1.GetHistoryResponse{Run: r.GetRun(), Earlier: out.GetEarlier()}
	}
	return out
}

// hiddenAPI is a swarm whose contract hides the curves of each peer.
type hiddenAPI struct{ fakeAPI }

// GetHistory returns the means of one round.
func (*hiddenAPI) GetHistory(*swarmv1.GetHistoryRequest) *swarmv1.GetHistoryResponse {
	loss := 0.25
	return &swarmv1.GetHistoryResponse{Run: 1, Last: 1, Hidden: "shown to others only", Rounds: []*swarmv1.HistoryRound{{Round: 1, CommittedUnixMs: 2000, Loss: &loss, Weighted: true, Peers: []*swarmv1.HistoryPeer{{Node: "sl-0", Contributed: true}}}}}
}

// TestHiddenCurves: the mean is shown, and why there is no more.
func TestHiddenCurves(t *testing.T) {
	out, beside, err := on(t, &hiddenAPI{}, "", "get", "contract", "history", "c", "--sn=h")
	if err != nil || !strings.Contains(out, "0.2500  -") || !strings.Contains(beside, "shown to others only") {
		t.Errorf("%v, beside %q, got\n%s", err, beside, out)
	}
	out, _, err = on(t, &hiddenAPI{}, "", "get", "contract", "history", "c", "--sn=h", "-o", "json")
	var got struct {
		Hidden string
		Rounds []struct {
			Loss  *float64
			Peers []struct{ Loss *float64 }
		}
	}
	if bad := json.Unmarshal([]byte(out), &got); err != nil || bad != nil || got.Hidden == "" || *got.Rounds[0].Loss != 0.25 || got.Rounds[0].Peers[0].Loss != nil {
		t.Errorf("%v %v, got %s", err, bad, out)
	}
}

// TestContractHistory as a table and as JSON: what nobody has told is absent, and the loss is the mean that the SN tells.
func TestContractHistory(t *testing.T) {
	out, beside, err := on(t, &pastAPI{}, "", "get", "contract", "history", "c", "--sn=h")
	want := `ROUND  COMMITTED            TRAINING  WAITING  EXCHANGE  COMMIT  LOSS    F1  SENT  FAILED  PEERS
2      1970-01-01 00:00:02  -         -        -         -       0.2000  -   -     0       sl-0
3      1970-01-01 00:00:04  1.5s      -        -         -       0.3000  -   80    1       sl-0, sl-1
`
	if err != nil || out != want || !strings.Contains(beside, "1 round between them are left out") || !strings.Contains(beside, "of 1 round the weights are not known") {
		t.Errorf("%v, beside %q, got\n%s", err, beside, out)
	}
	out, _, err = on(t, &pastAPI{}, "", "get", "contract", "history", "c", "--sn=h", "-o", "json")
	var got struct {
		Run     int
		Thinned int
		Metric  string `json:"metric_name"`
		Rounds  []struct {
			Record      *uint64
			Method      string
			MetricName  *string `json:"metric_name"`
			Loss        *float64
			Weighted    bool
			DurationsMS map[string]*int `json:"durations_ms"`
			BytesSent   *int            `json:"bytes_sent"`
			Failed      []struct{ Blamed, At string }
			Peers       []struct {
				Loss, Weight *float64
				MetricName   *string `json:"metric_name"`
			}
		}
		Recorded, Reported []string
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if two, three := got.Rounds[0], got.Rounds[1]; got.Metric != "f1" || *two.MetricName != "f1" || two.Peers[0].MetricName != nil || two.Method != "mean" || *two.Record != 7 || three.MetricName != nil || three.Record != nil || three.Method != "" {
		t.Errorf("of the metric and the ledger: %s", out)
	}
	if err != nil || got.Run != 2 || got.Thinned != 1 || len(got.Rounds) != 2 || got.Rounds[0].Weighted || !got.Rounds[1].Weighted || got.Rounds[0].BytesSent != nil || *got.Rounds[1].BytesSent != 80 ||
		*got.Rounds[1].DurationsMS["training"] != 1500 || got.Rounds[1].Failed[0].Blamed != "sl-1" || len(got.Rounds[1].Peers) != 3 || got.Rounds[1].Peers[2].Loss != nil || slices.Contains(got.Recorded, "planned") || slices.Contains(got.Recorded, "committed") || !slices.Contains(got.Recorded, "digest") ||
		!slices.Contains(got.Reported, "loss") || strings.Contains(out, "proven") {
		t.Errorf("%v, got %s", err, out)
	}
	if _, _, err := on(t, &pastAPI{}, "", "get", "contract", "history", "c", "--points=0", "--sn=h"); exit.Code(err) != exit.Usage {
		t.Errorf("--points=0: %v", err)
	}
	out, _, err = on(t, &pastAPI{}, "", "get", "contract", "history", "c", "--run=1", "--sn=h", "-o", "json")
	if err != nil || !strings.Contains(out, `"run": 1,`) || !strings.Contains(out, `"earlier": [`) {
		t.Errorf("--run=1: %v, got %s", err, out)
	}
	if _, _, err := on(t, &pastAPI{}, "", "get", "contract", "history", "c", "--run=7", "--sn=h"); exit.Code(err) != exit.NotFound || !strings.Contains(err.Error(), "they have one of run 1") || !strings.Contains(exit.Hint(err), "swarmctl get ledger") {
		t.Errorf("of a run that nobody has kept: %v", err)
	}
	if _, _, err := on(t, &hiddenAPI{}, "", "get", "contract", "history", "c", "--run=2", "--sn=h"); exit.Code(err) != exit.NotFound || !strings.Contains(err.Error(), "of no earlier run") { // as by an SN of an earlier version
		t.Errorf("of an SN that knows no runs: %v", err)
	}
	out, _, err = on(t, &pastAPI{}, "", "get", "contract", "history", "c", "--after=2", "--sn=h", "-o", "json")
	if err != nil || strings.Contains(out, `"round": 2`) || !strings.Contains(out, `"round": 3`) || !strings.Contains(out, `"after": 2`) {
		t.Errorf("--after=2: %v, got %s", err, out)
	}
}

// TestNewestRounds: of a history and of a status the newest rounds alone can be asked for, as the dashboard does.
func TestNewestRounds(t *testing.T) {
	for line, want := range map[string][]uint64{
		"get contract history c": {2, 3}, "get contract history c --after=2": {3}, "get contract status c": {1, 2, 3}, "get contract status c --rounds=2": {2, 3}, "get contract status c --rounds=9": {1, 2, 3},
	} {
		out, _, err := on(t, &pastAPI{}, "", append(strings.Fields(line), "--sn=h", "-o", "json")...)
		var got struct{ Rounds []struct{ Round uint64 } }
		if err := errors.Join(err, json.Unmarshal([]byte(out), &got)); err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
		var rounds []uint64
		for _, r := range got.Rounds {
			rounds = append(rounds, r.Round)
		}
		if !slices.Equal(rounds, want) {
			t.Errorf("%s: rounds %v, want %v", line, rounds, want)
		}
	}
}
