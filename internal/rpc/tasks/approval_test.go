package tasks_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/rpc/rpctest"
	"github.com/swarmd/swarmd/internal/rpc/tasks"
)

// TestWordsKeepAllThatWasSigned: every field of an approval and a refusal reaches the command, and who says so is who signed.
func TestWordsKeepAllThatWasSigned(t *testing.T) {
	o := &ledger.Order{By: "spiffe://hospital.example/swarm/swci/bob"}
	digest := strings.Repeat("d", 64)
	on := &swarmv1.PartOfHost{Assignment: "7", Task: "pull", Digest: digest, Taskrunner: "tr", Host: "h-1", ExpiresUnixMs: 9, Image: "sha256:" + digest}
	yes, no := &swarmv1.ApproveTaskRequest{Part: on}, &swarmv1.RefuseTaskRequest{Part: on, Reason: "not today"}
	rpctest.Full(t, on)
	rpctest.Full(t, yes, "order")
	rpctest.Full(t, no, "order")
	part := state.PartOfHost{Assignment: "7", Task: "pull", Digest: digest, Taskrunner: "tr", Host: "h-1", By: o.By, AtMS: 6, Order: o}
	for _, tt := range []struct {
		asked tasks.Asking
		want  state.Command
	}{{yes, state.ApproveTask{PartOfHost: part}}, {no, state.RefuseTask{PartOfHost: part, Reason: "not today"}}} {
		got, err := tasks.Command(state.New(), tt.asked, o, 6)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Error(d)
		}
	}
}

func until(ms int64) *swarmv1.PartOfHost { return &swarmv1.PartOfHost{ExpiresUnixMs: ms} }

func TestWordsThatNoHostTakes(t *testing.T) {
	for want, asked := range map[string]tasks.Asking{
		"never expires":     &swarmv1.ApproveTaskRequest{},
		"expired 2ms ago":   &swarmv1.ApproveTaskRequest{Part: until(4)},
		"valid for 168h0m0": &swarmv1.RefuseTaskRequest{Part: until(7 + task.MaxValidMS)},
		"one line":          &swarmv1.RefuseTaskRequest{Part: until(9), Reason: "a\nb"},
		"300 bytes":         &swarmv1.RefuseTaskRequest{Part: until(9), Reason: strings.Repeat("x", 300)},
		"no host begins": &swarmv1.AssignTaskRequest{
			Id: "7", Digest: strings.Repeat("d", 64), ExpiresUnixMs: 7 + task.MaxValidMS,
		},
	} {
		if _, err := tasks.Command(state.New(), asked, &ledger.Order{}, 6); state.ReasonOf(err) != state.ReasonBadCommand || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
