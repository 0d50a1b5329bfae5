package keeper

import (
	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/history"
)

// messageOf returns rounds as the API's message.
func messageOf(p history.Part) *swarmv1.GetHistoryResponse {
	out := &swarmv1.GetHistoryResponse{Run: p.Run, Last: p.Last, Thinned: p.Thinned}
	for _, r := range p.Rounds {
		one := &swarmv1.HistoryRound{
			Round: r.Round, Attempt: r.Attempt, PlannedUnixMs: r.PlannedMS, CommittedUnixMs: r.CommittedMS, Digest: r.Digest, Record: r.Record, Method: r.Method,
			WaitingMs: r.Waiting, TrainingMs: r.Training, ExchangeMs: r.Exchange, CommitMs: r.Commit,
		}
		for _, f := range r.Failed {
			one.Failed = append(one.Failed, &swarmv1.HistoryFailure{Attempt: f.Attempt, Blamed: f.Blamed, Reason: f.Reason, AtUnixMs: f.AtMS})
		}
		for _, x := range r.Peers {
			one.Peers = append(one.Peers, &swarmv1.HistoryPeer{Node: x.Node, Loss: x.Loss, Metric: x.Metric, MetricName: x.MetricName, Weight: x.Weight, Contributed: x.Contributed, SentBytes: x.Sent, ReceivedBytes: x.Received})
		}
		out.Rounds = append(out.Rounds, one)
	}
	return out
}

// FromPart returns the rounds of a message of the SN that leads.
func FromPart(m *swarmv1.GetHistoryResponse) history.Part {
	out := history.Part{Run: m.GetRun(), Last: m.GetLast(), Thinned: m.GetThinned()}
	for _, r := range m.GetRounds() {
		one := &history.Round{
			Round: r.GetRound(), Attempt: r.GetAttempt(), PlannedMS: r.GetPlannedUnixMs(), CommittedMS: r.GetCommittedUnixMs(), Digest: r.GetDigest(), Record: r.GetRecord(), Method: r.GetMethod(),
			Waiting: r.WaitingMs, Training: r.TrainingMs, Exchange: r.ExchangeMs, Commit: r.CommitMs,
		}
		for _, f := range r.GetFailed() {
			one.Failed = append(one.Failed, history.Failed{Attempt: f.GetAttempt(), Blamed: f.GetBlamed(), Reason: f.GetReason(), AtMS: f.GetAtUnixMs()})
		}
		for _, x := range r.GetPeers() {
			one.Peers = append(one.Peers, history.Peer{Node: x.GetNode(), Loss: x.Loss, Metric: x.Metric, MetricName: x.GetMetricName(), Weight: x.Weight, Contributed: x.GetContributed(), Sent: x.SentBytes, Received: x.ReceivedBytes})
		}
		out.Rounds = append(out.Rounds, one)
	}
	return out
}
