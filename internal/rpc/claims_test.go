package rpc_test

import (
	"strings"
	"testing"

	"github.com/libp2p/go-libp2p/core/crypto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/round/onwire"
	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange"
)

// planned opens sessions of two learners and plans a round of both, as the first one signs it.
func planned(t *testing.T, s *swarm, witnesses uint32) (*peer, crypto.PrivKey, merge.Digest) {
	t.Helper()
	must(s.core.Propose(t.Context(), state.CreateContract{Contract: "study", Rules: state.Rules{Witnesses: witnesses}}))(t)
	a, key := newLearner(t, s, "sl-a")
	b, _ := newLearner(t, s, "sl-b")
	l := layout(t, 1<<20)
	var parts []state.Participant
	for id, p := range map[string]*peer{idA: a, idB: b} {
		if _, err := p.open(t, id, wireTerms(l, 1)); err != nil {
			t.Fatal(err)
		}
	}
	for i, id := range []string{idA, idB} {
		parts = append(parts, state.Participant{Session: id, Node: []string{"sl-a", "sl-b"}[i], Weight: 1})
	}
	view := s.core.View()
	allotted := must(view.Allot(view.Contracts["study"], parts))(t)
	must(s.core.Propose(t.Context(), state.PlanRound{Contract: "study", Run: 1, Round: 1, Attempt: 1, Participants: allotted, Allotted: true}))(t)
	plan := exchange.Planned{Contract: "study", Run: 1, Round: 1, Method: "mean", Layout: l.Digest(), Witnesses: int(witnesses)}
	for _, p := range allotted {
		part := exchange.Participant{Node: view.Nodes[p.Node].PeerID, Session: p.Session, Weight: 1, Unit: view.Unit(p)}
		for _, r := range p.Runs() {
			part.Own(merge.Shard{First: int(r.First), Leaves: int(r.Leaves)})
		}
		plan.Participants = append(plan.Participants, part)
	}
	return a, key, plan.Digest()
}

// TestNoClaimsWithoutWitnesses: nobody judges claims where parts have no witnesses, so none may take the place of a node's signature
// for the ledger.
func TestNoClaimsWithoutWitnesses(t *testing.T) {
	s := newSwarm(t)
	a, key, _ := planned(t, s, 0)
	model, shard := merge.Sum([]byte("model")), merge.Sum([]byte("shard"))
	claims := []round.Claim{{Merged: model}} // not what its owner gave
	msg := &swarmv1.ReportRequest{Sessions: []*swarmv1.SessionReport{{Session: idA, Contract: "study", Run: 1, Done: &swarmv1.Done{
		Round: 1, Attempt: 1, ModelDigest: model.String(), ShardDigests: []string{shard.String(), model.String()},
		ShardsDigest: merge.Combine([]merge.Digest{shard, model}).String(), Claims: onwire.Report(&round.Report{Done: &round.Done{Claims: claims}}).GetDone().GetClaims(),
	}}}}
	signReport(t, "sl-a", key, msg)
	_, err := a.sessions().Report(t.Context(), with(a, msg))
	wantReason(t, "claims of parts without witnesses", err, "BAD_REQUEST")
}

