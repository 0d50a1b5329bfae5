package rpc_test

import (
	"context"
	"log/slog"
	"math"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/events"
	"github.com/swarmd/swarmd/internal/history"
	"github.com/swarmd/swarmd/internal/history/keeper"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/rpc"
	"github.com/swarmd/swarmd/internal/rpc/rpctest"
)

// ledgerless is an SN whose ledger has nothing.
type ledgerless struct{ *rpctest.SN }

func (ledgerless) LedgerAfter(uint64) ([]byte, error) { return nil, nil }

func (ledgerless) IsLeader() bool { return true }

func (ledgerless) Barrier(context.Context) error { return nil }

func (ledgerless) Others() map[string]http.RoundTripper { return nil }

func (ledgerless) LeaderSeen() time.Time { return time.Now() }

// TestGetHistory: operators, auditors and SNs see what the SN that leads has kept of the current run; SLs do not.
func TestGetHistory(t *testing.T) {
	loss, ms, weight := 0.5, uint64(7), uint32(3)
	want := &history.Round{
		Round: 1, Attempt: 2, PlannedMS: 5, CommittedMS: 6, Digest: "d", Waiting: &ms, Exchange: &ms,
		Failed: []history.Failed{{Attempt: 1, Blamed: "sl-b", Reason: "gone", AtMS: 4}}, Peers: []history.Peer{{Node: "sl-a", Loss: &loss, Weight: &weight, Contributed: true, Sent: &ms}},
	}
	s := startSwarm(t, rpc.Config{BodyTime: time.Second}, func(c *rpc.Config) {
		dir := t.TempDir()
		past := must(history.Open(filepath.Join(dir, history.Dir), history.Limits{}, c.Log))(t)
		for _, r := range []*history.Round{want, {Round: 2}, {Round: 3}, {Round: 4, CommittedMS: time.Now().Add(time.Hour).UnixMilli()}} { // the last one of the contract below
			if err := past.Put("study", 1, r); err != nil {
				t.Fatal(err)
			}
		}
		if err := past.Put(state.DefaultContract, 9, want); err != nil {
			t.Fatal(err)
		}
		past.Close()
		c.History = keeper.Open("sn-0", dir, ledgerless{c.Core.(*rpctest.SN)}, c.Log)
	})
	must(s.core.Propose(t.Context(), state.RecordBundle{TrustDomain: "hospital.example", Certificates: [][]byte{{1}}, AtMS: 1}))(t)
	admin := s.as("/swarm/swci/admin")
	must(create(t, admin, &swarmv1.Rules{MinPeers: 1}))(t)
	get := func(p *peer, q *swarmv1.GetHistoryRequest) (*swarmv1.GetHistoryResponse, error) {
		res, err := p.contracts().GetHistory(t.Context(), with(p, q))
		if err != nil {
			return nil, err
		}
		return res.Msg, nil
	}
	for _, who := range []string{"/swarm/swci/admin", "/swarm/audit", "/swarm/sn"} {
		part := keeper.FromPart(must(get(s.as(who), &swarmv1.GetHistoryRequest{Contract: "study"}))(t))
		if len(part.Rounds) != 4 || part.Run != 1 || part.Last != 4 {
			t.Fatalf("%s got %+v", who, part)
		}
		if diff := cmp.Diff(want, part.Rounds[0]); diff != "" {
			t.Errorf("%s (-kept +got):\n%s", who, diff)
		}
	}
	if got := must(get(admin, &swarmv1.GetHistoryRequest{Contract: "study", Most: 2, Spread: true}))(t); len(got.GetRounds()) != 2 || got.GetRounds()[1].GetRound() != 4 || got.GetThinned() != 2 {
		t.Errorf("two of all: %v", got)
	}
	if got := must(get(admin, &swarmv1.GetHistoryRequest{Contract: "study", Run: 1}))(t); len(got.GetRounds()) != 4 || got.GetRun() != 1 || len(got.GetEarlier()) != 0 {
		t.Errorf("of the current run by its number: %v", got)
	}
	must(admin.contracts().ResetContract(t.Context(), signed(admin, &swarmv1.ResetContractRequest{Contract: "study"})))(t)
	for run, rounds := range map[uint64]int{0: 0, 1: 4, 2: 0, 7: 0} {
		got := must(get(admin, &swarmv1.GetHistoryRequest{Contract: "study", Run: run}))(t)
		if want := max(run, 1); len(got.GetRounds()) != rounds || got.GetRun() != want && run > 0 || !cmp.Equal(got.GetEarlier(), []uint64{1}) {
			t.Errorf("after a reset, of run %d: %v", run, got)
		}
	}
	if got, err := get(admin, &swarmv1.GetHistoryRequest{Contract: state.DefaultContract}); err == nil && len(got.GetRounds()) != 0 {
		t.Errorf("of another run: %v", got)
	}
	for _, name := range []string{"none", "no such?", ""} {
		_, err := get(admin, &swarmv1.GetHistoryRequest{Contract: name})
		wantReason(t, "of no contract", err, "CONTRACT_UNKNOWN")
	}
	sl, _ := newLearner(t, s, "sl-a")
	_, err := get(sl, &swarmv1.GetHistoryRequest{Contract: "study"})
	wantReason(t, "by an SL", err, "ROLE_DENIED")
}

