package onwire

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/merge"
)

// Report is what a session says in a heartbeat; nil for nil.
func Report(r *round.Report) *swarmv1.SessionReport {
	if r == nil {
		return nil
	}
	out := &swarmv1.SessionReport{
		Session: r.Session, Contract: r.Contract, Run: r.Run, Number: r.Number, Signature: r.Signature, Done: doneToProto(r.Done),
		Progress: Progress(r.Progress),
	}
	if x := r.Ready; x != nil {
		out.Ready = &swarmv1.Ready{
			Seq: x.Seq, BaseRound: x.BaseRound, BaseDigest: x.BaseDigest, Weight: x.Weight, UpdateNorm: x.UpdateNorm, Refuses: x.Refuses,
		}
	}
	if x := r.Failed; x != nil {
		out.Failed = &swarmv1.Failed{
			Round: x.Round, Attempt: x.Attempt, Blamed: x.Blamed, Reason: x.Reason, BytesReceived: x.BytesReceived, HeardFrom: x.HeardFrom, Code: x.Code,
		}
		if x.Unreached != nil {
			out.Failed.Unreached = unreachedToProto(*x.Unreached)
		}
	}
	for _, u := range r.Unreached {
		out.Unreached = append(out.Unreached, unreachedToProto(u))
	}
	out.Trained = trainedToProto(r.Trained)
	for _, m := range r.Held {
		out.Held = append(out.Held, &swarmv1.HeldModel{Round: m.Round, Digest: m.Digest, StateDigest: m.State})
	}
	for _, p := range r.Proofs {
		out.Proofs = append(out.Proofs, proofToProto(p))
	}
	return out
}

// Progress is what a program tells of its training; nil for nil.
func Progress(p *round.Progress) *swarmv1.Progress {
	if p == nil {
		return nil
	}
	return &swarmv1.Progress{
		Round: p.Round, Loss: p.Loss, Metric: p.Metric, HasLoss: p.HasLoss, HasMetric: p.HasMetric, EpochsDone: p.EpochsDone,
		TotalEpochs: p.TotalEpochs, MetricName: p.MetricName, Phase: p.Phase, SentBytes: p.SentBytes, ReceivedBytes: p.ReceivedBytes,
	}
}

// FromReport reads what a session says, but for its proofs' participants. It is an error if a digest in a claim has another length.
func FromReport(x *swarmv1.SessionReport) (*round.Report, error) {
	out := &round.Report{
		Session: x.GetSession(), Contract: x.GetContract(), Run: x.GetRun(), Number: x.GetNumber(), Signature: x.GetSignature(),
		Ready: FromReady(x.GetReady()), Failed: FromFailed(x.GetFailed()), Progress: FromProgress(x.GetProgress()), Held: FromHeld(x.GetHeld()),
		Trained: FromTrained(x.GetTrained()), Unreached: FromUnreached(x.GetUnreached()),
	}
	var err error
	for _, p := range x.GetProofs() {
		proof := &round.Proof{Plan: Plan(p.GetPlan()), Layout: p.GetLayoutDigest()}
		if proof.Done, err = FromDone(p.GetDone()); err != nil {
			return nil, err
		}
		out.Proofs = append(out.Proofs, proof)
	}
	out.Done, err = FromDone(x.GetDone())
	return out, err
}

// FromReady reads what a session offers; nil for nil.
func FromReady(r *swarmv1.Ready) *round.Ready {
	if r == nil {
		return nil
	}
	return &round.Ready{
		Seq: r.GetSeq(), BaseRound: r.GetBaseRound(), BaseDigest: r.GetBaseDigest(), Weight: r.GetWeight(), UpdateNorm: r.GetUpdateNorm(),
		Refuses: r.GetRefuses(),
	}
}

