package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	p2pcrypto "github.com/libp2p/go-libp2p/core/crypto"
	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/delta"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/round/onwire"
	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange"
)

const (
	idA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	idB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	idC = "cccccccccccccccccccccccccccccccc"
)

func openRequest(session string, terms *swarmv1.Terms) *swarmv1.OpenSessionRequest {
	return &swarmv1.OpenSessionRequest{
		Session: session, Contract: "study", Terms: terms, SyncFrequency: 16, CheckinMode: "snapshot", Weight: 1, TotalEpochs: 2,
	}
}

func (p *peer) open(t *testing.T, session string, terms *swarmv1.Terms) (*swarmv1.ContractView, error) {
	t.Helper()
	res, err := p.sessions().OpenSession(t.Context(), with(p, openRequest(session, terms)))
	if err != nil {
		return nil, err
	}
	return res.Msg.GetContract(), nil
}

func newLearner(t *testing.T, s *swarm, name string) (*peer, p2pcrypto.PrivKey) {
	t.Helper()
	key := nodeKey(t)
	p := s.as("/swarm/sl/" + name)
	p.register(t, name, key)
	return p, key
}

// TestCheckinDefault: what a program chose is obeyed, else the node's default holds, and a rule goes before it.
func TestCheckinDefault(t *testing.T) {
	for _, tt := range []struct{ program, rule, node, mode, from string }{
		{"", "", "", "snapshot", "none"},
		{"snapshot", "inactive", "once", "snapshot", ""},
		{"once", "", "", "once", ""},
		{"", "", "once", "once", "node"},
		{"", "inactive", "once", "inactive", "rule"},
	} {
		t.Run(strings.Join([]string{tt.program, tt.rule, tt.node}, "-"), func(t *testing.T) {
			s := newSwarm(t)
			a, _ := newLearner(t, s, "sl-a")
			if tt.rule != "" {
				if _, err := s.core.Propose(t.Context(), state.CreateContract{Contract: "study", Rules: state.Rules{CheckinDefault: tt.rule}}); err != nil {
					t.Fatal(err)
				}
			}
			req := openRequest(idA, wireTerms(layout(t, 100), 2))
			req.CheckinMode, req.CheckinDefault = tt.program, tt.node
			res, err := a.sessions().OpenSession(t.Context(), with(a, req))
			if err != nil {
				t.Fatal(err)
			}
			view := res.Msg.GetContract()
			if x := view.GetSessions()[0]; x.GetCheckinMode() != tt.mode || x.GetCheckinFrom() != tt.from || view.GetRules().GetCheckinDefault() != tt.rule {
				t.Errorf("got %v under %v, want %s by %q", x, view.GetRules(), tt.mode, tt.from)
			}
		})
	}
}

// TestACloseWeighsBySamples: none are none, and an SL that does not say leaves the number as it was.
func TestACloseWeighsBySamples(t *testing.T) {
	s := newSwarm(t)
	for _, tt := range []struct {
		told *uint32
		want uint32
	}{{nil, 1}, {new(uint32(0)), 0}, {new(uint32(300)), 300}} {
		a, _ := newLearner(t, s, fmt.Sprintf("sl-%d", tt.want))
		terms := wireTerms(layout(t, 100), 2)
		terms.Weights = state.WeightsSamples
		id := fmt.Sprintf("%032x", tt.want+1)
		if _, err := a.open(t, id, terms); err != nil {
			t.Fatal(err)
		}
		req := onwire.Close(round.Close{Session: id, Contract: "study", Run: 1, Weight: tt.told})
		if _, err := a.sessions().CloseSession(t.Context(), with(a, req)); err != nil {
			t.Fatal(err)
		}
		if got := s.core.View().Contracts["study"].Sessions[id].Weight; got != tt.want {
			t.Errorf("closed with the weight %d, want %d", got, tt.want)
		}
	}
}

