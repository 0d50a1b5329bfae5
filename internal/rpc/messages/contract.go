package messages

import (
	"math"
	"slices"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
)

// View shows a contract as SLs follow it. The layout's text is left out: its digest says enough, and it would
// travel with every change.
func View(s *state.State, c *state.Contract, index uint64) *swarmv1.ContractView {
	out := &swarmv1.ContractView{
		Name: c.Name, Run: c.Run, Terms: terms(c.Terms), Committed: committed(c.Committed),
		Plan: plan(s, c.Plan), Over: c.Over, Index: index, Phase: string(c.Phase()),
		ExpectedPeers: c.Expected(), PendingReason: c.PendingReason, Rules: rules(c.Rules), LostModel: lostModel(c.Lost), Skips: skips(c.Skips),
		AdoptedRound: adopted(c.Adopted), Halt: halt(c.Halt),
	}
	sessions := make([]*state.Session, 0, len(c.Sessions))
	for _, x := range c.Sessions {
		sessions = append(sessions, x)
	}
	slices.SortFunc(sessions, func(a, b *state.Session) int {
		if a.Order < b.Order {
			return -1
		}
		return 1
	})
	for _, x := range sessions {
		out.Sessions = append(out.Sessions, session(x, s.Nodes[x.Node]))
	}
	return out
}

// terms leaves the layout's text out.
func terms(t *state.Terms) *swarmv1.Terms {
	if t == nil {
		return nil
	}
	return &swarmv1.Terms{
		LayoutDigest: t.LayoutDigest, Method: t.Method, MinPeers: t.MinPeers, Leaves: t.Leaves, Weights: t.Weights,
	}
}

// session shows a session with its node's addresses; the node is nil when it was forgotten.
func session(x *state.Session, n *state.Node) *swarmv1.Session {
	out := &swarmv1.Session{
		Id: x.ID, Node: x.Node, Run: x.Run, State: x.State, CheckinMode: x.CheckinMode, CheckinFrom: x.CheckinFrom, ClosedRounds: x.ClosedRounds, Weight: x.Weight,
		Isolation: x.Isolation, NoShard: x.NoShard, LastSeq: x.LastSeq, LastRound: x.LastRound, SkippedSeq: x.SkippedSeq, EndReason: x.EndReason, ExitCode: x.ExitCode,
	}
	if n != nil {
		out.PeerId, out.SpiffeId, out.Host, out.FsPort, out.Live = n.PeerID, n.SPIFFEID, n.Host, uint32(n.FSPort), n.Live
		if n.Proof != nil {
			out.Proof = n.Proof.Digest
		}
	}
	return out
}

func committed(r *state.CommittedRound) *swarmv1.CommittedRound {
	if r == nil {
		return nil
	}
	return &swarmv1.CommittedRound{
		Round: r.Round, Attempt: r.Attempt, Digest: r.Digest, Participants: r.Participants, NextInterval: r.NextInterval,
		Final: r.Final, CommittedUnixMs: r.CommittedMS, PlannedUnixMs: r.PlannedMS,
		StateDigest: r.StateDigest,
	}
}

func rules(r *state.Rules) *swarmv1.Rules {
	if r == nil {
		return nil
	}
	return &swarmv1.Rules{
		Method: r.Method, MinPeers: r.MinPeers, ExpectedPeers: r.ExpectedPeers, Required: r.Required,
		MinWeightShare: float64(r.MinWeightSharePPM) / 1e6, WeightCap: float64(r.WeightCapPPM) / 1e6, Export: r.Export,
		NonFinite: r.NonFinite, QuorumWaitMs: r.QuorumWaitMS, StallGraceMs: r.StallGraceMS, MinPeersTimeoutMs: r.MinPeersTimeoutMS, Allow: r.Allow,
		Owners: r.Owners, Witnesses: r.Witnesses, CheckinDefault: r.CheckinDefault,
		Curves: r.Curves,
	}
}

func lostModel(l *state.LostModel) *swarmv1.LostModel {
	if l == nil {
		return nil
	}
	return &swarmv1.LostModel{Round: l.Round, Digest: l.Digest, ResumedRound: l.ResumedRound, AtUnixMs: l.AtMS}
}

// adopted is what the view of a contract says of a round that was taken over; nil if there was none.
func adopted(a *state.AdoptedRound) *swarmv1.AdoptedRound {
	if a == nil {
		return nil
	}
	return &swarmv1.AdoptedRound{Round: a.Round, LastRound: a.Last, ProvenRound: a.Proven, Signed: a.Signed, AtUnixMs: a.AtMS}
}

func halt(h *state.Halt) *swarmv1.Halt {
	if h == nil {
		return nil
	}
	return &swarmv1.Halt{Ends: h.Ends, By: h.By, AtUnixMs: h.AtMS}
}

func skips(k *state.Skips) *swarmv1.Skips {
	if k == nil {
		return nil
	}
	return &swarmv1.Skips{Count: k.Count, Round: k.Round, Reason: k.Reason, AtUnixMs: k.AtMS}
}

func plan(s *state.State, p *state.Plan) *swarmv1.Plan {
	if p == nil {
		return nil
	}
	out := &swarmv1.Plan{
		Run: p.Run, Round: p.Round, Attempt: p.Attempt, Method: p.Method, Final: p.Final, PlannedUnixMs: p.PlannedMS,
		LedgerHead: p.LedgerHash, Epoch: p.Epoch, Witnesses: p.Witnesses,
	}
	for _, part := range p.Participants {
		out.Participants = append(out.Participants, participant(part, s.Nodes[part.Node]))
	}
	return out
}

func participant(p state.Participant, n *state.Node) *swarmv1.Participant {
	out := &swarmv1.Participant{
		Session: p.Session, Node: p.Node, Weight: p.Weight, Seq: p.Seq, ShardFirst: p.ShardFirst, ShardLeaves: p.ShardLeaves,
		Factor: math.Float64frombits(p.FactorBits),
	}
	for _, r := range p.MoreShards {
		out.MoreShards = append(out.MoreShards, &swarmv1.LeafRun{First: r.First, Leaves: r.Leaves})
	}
	if n != nil {
		out.PeerId, out.SpiffeId, out.Host, out.FsPort = n.PeerID, n.SPIFFEID, n.Host, uint32(n.FSPort)
	}
	return out
}

// Summary shows a contract in one line of a list.
func Summary(c *state.Contract) *swarmv1.ContractSummary {
	out := &swarmv1.ContractSummary{
		Name: c.Name, Run: c.Run, Phase: string(c.Phase()), Round: c.Round(), CreatedUnixMs: c.CreatedMS,
	}
	if c.Terms != nil {
		out.MinPeers = c.Terms.MinPeers
	}
	for _, x := range c.Sessions {
		switch {
		case x.Run != c.Run:
		case x.State == state.SessionEnded:
			out.EndedSessions++
		default:
			out.OpenSessions++
		}
	}
	return out
}