// FromFailed reads why an attempt was given up; nil for nil.
func FromFailed(f *swarmv1.Failed) *round.Failed {
	if f == nil {
		return nil
	}
	out := &round.Failed{
		Round: f.GetRound(), Attempt: f.GetAttempt(), Blamed: f.GetBlamed(), Reason: f.GetReason(), BytesReceived: f.GetBytesReceived(),
		HeardFrom: f.GetHeardFrom(), Code: f.GetCode(),
	}
	if f.GetUnreached() != nil {
		out.Unreached = &FromUnreached([]*swarmv1.Unreached{f.GetUnreached()})[0]
	}
	return out
}

func unreachedToProto(u round.Unreached) *swarmv1.Unreached {
	return &swarmv1.Unreached{Node: u.Node, Address: u.Address, Cause: u.Cause, Linked: u.Linked, Before: u.Before}
}

// FromUnreached reads whom a session can't reach.
func FromUnreached(all []*swarmv1.Unreached) []round.Unreached {
	var out []round.Unreached
	for _, u := range all {
		out = append(out, round.Unreached{Node: u.GetNode(), Address: u.GetAddress(), Cause: u.GetCause(), Linked: u.GetLinked(), Before: u.GetBefore()})
	}
	return out
}

// FromProgress reads what a program tells of its training; nil for nil.
func FromProgress(p *swarmv1.Progress) *round.Progress {
	if p == nil {
		return nil
	}
	return &round.Progress{
		Round: p.GetRound(), Loss: p.GetLoss(), Metric: p.GetMetric(), HasLoss: p.GetHasLoss(), HasMetric: p.GetHasMetric(),
		EpochsDone: p.GetEpochsDone(), TotalEpochs: p.GetTotalEpochs(), Phase: p.GetPhase(),
		MetricName: p.GetMetricName(), SentBytes: p.GetSentBytes(), ReceivedBytes: p.GetReceivedBytes(),
	}
}

func trainedToProto(t *round.Trained) *swarmv1.Trained {
	if t == nil {
		return nil
	}
	return &swarmv1.Trained{
		Seq: t.Seq, Ended: t.Ended, Counted: t.Counted, Batches: t.Batches, Samples: t.Samples, TotalBatches: t.TotalBatches,
		TotalSamples: t.TotalSamples, DataSamples: t.DataSamples, Changed: t.Changed, Unchanged: t.Unchanged, UnchangedSince: t.UnchangedSince,
	}
}

// FromTrained reads what a program has trained; nil for nil.
func FromTrained(t *swarmv1.Trained) *round.Trained {
	if t == nil {
		return nil
	}
	return &round.Trained{
		Seq: t.GetSeq(), Ended: t.GetEnded(), Counted: t.GetCounted(), Batches: t.GetBatches(), Samples: t.GetSamples(),
		TotalBatches: t.GetTotalBatches(), TotalSamples: t.GetTotalSamples(), DataSamples: t.GetDataSamples(), Changed: t.GetChanged(),
		Unchanged: t.GetUnchanged(), UnchangedSince: t.GetUnchangedSince(),
	}
}

// FromHeld reads which models a node can give out.
func FromHeld(held []*swarmv1.HeldModel) []round.Model {
	var out []round.Model
	for _, h := range held {
		out = append(out, round.Model{Round: h.GetRound(), Digest: h.GetDigest(), State: h.GetStateDigest()})
	}
	return out
}

// Answer is what an SN says to a report.
func Answer(res *swarmv1.ReportResponse) round.Answer {
	out := round.Answer{Leads: res.GetLeads(), Sign: res.GetSign(), Prove: res.GetProve(), Unknown: res.GetUnknownSessions()}
	out.TakesTrained, out.WarningsDigest = res.GetTakesTrained(), res.GetWarningsDigest()
	for _, w := range res.GetWarnings() {
		all := round.Warnings{Session: w.GetSession()}
		for _, x := range w.GetWarnings() {
			all.Texts = append(all.Texts, x.GetText())
		}
		out.Warnings = append(out.Warnings, all)
	}
	for _, a := range res.GetAsks() {
		out.Asks = append(out.Asks, round.Asked{Session: a.GetSession(), Run: a.GetRun(), Round: a.GetRound(), Attempt: a.GetAttempt()})
	}
	return out
}