// TestWordsOnAProgramAreClipped: a path may be of any bytes and of any length, and no session is refused for it. What is kept takes at most
// state.MaxProgram bytes as it is encoded.
func TestWordsOnAProgramAreClipped(t *testing.T) {
	s := newSwarm(t)
	a, _ := newLearner(t, s, "sl-a")
	for i, tt := range []struct{ said, kept string }{
		{"", ""},
		{"train.py sha256:00", "train.py sha256:00"},
		{strings.Repeat("a", 1000), strings.Repeat("a", state.MaxProgram)},
		{strings.Repeat("<", state.MaxProgram), strings.Repeat("<", state.MaxProgram/len(`\u003c`))},
		{strings.Repeat(`\`, state.MaxProgram), strings.Repeat(`\`, state.MaxProgram/2)},
		{strings.Repeat("ü", state.MaxProgram), strings.Repeat("ü", state.MaxProgram/2)},
		{"two\nlines\x1b[2J", "two lines [2J"},
	} {
		id := fmt.Sprintf("%032x", i+1)
		req := openRequest(id, wireTerms(layout(t, 100), 2))
		req.Program = tt.said
		if _, err := a.sessions().OpenSession(t.Context(), with(a, req)); err != nil {
			t.Errorf("%.20q of %d bytes: %v", tt.said, len(tt.said), err)
		} else if got := s.core.View().Contracts["study"].Sessions[id].Program; got != tt.kept {
			t.Errorf("%.20q of %d bytes is kept as %q, want %q", tt.said, len(tt.said), got, tt.kept)
		}
	}
}

func TestSessionLife(t *testing.T) {
	s := newSwarm(t)
	a, _ := newLearner(t, s, "sl-a")
	b, _ := newLearner(t, s, "sl-b")
	terms := wireTerms(layout(t, 100), 2)
	view, err := a.open(t, idA, terms)
	if err != nil {
		t.Fatal(err)
	}
	if view.GetRun() != 1 || view.GetPhase() != "enrolling" || len(view.GetSessions()) != 1 || view.GetSessions()[0].GetNode() != "sl-a" {
		t.Errorf("got %v", view)
	}
	if _, err := a.open(t, idA, terms); err != nil {
		t.Errorf("opening again: %v", err)
	}
	_, err = b.open(t, idA, terms)
	wantReason(t, "another's session ID", err, "SESSION_TAKEN")
	view, err = b.open(t, idB, terms)
	if err != nil || view.GetTerms().GetMinPeers() != 2 || view.GetTerms().GetLayout() != nil {
		t.Errorf("terms of the view: %v %v", view, err)
	}

	end := &swarmv1.EndSessionRequest{Session: idA, Contract: "study", Run: 1, Reason: "finished"}
	_, err = b.sessions().EndSession(t.Context(), with(b, end))
	wantReason(t, "ending another's session", err, "SESSION_NOT_YOURS")
	_, err = b.sessions().CloseSession(t.Context(), with(b, &swarmv1.CloseSessionRequest{Session: idA, Contract: "study", Run: 1}))
	wantReason(t, "closing another's session", err, "SESSION_NOT_YOURS")

	closed, err := a.sessions().CloseSession(t.Context(), with(a, &swarmv1.CloseSessionRequest{
		Session: idA, Contract: "study", Run: 1, CheckinMode: "inactive", Seq: 3,
	}))
	if err != nil {
		t.Fatal(err)
	}
	if x := closed.Msg.GetContract().GetSessions()[0]; x.GetState() != "closed" || x.GetCheckinMode() != "inactive" {
		t.Errorf("closed session: %v", x)
	}
	for range 2 { // idempotent
		if _, err := a.sessions().EndSession(t.Context(), with(a, end)); err != nil {
			t.Fatal(err)
		}
	}
	if x := s.core.View().Contracts["study"].Sessions[idA]; x.State != state.SessionEnded || x.EndReason != "finished" {
		t.Errorf("ended session: %+v", x)
	}
	end.Session = idC
	_, err = a.sessions().EndSession(t.Context(), with(a, end))
	wantReason(t, "unknown session", err, "SESSION_UNKNOWN")
}

// The words by which the swarm ends sessions mean something to it: a node that says them is quoted.
func TestNodesDoNotSpeakForTheSwarm(t *testing.T) {
	s := newSwarm(t)
	a, _ := newLearner(t, s, "sl-a")
	if _, err := a.open(t, idA, wireTerms(layout(t, 100), 1)); err != nil {
		t.Fatal(err)
	}
	end := &swarmv1.EndSessionRequest{Session: idA, Contract: "study", Run: 1, Reason: "banned"}
	if _, err := a.sessions().EndSession(t.Context(), with(a, end)); err != nil {
		t.Fatal(err)
	}
	if x := s.core.View().Contracts["study"].Sessions[idA]; x.EndReason != "failed: banned" {
		t.Errorf("ended for %q", x.EndReason)
	}
}

// What a session's program is kept in by is told to all, in its SL's words and nothing that harms who reads them.
func TestIsolationIsShownToAll(t *testing.T) {
	s := newSwarm(t)
	a, _ := newLearner(t, s, "sl-a")
	b, _ := newLearner(t, s, "sl-b")
	req := openRequest(idA, wireTerms(layout(t, 100), 2))
	for name, bad := range map[string]string{
		"long": strings.Repeat("w", state.MaxIsolation+1), "two lines": "container\nnode sl-b: fine", "escape": "\x1b[2J",
		"reversed": "container, \u202eneppo", "separator": "container\u2028open", "C1 control": "\u009b2J",
	} {
		req.Isolation = bad
		_, err := a.sessions().OpenSession(t.Context(), with(a, req))
		wantReason(t, name, err, "BAD_REQUEST")
	}
	if s.core.View().Contracts["study"] != nil {
		t.Error("a refused session opened the contract")
	}
	req.Isolation = "container, open: network lan, mount /srv/daten für alle"
	if _, err := a.sessions().OpenSession(t.Context(), with(a, req)); err != nil {
		t.Fatal(err)
	}
	view, err := b.open(t, idB, req.GetTerms())
	if err != nil {
		t.Fatal(err)
	}
	if got := view.GetSessions()[0].GetIsolation(); got != req.GetIsolation() {
		t.Errorf("another peer sees %q", got)
	}
	op := s.as("/swarm/swci")
	status, err := op.contracts().GetContractStatus(t.Context(), with(op, &swarmv1.GetContractStatusRequest{Contract: "study"}))
	if err != nil {
		t.Fatal(err)
	}
	if got := status.Msg.GetContract().GetSessions()[0].GetIsolation(); got != req.GetIsolation() {
		t.Errorf("the status shows %q", got)
	}
}

func TestTermsMismatchShowsTheDifference(t *testing.T) {
	s := newSwarm(t)
	a, _ := newLearner(t, s, "sl-a")
	b, _ := newLearner(t, s, "sl-b")
	if _, err := a.open(t, idA, wireTerms(layout(t, 100), 1)); err != nil {
		t.Fatal(err)
	}
	_, err := b.open(t, idB, wireTerms(layout(t, 101), 1))
	wantReason(t, "other layout", err, "TERMS_MISMATCH")
	for _, part := range []string{"100", "101", `"w"`, "minPeers 1"} {
		if err != nil && !strings.Contains(err.Error(), part) {
			t.Errorf("the message lacks %q: %v", part, err)
		}
	}
	begins(t, err, `tensor 0 "w" is float32[101] here and float32[100] in the contract: terms differ`)
	_, err = b.open(t, idB, wireTerms(layout(t, 100), 2))
	wantReason(t, "other minPeers", err, "TERMS_MISMATCH")
	begins(t, err, "minPeers is 2 here and 1 in the contract: terms differ")
	_, err = b.open(t, idB, bySamples(layout(t, 100), 1))
	wantReason(t, "other weights", err, "TERMS_MISMATCH")
	begins(t, err, `nodeWeightage is "samples" here and a number in the contract: terms differ`)
}

// begins wants an error whose message begins with what tells most.
func begins(t *testing.T, err error, want string) {
	t.Helper()
	if e, ok := errors.AsType[*connect.Error](err); !ok || !strings.HasPrefix(e.Message(), want) {
		t.Errorf("the message is %v, want it to begin with %q", err, want)
	}
}

func TestTermsThatLoseInTheSameCommand(t *testing.T) {
	s := newSwarm(t)
	var peers []*peer
	for _, n := range []string{"sl-a", "sl-b", "sl-c"} {
		p, _ := newLearner(t, s, n)
		peers = append(peers, p)
	}
	for i, id := range []string{idA, idB} {
		if _, err := peers[i].open(t, id, wireTerms(layout(t, 100), 3)); err != nil {
			t.Fatal(err)
		}
	}
	_, err := peers[2].open(t, idC, wireTerms(layout(t, 99), 3))
	wantReason(t, "loser", err, "TERMS_MISMATCH")
	if err != nil && (!strings.Contains(err.Error(), "99") || !strings.Contains(err.Error(), "100")) {
		t.Errorf("the layouts' difference is not shown: %v", err)
	}
}

func TestReportsReachTheLeader(t *testing.T) {
	s := newSwarm(t)
	a, key := newLearner(t, s, "sl-a")
	b, _ := newLearner(t, s, "sl-b")
	if _, err := a.open(t, idA, wireTerms(layout(t, 100), 1)); err != nil {
		t.Fatal(err)
	}
	model, shard, optimiser := merge.Sum([]byte("model")), merge.Sum([]byte("shard")), merge.Sum([]byte("state"))
	part := state.Participant{Session: idA, Node: "sl-a", Weight: 1, ShardLeaves: s.core.View().Contracts["study"].Terms.Leaves}
	must(s.core.Propose(t.Context(), state.BundleOf("hospital.example", [][]byte{{1}}, 1)))(t)
	must(s.core.Propose(t.Context(), state.PlanRound{Contract: "study", Run: 1, Round: 1, Attempt: 1, Participants: []state.Participant{part}}))(t)
	planned := exchange.Planned{
		Contract: "study", Run: 1, Round: 1, Method: "mean", Layout: layout(t, 100).Digest(),
		Participants: []exchange.Participant{{
			Node: s.core.View().Nodes["sl-a"].PeerID, Session: idA, Weight: 1, Shard: merge.Shard{Leaves: int(part.ShardLeaves)},
		}},
	}
	head := must(merge.ParseDigest(s.core.View().LedgerHead().Hash))(t)
	out := exchange.Outcome{
		Contract: "study", Run: 1, Round: 1, Number: 1, Node: "sl-a", ModelDigest: model, ShardsDigest: merge.Combine([]merge.Digest{shard}),
		StateDigest: optimiser, Plan: planned.Digest(), Ledger: head,
	}
	seal := must(key.Sign(exchange.SealMessage(exchange.Sealed{Contract: "study", Run: 1, Round: 1, Number: 1, Plan: planned.Digest(), Shard: shard})))(t)
	squares := []float64{0.5}
	msg := &swarmv1.ReportRequest{Sessions: []*swarmv1.SessionReport{{
		Session: idA, Contract: "study", Run: 1, Ready: &swarmv1.Ready{Seq: 9},
		Done: &swarmv1.Done{
			Round: 1, Attempt: 1, ModelDigest: model.String(), ShardDigests: []string{shard.String()}, ShardsDigest: out.ShardsDigest.String(),
			Signature: must(key.Sign(exchange.AttestationMessage(out)))(t), StateDigest: optimiser.String(),
			UpdateSquares: squares, Seals: [][]byte{seal},
		},
	}}}
	send := func(p *peer) error {
		signReport(t, "sl-a", key, msg)
		_, err := p.sessions().Report(t.Context(), with(p, msg))
		return err
	}
	if err := send(a); err != nil {
		t.Fatal(err)
	}
	wantReason(t, "report on another's session", send(b), "SESSION_NOT_YOURS")
	msg.Sessions[0].Done.Attempt = 2
	if err := send(a); err != nil {
		t.Errorf("a report of another attempt than the running one is no error, only no news: %v", err)
	}
	msg.Sessions[0].Done.Attempt, msg.Sessions[0].Done.ModelDigest = 1, shard.String() // not what was signed
	wantReason(t, "altered report", send(a), "SIGNATURE_REFUSED")
	msg.Sessions[0].Done.ModelDigest, msg.Sessions[0].Done.StateDigest = model.String(), shard.String()
	wantReason(t, "altered state", send(a), "SIGNATURE_REFUSED")
	msg.Sessions[0].Done.StateDigest = optimiser.String()
	msg.Sessions[0].Done.ShardDigests = []string{model.String()}
	wantReason(t, "shards that are not those of the digest over all", send(a), "BAD_REQUEST")
	msg.Sessions[0].Done.ShardDigests = []string{shard.String(), shard.String()}
	wantReason(t, "shards of nobody", send(a), "BAD_REQUEST")
	msg.Sessions[0].Done.ShardDigests, msg.Sessions[0].Done.StateDigest = []string{shard.String()}, "no digest"
	wantReason(t, "malformed state", send(a), "BAD_REQUEST")
	got := s.lead.Reports()
	if len(got) != 7 || got[0].Done == nil || got[0].Node != "sl-a" || got[0].Done.StateDigest != optimiser.String() || got[0].Unsealed != "" {
		t.Errorf("recorded %+v", got)
	}
	for _, refused := range got[1:] {
		if refused.Done == nil && refused.Ready != nil {
			continue
		}
		t.Errorf("recorded %+v", got)
	}
	for name, seals := range map[string][][]byte{"no seal": nil, "another's": {make([]byte, 64)}} { // what it says itself convicts it, and so must reach the leader
		msg.Sessions[0].Done.StateDigest, msg.Sessions[0].Done.Seals = optimiser.String(), seals
		if err := send(a); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := s.lead.Reports(); got[len(got)-1].Done == nil || got[len(got)-1].Unsealed != "sl-a" {
			t.Errorf("%s: recorded %+v", name, got[len(got)-1])
		}
	}
	msg.Sessions[0].Done.ShardDigests, msg.Sessions[0].Done.Seals = nil, nil // as long as nobody asks
	if err := send(a); err != nil {
		t.Error(err)
	}
	if got := s.lead.Reports(); got[len(got)-1].Done == nil || got[len(got)-1].Unsealed != "" || got[len(got)-1].Done.ShardsDigest != out.ShardsDigest.String() {
		t.Errorf("recorded %+v", got[len(got)-1])
	}
	s.lead.Asked = 1
	res, err := a.sessions().Report(t.Context(), with(a, msg))
	if err != nil || len(res.Msg.GetAsks()) != 1 || res.Msg.GetAsks()[0].GetSession() != idA || res.Msg.GetAsks()[0].GetAttempt() != 1 || !res.Msg.GetLeads() {
		t.Errorf("the answer is %v, %v", res, err)
	}
	msg.Sessions[0].Done = nil
	msg.Sessions[0].Session = idC
	if err := send(a); err != nil || len(s.lead.Reports()) != 11 {
		t.Errorf("a session that is unknown here: %v, %d reports", err, len(s.lead.Reports()))
	}
	for range 100 {
		msg.Sessions = append(msg.Sessions, msg.GetSessions()[0])
	}
	wantReason(t, "too many sessions", send(a), "BAD_REQUEST")
}

func TestStatus(t *testing.T) {
	s := newSwarm(t)
	a, _ := newLearner(t, s, "sl-a")
	if _, err := a.open(t, idA, wireTerms(layout(t, 100), 2)); err != nil {
		t.Fatal(err)
	}
	since := time.Now()
	s.lead.Answer = planner.Status{
		Leading: true, Waiting: planner.Waiting{Kind: planner.WaitPeers, Have: []string{"sl-a"}, Need: 2, Since: since},
		Recent:   []state.CommittedRound{{Round: 1}, {Round: 2}},
		Progress: map[string]round.Progress{idA: {Loss: 0.5, HasLoss: true}},
	}
	p := s.as("/swarm/swci")
	res, err := p.contracts().GetContractStatus(t.Context(), with(p, &swarmv1.GetContractStatusRequest{Contract: "study"}))
	if err != nil {
		t.Fatal(err)
	}
	m := res.Msg
	if !strings.Contains(m.GetWaiting(), "1 more peer") || m.GetWaitingSinceUnixMs() != since.UnixMilli() || m.GetLeader() != "sn-0" ||
		len(m.GetRecent()) != 2 || m.GetContract().GetSessions()[0].GetProgress().GetLoss() != 0.5 {
		t.Errorf("got %v", m)
	}
	for most, want := range map[uint32]int{1: 1, 2: 2, 9: 2} {
		res, err := p.contracts().GetContractStatus(t.Context(), with(p, &swarmv1.GetContractStatusRequest{Contract: "study", Most: most}))
		if recent := res.Msg.GetRecent(); err != nil || len(recent) != want || recent[len(recent)-1].GetRound() != 2 {
			t.Errorf("%d at most: %v %v", most, recent, err)
		}
	}
	_, err = p.contracts().GetContractStatus(t.Context(), with(p, &swarmv1.GetContractStatusRequest{Contract: "none"}))
	wantReason(t, "unknown contract", err, "CONTRACT_UNKNOWN")
	list, err := p.contracts().ListContracts(t.Context(), with(p, &swarmv1.ListContractsRequest{}))
	if err != nil || len(list.Msg.GetContracts()) != 2 || list.Msg.GetContracts()[1].GetOpenSessions() != 1 {
		t.Errorf("list: %v %v", list, err)
	}
	_, err = p.contracts().ResetContract(t.Context(), signed(p, &swarmv1.ResetContractRequest{Contract: "study"}))
	wantReason(t, "reset with open sessions", err, "OPEN_SESSIONS")
	for range 2 {
		run, err := p.contracts().ResetContract(t.Context(), signed(p, &swarmv1.ResetContractRequest{Contract: "study", Force: true, Run: 1}))
		if err != nil || run.Msg.GetRun() != 2 {
			t.Errorf("reset: %v %v", run, err)
		}
	}
}

func TestWatch(t *testing.T) {
	s := newSwarm(t)
	a, _ := newLearner(t, s, "sl-a")
	watch := func(name string) (*connect.ServerStreamForClient[swarmv1.ContractView], error) {
		return a.sessions().WatchContract(t.Context(), with(a, &swarmv1.WatchContractRequest{Contract: name}))
	}
	unknown, err := watch("none")
	if err != nil {
		t.Fatal(err)
	}
	if unknown.Receive() {
		t.Error("a view of a contract that is not there")
	}
	wantReason(t, "unknown contract", unknown.Err(), "CONTRACT_UNKNOWN")

	stream, err := watch(state.DefaultContract)
	if err != nil {
		t.Fatal(err)
	}
	if !stream.Receive() || stream.Msg().GetPhase() != "uninitialised" {
		t.Fatalf("first view: %v %v", stream.Msg(), stream.Err())
	}
	first := proto.CloneOf(stream.Msg())
	// A change elsewhere is not sent; the next view is the one with the session.
	must(s.core.Propose(t.Context(), state.SetLive{Node: "sl-a", Live: false}))(t)
	must(s.core.Propose(t.Context(), state.SetLive{Node: "sl-a", Live: true}))(t)
	req := openRequest(idA, wireTerms(layout(t, 100), 1))
	req.Contract = state.DefaultContract
	if _, err := a.sessions().OpenSession(t.Context(), with(a, req)); err != nil {
		t.Fatal(err)
	}
	if !stream.Receive() || len(stream.Msg().GetSessions()) != 1 || stream.Msg().GetIndex() <= first.GetIndex() {
		t.Errorf("second view: %v %v, before it %v", stream.Msg(), stream.Err(), cmp.Diff(first.GetIndex(), stream.Msg().GetIndex()))
	}
	s.server.Stop()
	if stream.Receive() {
		t.Error("the stream goes on after Stop")
	}
	wantReason(t, "stopped", stream.Err(), "STOPPING")
}

// TestHeartbeatLearnsOfALostLeader: the answer comes before the node gives up, so that it goes to another SN.
func TestHeartbeatLearnsOfALostLeader(t *testing.T) {
	s := newSwarm(t)
	a, _ := newLearner(t, s, "sl-a")
	s.core.SetLeader("sn-1")
	s.core.Serve("sn-1", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err := a.sessions().Report(ctx, with(a, &swarmv1.ReportRequest{}))
	wantReason(t, "heartbeat", err, "NO_LEADER")
	if end, _ := ctx.Deadline(); time.Until(end) < time.Second {
		t.Error("the answer came too late")
	}
}

// TestLaggingSNSendsElsewhere: what an SN that follows no leader does not know, another may: neither a session nor a watch
// ends for it.
func TestLaggingSNSendsElsewhere(t *testing.T) {
	s := newSwarm(t)
	a, _ := newLearner(t, s, "sl-a")
	s.core.SetLeader("")
	stream, err := a.sessions().WatchContract(t.Context(), with(a, &swarmv1.WatchContractRequest{Contract: "elsewhere"}))
	if err != nil {
		t.Fatal(err)
	}
	if stream.Receive() {
		t.Error("a view of a contract that is not there")
	}
	wantReason(t, "watch", stream.Err(), "NO_LEADER")
	_, err = a.sessions().CloseSession(t.Context(), with(a, &swarmv1.CloseSessionRequest{Session: idA, Contract: "elsewhere", Run: 1}))
	wantReason(t, "close", err, "NO_LEADER")
}

// TestWatchWaitsForTheContract: the contract was made through another SN a moment ago.
func TestWatchWaitsForTheContract(t *testing.T) {
	s := newSwarm(t)
	a, _ := newLearner(t, s, "sl-a")
	opened := make(chan error, 1)
	go func() {
		_, err := a.open(t, idA, wireTerms(layout(t, 100), 2))
		opened <- err
	}()
	stream, err := a.sessions().WatchContract(t.Context(), with(a, &swarmv1.WatchContractRequest{Contract: "study"}))
	if err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Fatal(err)
	}
	if !stream.Receive() || len(stream.Msg().GetSessions()) != 1 {
		t.Errorf("got %v, %v", stream.Msg(), stream.Err())
	}
}

// TestStreamEndsWithTheSVID: whoever is removed is cut off when its last SVID expires.
func TestStreamEndsWithTheSVID(t *testing.T) {
	s := newSwarm(t)
	source := must(s.authority.Issue("/swarm/sl/sl-a", 2*time.Second))(t)
	a := s.connect(source)
	a.register(t, "sl-a", nodeKey(t))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	stream, err := a.sessions().WatchContract(ctx, with(a, &swarmv1.WatchContractRequest{Contract: state.DefaultContract}))
	if err != nil {
		t.Fatal(err)
	}
	for stream.Receive() {
	}
	wantReason(t, "expired", stream.Err(), "SVID_EXPIRED")
}

// TestReportsAreBounded: what a report says of a merge is kept for as long as its session, so it is no longer than a merge's.
func TestReportsAreBounded(t *testing.T) {
	s := newSwarm(t)
	a, _ := newLearner(t, s, "sl-a")
	if _, err := a.open(t, idA, wireTerms(layout(t, 100), 1)); err != nil {
		t.Fatal(err)
	}
	for name, done := range map[string]*swarmv1.Done{
		"squares": {UpdateSquares: make([]float64, state.MaxMinPeers+1)},
		"state":   {StateDigest: strings.Repeat("0", 129)},
	} {
		msg := &swarmv1.ReportRequest{Sessions: []*swarmv1.SessionReport{{Session: idA, Contract: "study", Run: 1, Done: done}}}
		if _, err := a.sessions().Report(t.Context(), with(a, msg)); err == nil || !strings.Contains(err.Error(), "out of bounds") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPackedViewsAreThePlainOnes: who asks for packed views rebuilds what the others are sent.
func TestPackedViewsAreThePlainOnes(t *testing.T) {
	s := newSwarm(t)
	a, _ := newLearner(t, s, "sl-a")
	if _, err := a.open(t, idA, wireTerms(layout(t, 100), 2)); err != nil {
		t.Fatal(err)
	}
	watch := func(packed bool) *connect.ServerStreamForClient[swarmv1.ContractView] {
		return must(a.sessions().WatchContract(t.Context(), with(a, &swarmv1.WatchContractRequest{Contract: "study", Packed: packed})))(t)
	}
	plain, packed := watch(false), watch(true)
	next := func(stream *connect.ServerStreamForClient[swarmv1.ContractView], ready func(*swarmv1.ContractView) bool, view func(*swarmv1.ContractView) *swarmv1.ContractView) *swarmv1.ContractView {
		for stream.Receive() {
			if v := view(stream.Msg()); ready(v) {
				return v
			}
		}
		t.Fatal(stream.Err())
		return nil
	}
	var views delta.Decoder
	differences := 0
	for round := range 2 {
		if round > 0 {
			must(a.sessions().CloseSession(t.Context(), with(a, &swarmv1.CloseSessionRequest{
				Session: idA, Contract: "study", Run: 1, CheckinMode: "snapshot", Seq: uint64(round),
			})))(t)
		}
		ready := func(v *swarmv1.ContractView) bool { return round == 0 || v.GetSessions()[0].GetState() == "closed" }
		want := next(plain, ready, func(v *swarmv1.ContractView) *swarmv1.ContractView { return v })
		got := next(packed, ready, func(v *swarmv1.ContractView) *swarmv1.ContractView {
			if v.GetPacked() == nil || v.GetName() != "" {
				t.Errorf("a view that is not packed: %v", v)
			}
			differences += len(v.GetPacked().GetUpdates())
			return must(views.View(v))(t)
		})
		if want.GetPacked() != nil || !proto.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	if differences != 2 {
		t.Errorf("%d updates, want the first view and one difference", differences)
	}
}