// TestClaimsAreSignedWhole: what a node says that it merged reaches the leader as it said it, with what contributors have signed of it, also
// where another SN passes it on.
func TestClaimsAreSignedWhole(t *testing.T) {
	s := newSwarm(t)
	a, key, plan := planned(t, s, 2)
	model, shard, sent := merge.Sum([]byte("model")), merge.Sum([]byte("shard")), merge.Sum([]byte("sent"))
	out := exchange.Outcome{
		Contract: "study", Run: 1, Round: 1, Number: 1, Node: "sl-a", ModelDigest: model, ShardsDigest: merge.Combine([]merge.Digest{shard, model}), Plan: plan,
	}
	must(s.core.Propose(t.Context(), state.RegisterNode{Node: state.Node{Name: "sn-1", Role: "sn", PeerID: "sn-1"}, TokenHash: strings.Repeat("0", 64)}))(t)
	pass := func(m *swarmv1.ReportRequest) error {
		return s.passOn(a, "sn-1", m)
	}
	claims := []round.Claim{{
		Merged: shard, Inputs: []round.Input{{Digest: sent, Signature: must(key.Sign(exchange.InputMessage(plan, 0, 0, sent)))(t)}},
	}}
	done := func(change func(claims []*swarmv1.MergeClaim)) *swarmv1.ReportRequest {
		d := &swarmv1.Done{
			Round: 1, Attempt: 1, ModelDigest: model.String(), ShardDigests: []string{shard.String(), model.String()},
			Signature: must(key.Sign(exchange.AttestationMessage(out)))(t), Claims: onwire.Report(&round.Report{Done: &round.Done{Claims: claims}}).GetDone().GetClaims(), ShardsDigest: out.ShardsDigest.String(),
		}
		msg := &swarmv1.ReportRequest{Sessions: []*swarmv1.SessionReport{{Session: idA, Contract: "study", Run: 1, Done: d}}}
		signReport(t, "sl-a", key, msg)
		change(d.GetClaims())
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
		"no digest":        {func(c []*swarmv1.MergeClaim) { c[0].Merged = nil }, "SIGNATURE_REFUSED"},
		"a long signature": {func(c []*swarmv1.MergeClaim) { c[0].Inputs[0].Signature = make([]byte, 5000) }, "BAD_REQUEST"},
		"no such owner":    {func(c []*swarmv1.MergeClaim) { c[0].Owner = 1 << 31 }, "BAD_REQUEST"},
	} {
		if err := pass(done(c.change)); reasonOf(err) != c.reason {
			t.Errorf("%s: %v, want %s", name, err, c.reason)
		}
	}
	for name, change := range map[string]func(c []*swarmv1.MergeClaim){
		"no digest":     func(c []*swarmv1.MergeClaim) { c[0].Merged = nil },
		"a short input": func(c []*swarmv1.MergeClaim) { c[0].Inputs[0].Digest = sent[:31] },
	} {
		_, err := a.sessions().Report(t.Context(), with(a, done(change)))
		wantReason(t, name, err, "BAD_REQUEST")
	}
	short := done(func([]*swarmv1.MergeClaim) {})
	short.Sessions[0].Done.ShardDigests = nil
	_, err := a.sessions().Report(t.Context(), with(a, short))
	wantReason(t, "no digests of shards that have witnesses", err, "BAD_REQUEST")
	if _, err := a.sessions().Report(t.Context(), with(a, done(func([]*swarmv1.MergeClaim) {}))); err != nil {
		t.Fatal(err)
	}
	msg := done(func([]*swarmv1.MergeClaim) {}) // what the owner gave is not what this node found
	msg.Sessions[0].Done.ShardDigests = []string{sent.String(), model.String()}
	msg.Sessions[0].Done.ShardsDigest = merge.Combine([]merge.Digest{sent, model}).String()
	msg.Sessions[0].Done.Signature = nil
	signReport(t, "sl-a", key, msg)
	if _, err := a.sessions().Report(t.Context(), with(a, msg)); err != nil {
		t.Errorf("it signs nothing for the ledger then: %v", err)
	}
	reports := s.lead.Reports()
	got := reports[len(reports)-1]
	if got.Done == nil || len(got.Done.Claims) != 1 || got.Done.Claims[0].Shard() != shard || len(got.Done.Claims[0].Inputs) != 1 {
		t.Fatalf("recorded %+v", got)
	}
	in := got.Done.Claims[0].Inputs[0]
	if !got.Signed(0, 0, in) || got.Signed(0, 1, in) || got.Signed(0, 0, round.Input{Digest: shard, Signature: in.Signature}) {
		t.Error("a signature holds for what it is not of, or not for what it is of")
	}
}
