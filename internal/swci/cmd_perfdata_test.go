package swci_test

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/swci"
)

// perfAPI is a swarm in whose contract three peers train. sl-b has started a second time, and sl-a leads nothing.
type perfAPI struct {
	fakeAPI

	plan      *swarmv1.Plan
	committed *swarmv1.CommittedRound
}

func (f *perfAPI) GetContractStatus(context.Context, string) (*swarmv1.GetContractStatusResponse, error) {
	progress := func(loss float64) *swarmv1.Progress {
		return &swarmv1.Progress{Loss: loss, HasLoss: true, Metric: 0.9, HasMetric: true, EpochsDone: 2, TotalEpochs: 5}
	}
	return &swarmv1.GetContractStatusResponse{Contract: &swarmv1.ContractView{
		Name: "c", Run: 2, Plan: f.plan, Committed: f.committed, Sessions: []*swarmv1.Session{
			{Node: "sl-a", Run: 2, PeerId: "12D3KooA", NoShard: true, Progress: progress(0.1)},
			{Node: "sl-b", Run: 2, PeerId: "12D3KooB", State: "ended"},
			{Node: "sl-c", Run: 2, PeerId: "12D3KooC"},
			{Node: "sl-b", Run: 2, PeerId: "12D3KooB", Progress: progress(0.25)},
			{Node: "sl-z", Run: 1, PeerId: "12D3KooZ"},
		},
	}}, nil
}

func TestPerfdata(t *testing.T) {
	for _, tt := range []struct {
		name  string
		api   perfAPI
		admin string
	}{
		{"before the first round", perfAPI{}, ""},
		{"while a round is merged", perfAPI{
			plan: &swarmv1.Plan{Participants: []*swarmv1.Participant{
				{Node: "sl-a"}, {Node: "sl-b", ShardFirst: 4, ShardLeaves: 3}, {Node: "sl-c", ShardLeaves: 4},
			}},
			committed: &swarmv1.CommittedRound{Participants: []string{"sl-b"}},
		}, "sl-c"},
		{"between rounds", perfAPI{committed: &swarmv1.CommittedRound{Participants: []string{"sl-z", "sl-a", "sl-b", "sl-c"}}}, "sl-b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			mark := func(node, yes, no string) string {
				if node == tt.admin {
					return yes
				}
				return no
			}
			out := asked(t, &tt.api, "", "perfdata", "c")
			want := `NODE  ADMIN  LOSS    METRIC  EPOCHS  UID
sl-a  no     0.1000  0.9000  2/5     12D3KooA
sl-b  ` + mark("sl-b", "yes", "no ") + `    0.2500  0.9000  2/5     12D3KooB
sl-c  ` + mark("sl-c", "yes", "no ") + `    -       -       0       12D3KooC
`
			if diff := cmp.Diff(want, out); diff != "" {
				t.Errorf("table (-want +got):\n%s", diff)
			}
			out = asked(t, &tt.api, "PERFDATA c\n", "-f", "-")
			want = `SWCI:0 > PERFDATA c
    SL_UID,SL_ADMIN,LOSS,METRIC,TOTAL_EPOCHS,COMPLETED_EPOCHS
    12D3KooA,FALSE,0.1000,0.9000,5,2
    12D3KooB,` + mark("sl-b", "TRUE", "FALSE") + `,0.2500,0.9000,5,2
    12D3KooC,` + mark("sl-c", "TRUE", "FALSE") + `,,,0,0
`
			if diff := cmp.Diff(want, out); diff != "" {
				t.Errorf("words (-want +got):\n%s", diff)
			}
		})
	}
}

// asked runs a line on a swarm that answers as api does, and returns standard output.
func asked(t *testing.T, api fake, typed string, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	s := &swci.Session{
		Env: swci.Env{
			Stdin: strings.NewReader(typed), Stdout: &out, Stderr: io.Discard,
			Getenv:     func(k string) string { return map[string]string{"XDG_STATE_HOME": t.TempDir()}[k] },
			IsTerminal: func(io.Writer) bool { return false },
		},
		Connect: func(context.Context, swci.Context) (client.Operator, func(), error) {
			return answering(t, api), func() {}, nil
		},
	}
	if err := swci.Execute(t.Context(), append(args, "--sn=sn1", "--identity=/run/agent.sock"), s); err != nil {
		t.Errorf("%q: %v", args, err)
	}
	return out.String()
}
