package rpc_test

import (
	"testing"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/lead"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/rpc"
	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange"
)

// TestClaimsAreSignedWhole: what a node says that it merged reaches the leader as it said it, with what contributors have signed of it.
func TestClaimsAreSignedWhole(t *testing.T) {
	s := newSwarm(t)
	a, key := newLearner(t, s, "sl-a")
	if _, err := a.open(t, idA, wireTerms(layout(t, 100), 1)); err != nil {
		t.Fatal(err)
	}
	model, shard, sent := merge.Sum([]byte("model")), merge.Sum([]byte("shard")), merge.Sum([]byte("sent"))
	part := state.Participant{Session: idA, Node: "sl-a", Weight: 1, ShardLeaves: s.core.View().Contracts["study"].Terms.Leaves}
	must(s.core.Propose(t.Context(), state.PlanRound{Contract: "study", Run: 1, Round: 1, Attempt: 1, Participants: []state.Participant{part}}))(t)
	plan := exchange.Planned{
		Contract: "study", Run: 1, Round: 1, Method: "mean", Layout: layout(t, 100).Digest(),
		Participants: []exchange.Participant{{
			Node: s.core.View().Nodes["sl-a"].PeerID, Session: idA, Weight: 1, Shard: merge.Shard{Leaves: int(part.ShardLeaves)},
		}},
	}.Digest()
	out := exchange.Outcome{
		Contract: "study", Run: 1, Round: 1, Number: 1, Node: "sl-a", ModelDigest: model, ShardDigests: []merge.Digest{shard}, Plan: plan,
	}
	claims := []exchange.Claim{{
		Merged: shard, Inputs: []exchange.Input{{Digest: sent, Signature: must(key.Sign(exchange.InputMessage(plan, 0, 0, sent)))(t)}},
	}}
	done := func(change func(claims []*swarmv1.MergeClaim)) *swarmv1.ReportRequest {
		d := &swarmv1.Done{
			Round: 1, Attempt: 1, ModelDigest: model.String(), ShardDigests: []string{shard.String()},
			Signature: must(key.Sign(exchange.DoneMessage(out)))(t), Claims: rpc.ClaimsToProto(claims),
			ReportSignature: must(key.Sign(exchange.ReportMessage(out, nil, nil, claims)))(t),
		}
		change(d.GetClaims())
		msg := &swarmv1.ReportRequest{Sessions: []*swarmv1.SessionReport{{Session: idA, Contract: "study", Run: 1, Done: d}}}
		signReport(t, "sl-a", key, msg)
		return msg
	}
	for name, c := range map[string]struct {
		change func(c []*swarmv1.MergeClaim)
		reason string
	}{
		"another owner":    {func(c []*swarmv1.MergeClaim) { c[0].Owner = 1 }, "SIGNATURE_REFUSED"},
		"sums":             {func(c []*swarmv1.MergeClaim) { c[0].Sums = make([]byte, 32); c[0].Sums[0] = 1 }, "SIGNATURE_REFUSED"},
		"another input":    {func(c []*swarmv1.MergeClaim) { c[0].Inputs[0].Digest = shard[:] }, "SIGNATURE_REFUSED"},
		"no signature":     {func(c []*swarmv1.MergeClaim) { c[0].Inputs[0].Signature = nil }, "SIGNATURE_REFUSED"},
		"no digest":        {func(c []*swarmv1.MergeClaim) { c[0].Merged = nil }, "BAD_REQUEST"},
		"a short input":    {func(c []*swarmv1.MergeClaim) { c[0].Inputs[0].Digest = sent[:31] }, "BAD_REQUEST"},
		"a long signature": {func(c []*swarmv1.MergeClaim) { c[0].Inputs[0].Signature = make([]byte, 5000) }, "BAD_REQUEST"},
		"no such owner":    {func(c []*swarmv1.MergeClaim) { c[0].Owner = 1 << 31 }, "BAD_REQUEST"},
	} {
		_, err := a.sessions().Report(t.Context(), with(a, done(c.change)))
		wantReason(t, name, err, c.reason)
	}
	if _, err := a.sessions().Report(t.Context(), with(a, done(func([]*swarmv1.MergeClaim) {}))); err != nil {
		t.Fatal(err)
	}
	out.ShardDigests[0] = sent // what the owner gave is not what this node found
	msg := done(func([]*swarmv1.MergeClaim) {})
	msg.Sessions[0].Done.ShardDigests = []string{sent.String()}
	msg.Sessions[0].Done.Signature = nil
	signReport(t, "sl-a", key, msg)
	if _, err := a.sessions().Report(t.Context(), with(a, msg)); err != nil {
		t.Errorf("it signs nothing for the ledger then: %v", err)
	}
	reports := s.lead.Reports()
	got := reports[len(reports)-1].Done
	if got == nil || len(got.Claims) != 1 || got.Claims[0].Digest != shard.String() || len(got.Claims[0].Inputs) != 1 {
		t.Fatalf("recorded %+v", got)
	}
	in := got.Claims[0].Inputs[0]
	if !got.Signed(0, 0, in) || got.Signed(0, 1, in) || got.Signed(0, 0, lead.Input{Digest: shard.String(), Signature: in.Signature}) {
		t.Error("a signature holds for what it is not of, or not for what it is of")
	}
}
