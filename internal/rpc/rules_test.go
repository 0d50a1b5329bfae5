package rpc_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/rpc/rpctest"
)

func create(t *testing.T, p *peer, rules *swarmv1.Rules) (*swarmv1.ContractView, error) {
	t.Helper()
	res, err := p.contracts().CreateContract(t.Context(), signed(p, &swarmv1.CreateContractRequest{Contract: "study", Rules: rules}))
	if err != nil {
		return nil, err
	}
	return res.Msg.GetContract(), nil
}

// TestCreateContract: rules come back as they were given, survive a reset, and bind the sessions that come.
func TestCreateContract(t *testing.T) {
	s := newSwarm(t)
	admin := s.as("/swarm/swci/admin")
	want := &swarmv1.Rules{
		Method: "mean", MinPeers: 2, ExpectedPeers: 3, Required: []string{"sl-a", "sl-b"}, MinWeightShare: 0.25, WeightCap: 0.75,
		Export: true, NonFinite: "fail", QuorumWaitMs: 4, StallGraceMs: 5, MinPeersTimeoutMs: 6,
		Allow:  []string{"spiffe://a.example/swarm/sl/*", "spiffe://hospital.example/swarm/sl/**"},
		Owners: []string{"spiffe://a.example/swarm/sl/a", "spiffe://a.example/swarm/sl/b"}, Witnesses: 3, CheckinDefault: "once", Curves: []string{"spiffe://a.example/swarm/audit", "spiffe://a.example/swarm/swci/b"},
	}
	rpctest.Full(t, want)
	asked := &swarmv1.Rules{
		Method: "mean", MinPeers: 2, ExpectedPeers: 3, Required: []string{"sl-b", "sl-a", "sl-b"}, MinWeightShare: 0.25, WeightCap: 0.75,
		Export: true, NonFinite: "fail", QuorumWaitMs: 4, StallGraceMs: 5, MinPeersTimeoutMs: 6,
		Allow:  []string{"spiffe://hospital.example/swarm/sl/**", "spiffe://a.example/swarm/sl/*"},
		Owners: []string{"spiffe://a.example/swarm/sl/b", "spiffe://a.example/swarm/sl/a", "spiffe://a.example/swarm/sl/b"}, Witnesses: 3,
		CheckinDefault: "once", Curves: []string{"spiffe://a.example/swarm/swci/b", "spiffe://a.example/swarm/audit", "spiffe://a.example/swarm/audit"},
	}
	for range 2 { // idempotent
		view, err := create(t, admin, asked)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, view.GetRules(), protocmp.Transform()); d != "" || view.GetExpectedPeers() != 3 {
			t.Errorf("expects %d:\n%s", view.GetExpectedPeers(), d)
		}
	}
	if _, err := admin.contracts().ResetContract(t.Context(), signed(admin, &swarmv1.ResetContractRequest{Contract: "study"})); err != nil {
		t.Fatal(err)
	}
	a, _ := newLearner(t, s, "sl-a")
	terms := wireTerms(layout(t, 100), 3)
	_, err := a.open(t, idA, terms)
	wantReason(t, "other minPeers", err, "TERMS_MISMATCH")
	if !strings.Contains(err.Error(), "this session has method mean, minPeers 3") || !strings.Contains(err.Error(), "the rules demand method mean, minPeers 2") {
		t.Errorf("the error does not show both: %v", err)
	}
	terms.MinPeers, terms.Method = 0, ""
	view, err := a.open(t, idA, terms)
	if err != nil || len(view.GetSessions()) != 1 {
		t.Fatalf("terms that the rules fill in: %v %v", view, err)
	}
	_, err = create(t, admin, &swarmv1.Rules{})
	wantReason(t, "other rules under a session", err, "OPEN_SESSIONS")
	_, err = create(t, a, asked)
	wantReason(t, "rules by an SL", err, "ROLE_DENIED")
}

