package rpc_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/planner/reports"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/round/onwire"
	"github.com/swarmd/swarmd/internal/rpc"
	"github.com/swarmd/swarmd/internal/rpc/messages"
	"github.com/swarmd/swarmd/internal/rpc/rpctest"
	"github.com/swarmd/swarmd/merge"
)

func TestNodeRoundTrip(t *testing.T) {
	want := rpctest.Filled[state.Node]()
	wire := messages.Node(&want)
	rpctest.Full(t, wire, "leader", "sn", "banned", "use", "dial_back", "links", "ranks") // known to the caller only
	got, err := rpc.NodeFromProto(wire)
	if err != nil {
		t.Fatal(err)
	}
	// What a node may not say of itself is not taken from the wire.
	want.Live, want.LiveSinceMS, want.LeftReason, want.Sentinel, want.TokenHashes = false, 0, "", false, nil
	want.Recorded, want.Proof = 0, nil
	if d := cmp.Diff(got, want); d != "" {
		t.Error(d)
	}
	if _, err := rpc.NodeFromProto(&swarmv1.Node{FsPort: 70000}); err == nil {
		t.Error("port 70000 was taken")
	}
}

func layout(t *testing.T, elements int64) *merge.Layout {
	t.Helper()
	dtype, err := merge.ParseDType("float32")
	if err != nil {
		t.Fatal(err)
	}
	l, err := merge.NewLayout([]merge.Tensor{{Name: "w", DType: dtype, Shape: []int64{elements}}})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func wireTerms(l *merge.Layout, minPeers uint32) *swarmv1.Terms {
	return &swarmv1.Terms{LayoutDigest: l.Digest().String(), Layout: l.Canonical(), Method: "mean", MinPeers: minPeers}
}

func bySamples(l *merge.Layout, minPeers uint32) *swarmv1.Terms {
	terms := wireTerms(l, minPeers)
	terms.Weights = state.WeightsSamples
	return terms
}

func TestTermsRoundTrip(t *testing.T) {
	l := layout(t, 100000)
	got, err := rpc.TermsFromProto(bySamples(l, 3))
	if err != nil {
		t.Fatal(err)
	}
	if got.Leaves != uint64(l.Leaves()) || got.MinPeers != 3 || got.Method != "mean" {
		t.Errorf("got %+v", got)
	}
	for name, bad := range map[string]*swarmv1.Terms{
		"no terms":     nil,
		"wrong digest": {LayoutDigest: "00", Layout: l.Canonical(), Method: "mean", MinPeers: 3},
		"no layout":    {LayoutDigest: l.Digest().String(), Method: "mean", MinPeers: 3},
		"large layout": {LayoutDigest: l.Digest().String(), Layout: make([]byte, 2<<20), Method: "mean", MinPeers: 3},
	} {
		if _, err := rpc.TermsFromProto(bad); rpc.ReasonOf(err) != "BAD_REQUEST" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReportCarriesEveryField(t *testing.T) {
	wire := &swarmv1.SessionReport{
		Session: "s", Contract: "c", Run: 1,
		Ready:    &swarmv1.Ready{Seq: 2, BaseRound: 3, BaseDigest: "d", Weight: 4, UpdateNorm: 16, Refuses: []string{"sl-9", "no name"}},
		Done:     &swarmv1.Done{Round: 5, Attempt: 6, ModelDigest: "m", ShardDigests: []string{"x"}, Signature: []byte{7}, StateDigest: "z", UpdateSquares: []float64{17}, Seals: [][]byte{{18}}, ShardsDigest: "v", Claims: []*swarmv1.MergeClaim{{Owner: 20}}},
		Failed:   &swarmv1.Failed{Round: 8, Attempt: 9, Blamed: "b", Reason: "r", BytesReceived: 10, HeardFrom: "f", Code: "THIRD_OWNER", Unreached: &swarmv1.Unreached{Node: "sl-9", Address: "h:1", Cause: "refused"}},
		Progress: &swarmv1.Progress{Round: 11, Loss: 12, Metric: 13, HasLoss: true, HasMetric: true, EpochsDone: 14, TotalEpochs: 15, MetricName: "f1 " + strings.Repeat("x", 61), Phase: "training", SentBytes: 16, ReceivedBytes: 17},
		Held:     []*swarmv1.HeldModel{{Round: 18, Digest: "h"}},
		Number:   20, Signature: []byte{21},
		Unreached: []*swarmv1.Unreached{{Node: "sl-8", Address: "h:2\n", Cause: "timeout", Linked: true, Before: true}},
		Proofs:    []*swarmv1.RoundProof{{}}, // verified before the leader has them, as Done is
		Trained:   &swarmv1.Trained{Seq: 1, Ended: true, Counted: true, Batches: 2, Samples: 3, TotalBatches: 4, TotalSamples: 5, DataSamples: 6, Changed: 7, Unchanged: 8, UnchangedSince: 9},
	}
	for _, m := range []proto.Message{wire, wire.GetReady(), wire.GetDone(), wire.GetFailed(), wire.GetProgress(), wire.GetTrained(), wire.GetUnreached()[0]} {
		rpctest.Full(t, m) // so that a new field is not forgotten above
	}
	want := reports.Report{
		Session: "s", Contract: "c", Run: 1, Node: "n", Number: 20,
		Ready:     &round.Ready{Seq: 2, BaseRound: 3, BaseDigest: "d", Weight: 4, UpdateNorm: 16, Refuses: []string{"sl-9"}},
		Failed:    &round.Failed{Round: 8, Attempt: 9, Blamed: "b", Reason: "r", BytesReceived: 10, HeardFrom: "f", Code: "THIRD_OWNER", Unreached: &round.Unreached{Node: "sl-9", Address: "h:1", Cause: "refused"}},
		Progress:  &round.Progress{Round: 11, Loss: 12, Metric: 13, HasLoss: true, HasMetric: true, EpochsDone: 14, TotalEpochs: 15, MetricName: "f1 " + strings.Repeat("x", 61), Phase: "training", SentBytes: 16, ReceivedBytes: 17},
		Held:      []round.Model{{Round: 18, Digest: "h"}},
		Trained:   &round.Trained{Seq: 1, Ended: true, Counted: true, Batches: 2, Samples: 3, TotalBatches: 4, TotalSamples: 5, DataSamples: 6, Changed: 7, Unchanged: 8, UnchangedSince: 9},
		Unreached: []round.Unreached{{Node: "sl-8", Address: "h:2 ", Cause: "timeout", Linked: true, Before: true}},
	}
	if d := cmp.Diff(rpc.ReportFromProto("n", wire), want); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(onwire.Progress(want.Progress), wire.GetProgress(), cmp.Comparer(proto.Equal)); d != "" {
		t.Error(d)
	}
	wire.Progress.MetricName = "f1\n" + strings.Repeat("x", 90)
	if got := rpc.ReportFromProto("n", wire).Progress.MetricName; got != want.Progress.MetricName {
		t.Errorf("what would not fit all who are shown it is taken as %q", got)
	}
}