// TestCurvesOfPeersAreHidden: where the contract's rule names who sees the loss and the metric of each peer, others get the mean, and why.
func TestCurvesOfPeersAreHidden(t *testing.T) {
	low, high, one, three := 0.2, 0.6, uint32(1), uint32(3)
	s := startSwarm(t, rpc.Config{BodyTime: time.Second}, func(c *rpc.Config) {
		dir := t.TempDir()
		past := must(history.Open(filepath.Join(dir, history.Dir), history.Limits{}, c.Log))(t)
		if err := past.Put("study", 1, &history.Round{Round: 1, Peers: []history.Peer{
			{Node: "sl-a", Loss: &low, Weight: &three, Contributed: true, Sent: ptr(uint64(7))}, {Node: "sl-b", Loss: &high, Metric: &high, MetricName: "AUC", Weight: &one, Contributed: true},
		}}); err != nil {
			t.Fatal(err)
		}
		if err := past.Put("study", 1, &history.Round{Round: 2, Peers: []history.Peer{{Node: "sl-a", Loss: &low, Contributed: true}, {Node: "sl-b", Loss: &high}}}); err != nil {
			t.Fatal(err)
		}
		past.Close()
		c.History = keeper.Open("sn-0", dir, ledgerless{c.Core.(*rpctest.SN)}, c.Log)
	})
	must(s.core.Propose(t.Context(), state.RecordBundle{TrustDomain: "hospital.example", Certificates: [][]byte{{1}}, AtMS: 1}))(t)
	admin := s.as("/swarm/swci/admin")
	must(create(t, admin, &swarmv1.Rules{MinPeers: 2, Curves: []string{"spiffe://hospital.example/swarm/swci/*"}}))(t)
	sl, _ := newLearner(t, s, "sl-a")
	must(sl.open(t, idA, wireTerms(layout(t, 100), 2)))(t)
	s.lead.Answer = planner.Status{Leading: true, Progress: map[string]round.Progress{idA: {Round: 1, Loss: low, Metric: high, HasLoss: true, HasMetric: true, MetricName: "AUC", EpochsDone: 4}}}
	for who, sees := range map[string]bool{"/swarm/swci/admin": true, "/swarm/sn": true, "/swarm/swci": false, "/swarm/audit": false, "/swarm/sl/sl-a": false} {
		p := s.as(who)
		st := must(p.contracts().GetContractStatus(t.Context(), with(p, &swarmv1.GetContractStatusRequest{Contract: "study"})))(t).Msg
		progress := st.GetContract().GetSessions()[0].GetProgress()
		if progress.GetHasLoss() != sees || progress.GetHasMetric() != sees || (progress.GetLoss() == low) != sees || (progress.GetMetric() == high) != sees || progress.GetEpochsDone() != 4 {
			t.Errorf("%s is shown %v", who, progress)
		}
		if st.GetMetricName() != "AUC" || (progress.GetMetricName() == "AUC") != sees {
			t.Errorf("%s is told that the metric is %q, of the session %q", who, st.GetMetricName(), progress.GetMetricName())
		}
		if (st.GetHidden() == "") != sees || !sees && !strings.Contains(st.GetHidden(), "to spiffe://hospital.example/swarm/swci/* only: spiffe://hospital.example"+who) {
			t.Errorf("%s is told %q", who, st.GetHidden())
		}
		if strings.HasPrefix(who, "/swarm/sl") {
			continue // it may not ask for more
		}
		h := must(p.contracts().GetHistory(t.Context(), with(p, &swarmv1.GetHistoryRequest{Contract: "study"})))(t).Msg
		r := h.GetRounds()[0]
		peers := r.GetPeers()
		if (peers[0].Loss != nil) != sees || (peers[1].Loss != nil) != sees || (peers[1].Metric != nil) != sees || peers[0].GetWeight() != 3 || peers[0].GetSentBytes() != 7 || (h.GetHidden() == "") != sees {
			t.Errorf("%s is shown %v, told %q", who, r, h.GetHidden())
		}
		if r.GetMetricName() != "AUC" || (peers[1].GetMetricName() == "AUC") != sees || h.GetRounds()[1].MetricName != nil {
			t.Errorf("%s is told that the metric is %v", who, h.GetRounds())
		}
		if plain := h.GetRounds()[1]; math.Abs(r.GetLoss()-0.3) > 1e-9 || r.GetMetric() != high || !r.GetWeighted() || plain.GetLoss() != low || plain.Metric != nil || plain.GetWeighted() {
			t.Errorf("%s is shown the means %v, %v; without weights %v", who, r.Loss, r.Metric, plain)
		}
	}
}