func TestBadRules(t *testing.T) {
	s := newSwarm(t)
	admin := s.as("/swarm/swci/admin")
	for name, tt := range map[string]struct {
		rules  *swarmv1.Rules
		reason string
		says   string
	}{
		"unknown method":    {&swarmv1.Rules{Method: "guess"}, "BAD_REQUEST", "guess"},
		"not canonical":     {&swarmv1.Rules{Method: "MEAN"}, "BAD_REQUEST", `which is "mean"`},
		"too few for krum":  {&swarmv1.Rules{Method: "krum(f=2)", MinPeers: 3}, "TOO_FEW_PEERS", "krum(f=2) needs 7 peers (2f+3): minPeers is 3"},
		"share above 1":     {&swarmv1.Rules{MinWeightShare: 1.5}, "BAD_REQUEST", "min_weight_share"},
		"share that is NaN": {&swarmv1.Rules{WeightCap: math.NaN()}, "BAD_REQUEST", "weight_cap"},
		"cap below 1/n":     {&swarmv1.Rules{WeightCap: 0.3, MinPeers: 3}, "BAD_COMMAND", "0.3"},
		"many required":     {&swarmv1.Rules{Required: make([]string, state.MaxRequired+1)}, "BAD_REQUEST", "at most"},
		"policy":            {&swarmv1.Rules{NonFinite: "ignore"}, "BAD_COMMAND", "ignore"},
	} {
		_, err := create(t, admin, tt.rules)
		wantReason(t, name, err, tt.reason)
		if err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := create(t, admin, &swarmv1.Rules{WeightCap: 1.0 / 3, MinPeers: 3}); err != nil {
		t.Errorf("a third for three: %v", err)
	}
	_, err := admin.contracts().CreateContract(t.Context(), signed(admin, &swarmv1.CreateContractRequest{Contract: "no name"}))
	wantReason(t, "bad name", err, "BAD_REQUEST")
}

// TestMethodOfASession: what no round could be merged by is refused at enrolment, in words.
func TestMethodOfASession(t *testing.T) {
	s := newSwarm(t)
	a, _ := newLearner(t, s, "sl-a")
	for method, tt := range map[string]struct {
		minPeers uint32
		reason   string
	}{
		"":                  {2, ""},
		"krum(f=2)":         {3, "TOO_FEW_PEERS"},
		"Krum(f=2)":         {9, "BAD_REQUEST"},
		"krum":              {9, "BAD_REQUEST"},
		"bulyan(f=1)":       {6, "TOO_FEW_PEERS"},
		"trimmedmean(f=-1)": {9, "BAD_REQUEST"},
	} {
		terms := wireTerms(layout(t, 100), tt.minPeers)
		terms.Method = method
		_, err := a.open(t, idA, terms)
		if tt.reason == "" {
			if err != nil {
				t.Errorf("%q: %v", method, err)
			}
			continue
		}
		wantReason(t, method, err, tt.reason)
	}
	terms := wireTerms(layout(t, 100), 3)
	terms.Method = "krum(f=2)"
	_, err := a.open(t, idB, terms)
	if ce, ok := errors.AsType[*connect.Error](err); !ok || ce.Message() != "krum(f=2) needs 7 peers (2f+3): minPeers is 3" {
		t.Errorf("got %v", err)
	}
}

// TestTimeoutsOfASession: what the node asks for is in the state.
func TestTimeoutsOfASession(t *testing.T) {
	s := newSwarm(t)
	a, _ := newLearner(t, s, "sl-a")
	req := openRequest(idA, wireTerms(layout(t, 100), 2))
	req.NoShard, req.QuorumWaitMs, req.StallGraceMs = true, 7, 8
	res, err := a.sessions().OpenSession(t.Context(), with(a, req))
	if err != nil || !res.Msg.GetContract().GetSessions()[0].GetNoShard() {
		t.Fatalf("%v %v", res, err)
	}
	if q, g := s.core.View().Contracts["study"].Waits(); q != 7 || g != 8 {
		t.Errorf("waits %d and %d", q, g)
	}
}

// TestDeleteContract: a contract goes by an operator's order, which says how many sessions stand in its way; another of its name begins
// behind its run.
func TestDeleteContract(t *testing.T) {
	s := newSwarm(t)
	admin := s.as("/swarm/swci/admin")
	must(create(t, admin, &swarmv1.Rules{MinPeers: 2, Export: true}))(t)
	sl, _ := newLearner(t, s, "sl-a")
	must(sl.open(t, idA, wireTerms(layout(t, 100), 2)))(t)
	remove := func(p *peer, name string, run uint64, force bool) error {
		_, err := p.contracts().DeleteContract(t.Context(), signed(p, &swarmv1.DeleteContractRequest{Contract: name, Run: run, Force: force}))
		return err
	}
	err := remove(admin, "study", 1, false)
	wantReason(t, "with an open session", err, "OPEN_SESSIONS")
	if !strings.Contains(err.Error(), "contract study has 1 open sessions, of sl-a") {
		t.Error(err)
	}
	wantReason(t, "unsigned", func() error {
		_, err := admin.contracts().DeleteContract(t.Context(), with(admin, &swarmv1.DeleteContractRequest{Contract: "study", Force: true}))
		return err
	}(), "ORDER_MISSING")
	wantReason(t, "by an SL", func() error {
		_, err := sl.contracts().DeleteContract(t.Context(), with(sl, &swarmv1.DeleteContractRequest{Contract: "study", Force: true}))
		return err
	}(), "ROLE_DENIED")
	wantReason(t, "of no name", remove(admin, "no such?", 0, false), "BAD_REQUEST")
	wantReason(t, "the default", remove(admin, state.DefaultContract, 0, true), "BAD_COMMAND")
	stream := must(sl.sessions().WatchContract(t.Context(), with(sl, &swarmv1.WatchContractRequest{Contract: "study"})))(t)
	defer stream.Close()
	if !stream.Receive() || stream.Msg().GetRun() != 1 {
		t.Fatalf("watch: %v, %v", stream.Msg(), stream.Err())
	}
	if err := remove(admin, "study", 1, true); err != nil {
		t.Fatal(err)
	}
	for stream.Receive() { // what was sent before
	}
	wantReason(t, "watch", stream.Err(), "CONTRACT_UNKNOWN")
	if err := remove(admin, "study", 1, true); err != nil {
		t.Errorf("asked again: %v", err)
	}
	wantReason(t, "without a run, again", remove(admin, "study", 0, true), "CONTRACT_UNKNOWN")
	_, err = admin.contracts().GetContractStatus(t.Context(), with(admin, &swarmv1.GetContractStatusRequest{Contract: "study"}))
	wantReason(t, "status", err, "CONTRACT_UNKNOWN")
	_, err = sl.sessions().EndSession(t.Context(), with(sl, &swarmv1.EndSessionRequest{Session: idA, Contract: "study", Run: 1, Reason: "finished"}))
	wantReason(t, "end", err, "SESSION_UNKNOWN")
	view := must(create(t, admin, &swarmv1.Rules{MinPeers: 2}))(t)
	if view.GetRun() != 2 {
		t.Errorf("the new contract is in run %d", view.GetRun())
	}
	wantReason(t, "the run before", remove(admin, "study", 1, true), "STALE_RUN")
}