func doneToProto(d *round.Done) *swarmv1.Done {
	if d == nil {
		return nil
	}
	return &swarmv1.Done{
		Round: d.Round, Attempt: d.Attempt, ModelDigest: d.ModelDigest, StateDigest: d.StateDigest, ShardsDigest: d.ShardsDigest,
		ShardDigests: d.ShardDigests, Signature: d.Signature, UpdateSquares: d.UpdateSquares, Seals: d.Seals, Claims: claimsToProto(d.Claims),
	}
}

// FromDone reads what came out of an attempt; nil for nil. It is an error if a digest in a claim has another length.
func FromDone(d *swarmv1.Done) (*round.Done, error) {
	if d == nil {
		return nil, nil
	}
	claims, err := claims(d.GetClaims())
	return &round.Done{
		Round: d.GetRound(), Attempt: d.GetAttempt(), ModelDigest: d.GetModelDigest(), StateDigest: d.GetStateDigest(),
		ShardsDigest: d.GetShardsDigest(), ShardDigests: d.GetShardDigests(), Signature: d.GetSignature(), UpdateSquares: d.GetUpdateSquares(),
		Seals: d.GetSeals(), Claims: claims,
	}, err
}

func claimsToProto(claims []round.Claim) []*swarmv1.MergeClaim {
	var out []*swarmv1.MergeClaim
	for _, c := range claims {
		m := &swarmv1.MergeClaim{Owner: uint32(c.Owner), Merged: c.Merged[:]} //nolint:gosec // an index of the plan
		if !c.Sums.IsZero() {
			m.Sums = c.Sums[:]
		}
		for _, in := range c.Inputs {
			m.Inputs = append(m.Inputs, &swarmv1.MergeInput{Digest: in.Digest[:], Signature: in.Signature})
		}
		out = append(out, m)
	}
	return out
}

// claims reads those of a report. What they claim is the leader's to judge.
func claims(given []*swarmv1.MergeClaim) ([]round.Claim, error) {
	var out []round.Claim
	digest := func(into *merge.Digest, b []byte) error {
		if len(b) != len(into) {
			return fmt.Errorf("a digest of %d bytes in a claim", len(b))
		}
		copy(into[:], b)
		return nil
	}
	for _, m := range given {
		c := round.Claim{Owner: int(m.GetOwner()), Inputs: make([]round.Input, len(m.GetInputs()))}
		err := digest(&c.Merged, m.GetMerged())
		if err == nil && len(m.GetSums()) > 0 {
			err = digest(&c.Sums, m.GetSums())
		}
		for i, in := range m.GetInputs() {
			c.Inputs[i].Signature = in.GetSignature()
			err = errors.Join(err, digest(&c.Inputs[i].Digest, in.GetDigest()))
		}
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

func proofToProto(p *round.Proof) *swarmv1.RoundProof {
	return &swarmv1.RoundProof{Plan: planToProto(p.Plan), LayoutDigest: p.Layout, Done: doneToProto(p.Done)}
}

// ProofFile is a proof as a file keeps it.
func ProofFile(p *round.Proof) ([]byte, error) { return proto.Marshal(proofToProto(p)) }

// FromProofFile reads what ProofFile gave.
func FromProofFile(raw []byte) (*round.Proof, error) {
	p := &swarmv1.RoundProof{}
	if err := proto.Unmarshal(raw, p); err != nil {
		return nil, err
	}
	d, err := FromDone(p.GetDone())
	return &round.Proof{Plan: Plan(p.GetPlan()), Layout: p.GetLayoutDigest(), Done: d}, err
}
