// Package onwire converts rounds to and from the messages of the API. What comes from another node is judged by who takes it.
package onwire

import (
	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
)

// View is a contract as an SN shows it; which is nothing for nil.
func View(v *swarmv1.ContractView) *round.View {
	t, c, rules, lost, a := v.GetTerms(), v.GetCommitted(), v.GetRules(), v.GetLostModel(), v.GetAdoptedRound()
	out := &round.View{
		Name: v.GetName(), Run: v.GetRun(), Index: v.GetIndex(), Over: v.GetOver(), Plan: Plan(v.GetPlan()), Skipped: v.GetSkips().GetReason(),
		Terms: round.Terms{LayoutDigest: t.GetLayoutDigest(), Layout: t.GetLayout(), Method: t.GetMethod(), MinPeers: t.GetMinPeers(), Weights: t.GetWeights()},
		Committed: state.CommittedRound{
			Round: c.GetRound(), Attempt: c.GetAttempt(), Digest: c.GetDigest(), Participants: c.GetParticipants(), NextInterval: c.GetNextInterval(),
			Final: c.GetFinal(), CommittedMS: c.GetCommittedUnixMs(), PlannedMS: c.GetPlannedUnixMs(), StateDigest: c.GetStateDigest(),
		},
		Rules: round.Rules{
			Method: rules.GetMethod(), MinPeers: rules.GetMinPeers(), WeightCap: rules.GetWeightCap(), Export: rules.GetExport(),
			Owners: rules.GetOwners(), Witnesses: rules.GetWitnesses(), CheckinDefault: rules.GetCheckinDefault(),
		},
		Lost:    state.LostModel{Round: lost.GetRound(), Digest: lost.GetDigest(), ResumedRound: lost.GetResumedRound(), AtMS: lost.GetAtUnixMs()},
		Adopted: round.Adopted{Round: a.GetRound(), LastRound: a.GetLastRound(), ProvenRound: a.GetProvenRound()},
	}
	if h := v.GetHalt(); h != nil {
		out.Halt = &state.Halt{Ends: h.GetEnds(), By: h.GetBy(), AtMS: h.GetAtUnixMs()}
	}
	all := make([]round.Session, len(v.GetSessions())) // one allocation: a view comes with each change
	for i, m := range v.GetSessions() {
		all[i] = round.Session{
			ID: m.GetId(), Node: m.GetNode(), PeerID: m.GetPeerId(), SPIFFEID: m.GetSpiffeId(), Proof: m.GetProof(), Host: m.GetHost(),
			FSPort: m.GetFsPort(), Live: m.GetLive(), State: m.GetState(), NoShard: m.GetNoShard(), LastSeq: m.GetLastSeq(),
			LastRound: m.GetLastRound(), SkippedSeq: m.GetSkippedSeq(), EndReason: m.GetEndReason(), Run: m.GetRun(),
		}
		out.Sessions = append(out.Sessions, &all[i])
	}
	return out
}

// Plan is a running attempt, nil for nil.
func Plan(p *swarmv1.Plan) *round.Plan {
	if p == nil {
		return nil
	}
	out := &round.Plan{
		Run: p.GetRun(), Round: p.GetRound(), Attempt: p.GetAttempt(), Method: p.GetMethod(), LedgerHead: p.GetLedgerHead(),
		Epoch: p.GetEpoch(), Witnesses: p.GetWitnesses(),
	}
	all := make([]round.Participant, len(p.GetParticipants()))
	for i, m := range p.GetParticipants() {
		all[i] = round.Participant{
			Session: m.GetSession(), Node: m.GetNode(), PeerID: m.GetPeerId(), SPIFFEID: m.GetSpiffeId(), Host: m.GetHost(), FSPort: m.GetFsPort(),
			Weight: m.GetWeight(), Seq: m.GetSeq(), Factor: m.GetFactor(), Shards: shards(m),
		}
		out.Participants = append(out.Participants, &all[i])
	}
	return out
}

// shards are the runs of leaves that a participant owns. The first one is left out if it says nothing; any other is kept, since digests of
// plans have it.
func shards(m *swarmv1.Participant) (out []state.LeafRun) {
	if m.GetShardFirst() != 0 || m.GetShardLeaves() != 0 {
		out = append(out, state.LeafRun{First: m.GetShardFirst(), Leaves: m.GetShardLeaves()})
	}
	for _, r := range m.GetMoreShards() {
		out = append(out, state.LeafRun{First: r.GetFirst(), Leaves: r.GetLeaves()})
	}
	return out
}

func planToProto(p *round.Plan) *swarmv1.Plan {
	if p == nil {
		return nil
	}
	out := &swarmv1.Plan{
		Run: p.Run, Round: p.Round, Attempt: p.Attempt, Method: p.Method, LedgerHead: p.LedgerHead, Epoch: p.Epoch, Witnesses: p.Witnesses,
	}
	for _, m := range p.Participants {
		part := &swarmv1.Participant{
			Session: m.Session, Node: m.Node, PeerId: m.PeerID, SpiffeId: m.SPIFFEID, Host: m.Host, FsPort: m.FSPort, Weight: m.Weight, Seq: m.Seq,
			Factor: m.Factor,
		}
		for i, r := range m.Shards {
			if i == 0 {
				part.ShardFirst, part.ShardLeaves = r.First, r.Leaves
				continue
			}
			part.MoreShards = append(part.MoreShards, &swarmv1.LeafRun{First: r.First, Leaves: r.Leaves})
		}
		out.Participants = append(out.Participants, part)
	}
	return out
}

// Open asks a contract to take a session.
func Open(o *round.Open) *swarmv1.OpenSessionRequest {
	return &swarmv1.OpenSessionRequest{
		Session: o.Session, Contract: o.Contract,
		Terms: &swarmv1.Terms{
			LayoutDigest: o.Terms.LayoutDigest, Layout: o.Terms.Layout, Method: o.Terms.Method, MinPeers: o.Terms.MinPeers, Weights: o.Terms.Weights,
		},
		ExpectedPeers: o.ExpectedPeers, SyncFrequency: o.SyncFrequency, Adaptive: o.Adaptive, CheckinMode: o.CheckinMode, CheckinDefault: o.CheckinDefault, Weight: o.Weight,
		TotalEpochs: o.TotalEpochs, Isolation: o.Isolation, Program: o.Program, NoShard: o.NoShard, QuorumWaitMs: o.QuorumWaitMS, StallGraceMs: o.StallGraceMS, Late: o.Late,
	}
}

// Close tells a contract that a session's training ended.
func Close(c round.Close) *swarmv1.CloseSessionRequest {
	return &swarmv1.CloseSessionRequest{Session: c.Session, Contract: c.Contract, Run: c.Run, CheckinMode: c.CheckinMode, Seq: c.Seq, Weight: c.Weight}
}

// End tells a contract that a session is gone.
func End(e round.End) *swarmv1.EndSessionRequest {
	return &swarmv1.EndSessionRequest{Session: e.Session, Contract: e.Contract, Run: e.Run, Reason: e.Reason, ExitCode: e.ExitCode}
}