func ptr[T any](v T) *T { return &v }

// TestGetEvents: operators, auditors and SNs see what an SN has noticed, who has the newest version gets no events, and SLs get none at all.
func TestGetEvents(t *testing.T) {
	s := startSwarm(t, rpc.Config{BodyTime: time.Second}, func(c *rpc.Config) {
		dir := t.TempDir()
		noticed := events.Open(filepath.Join(dir, events.File), "sn-0", slog.New(slog.DiscardHandler))
		noticed.Note(events.Event{AtMS: 5, Kind: events.Silent, Node: "sl-a"})
		noticed.Note(events.Event{AtMS: 7, Kind: events.AttemptFailed, Contract: "study", Run: 1, Round: 3, Attempt: 2, Text: "sl-a is lost"})
		ended, end := context.WithCancel(t.Context())
		end()
		if err := noticed.Run(ended); err != nil {
			t.Fatal(err)
		}
		c.History = keeper.Open("sn-0", dir, ledgerless{c.Core.(*rpctest.SN)}, c.Log)
	})
	get := func(p *peer, q *swarmv1.GetEventsRequest) (*swarmv1.GetEventsResponse, error) {
		res, err := swarmv1connect.NewLedgerServiceClient(p.http, p.url()).GetEvents(t.Context(), with(p, q))
		if err != nil {
			return nil, err
		}
		return res.Msg, nil
	}
	for _, who := range []string{"/swarm/swci/admin", "/swarm/audit", "/swarm/sn"} {
		got := must(get(s.as(who), &swarmv1.GetEventsRequest{}))(t)
		if list := got.GetEvents(); len(list) != 2 || list[0].GetText() != "sl-a is lost" || list[0].GetAttempt() != 2 || list[0].GetBy() != "sn-0" || list[1].GetKind() != "silent" || got.GetOlder() != 0 {
			t.Errorf("%s got %v", who, got)
		}
		if again := must(get(s.as(who), &swarmv1.GetEventsRequest{Known: got.GetVersion()}))(t); len(again.GetEvents()) != 0 || again.GetVersion() != got.GetVersion() {
			t.Errorf("%s got again %v", who, again)
		}
		if one := must(get(s.as(who), &swarmv1.GetEventsRequest{Most: 1}))(t); len(one.GetEvents()) != 1 || one.GetOlder() != 1 {
			t.Errorf("%s got %v for one", who, one)
		}
	}
	sl, _ := newLearner(t, s, "sl-a")
	_, err := get(sl, &swarmv1.GetEventsRequest{})
	wantReason(t, "by an SL", err, "ROLE_DENIED")
}
