package rpc_test

import (
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/rpc"
	"github.com/swarmd/swarmd/internal/rpc/rpctest"
)

const headerCaller = "Swarm-Caller"

// errSign stands for an answer that asks for signatures.
var errSign = errors.New("the report is to be signed")

// reasonOf is the reason of an error of the API.
func reasonOf(err error) string {
	if errors.Is(err, errSign) {
		return "SIGN"
	}
	var ce *connect.Error
	if !errors.As(err, &ce) {
		return ""
	}
	for _, d := range ce.Details() {
		if v, err := d.Value(); err == nil {
			if r, ok := v.(*swarmv1.ErrorReason); ok {
				return r.GetReason()
			}
		}
	}
	return ""
}

// passOn has an SN pass a node's heartbeat on to sn-0.
func (s *swarm) passOn(p *peer, from string, m *swarmv1.ReportRequest) error {
	req := with(p, m)
	svid, _ := p.source.GetX509SVID()
	req.Header().Set(headerCaller, svid.ID.String())
	res, err := swarmv1connect.NewSessionServiceClient(&http.Client{Transport: s.core.Way(from, "sn-0")}, "http://sn").Report(s.t.Context(), req)
	if err == nil && res.Msg.GetSign() {
		return errSign
	}
	return err
}

// second is another SN of the swarm, which answers the others and has no API of its own.
func (s *swarm) second(t *testing.T, name string) *rpctest.Lead {
	t.Helper()
	heard := &rpctest.Lead{}
	srv := must(rpc.New(rpc.Config{
		Name: name, Core: s.core.On(name), Lead: heard, Caller: rpc.TLSCaller(nil), Source: s.source("/swarm/sn"), Log: slog.New(slog.DiscardHandler),
	}))(t)
	s.core.Serve(name, srv.Between())
	s.core.Vet(srv.Vet)
	if s.core.View().Nodes["sn-0"] != nil && s.core.View().Nodes[name] == nil {
		must(s.core.Propose(t.Context(), state.RegisterNode{Node: state.Node{Name: name, Role: "sn", PeerID: name}, TokenHash: strings.Repeat("0", 64)}))(t)
	}
	return heard
}

// TestAFollowerHasTheLeaderAnswer: all that a node does works through an SN that does not lead, and is known there at once.
func TestAFollowerHasTheLeaderAnswer(t *testing.T) {
	s := newSwarm(t)
	heard := s.second(t, "sn-1")
	s.core.SetLeader("sn-1")
	a, key := newLearner(t, s, "sl-a")
	if _, err := a.open(t, idA, wireTerms(layout(t, 100), 2)); err != nil {
		t.Fatal(err)
	}
	m := &swarmv1.ReportRequest{Sessions: []*swarmv1.SessionReport{{Session: idA, Contract: "study", Run: 1, Number: 1, Ready: &swarmv1.Ready{Seq: 1}}}}
	signReport(t, "sl-a", key, m)
	if _, err := a.sessions().Report(t.Context(), with(a, m)); err != nil || len(heard.Reports()) != 1 || len(s.lead.Reports()) != 0 {
		t.Errorf("report: %v, %d at the leader, %d here", err, len(heard.Reports()), len(s.lead.Reports()))
	}
	res, err := a.contracts().GetContractStatus(t.Context(), with(a, &swarmv1.GetContractStatusRequest{Contract: "study"}))
	if err != nil || res.Msg.GetContract().GetName() != "study" {
		t.Errorf("status: %v, %v", res, err)
	}
	_, err = a.contracts().GetContractStatus(t.Context(), with(a, &swarmv1.GetContractStatusRequest{Contract: "nothing"}))
	wantReason(t, "no such contract", err, state.ReasonContractAbsent)
	op := s.as("/swarm/swci")
	_, err = op.contracts().ResetContract(t.Context(), signed(op, &swarmv1.ResetContractRequest{Contract: "study"}))
	wantReason(t, "reset with open sessions", err, state.ReasonOpenSessions)
	if detail := remedyOf(err); detail == "" {
		t.Error("the remedy is lost on the way")
	}
	if _, err := op.contracts().ResetContract(t.Context(), signed(op, &swarmv1.ResetContractRequest{Contract: "study", Force: true})); err != nil {
		t.Error(err)
	}
	for name, option := range map[string]connect.ClientOption{"gRPC": connect.WithGRPC(), "gRPC-Web": connect.WithGRPCWeb(), "JSON": connect.WithProtoJSON()} {
		c := swarmv1connect.NewContractServiceClient(a.http, a.url(), option)
		if got, err := c.GetContractStatus(t.Context(), with(a, &swarmv1.GetContractStatusRequest{Contract: "study"})); err != nil || got.Msg.GetContract().GetRun() != 2 {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		_, err := c.GetContractStatus(t.Context(), with(a, &swarmv1.GetContractStatusRequest{Contract: "nothing"}))
		wantReason(t, name, err, state.ReasonContractAbsent)
	}
	if _, err := op.ban(t.Context(), "sn-0", ""); reasonOf(err) != "STOPPING" {
		t.Errorf("an SN bans itself: %v", err)
	}
	if got, err := op.ban(t.Context(), "sl-a", "stolen"); err != nil || got.GetReason() != "stolen" {
		t.Errorf("ban: %v, %v", got, err)
	}
}

// remedyOf is the remedy of an error of the API.
func remedyOf(err error) string {
	var ce *connect.Error
	if errors.As(err, &ce) {
		for _, d := range ce.Details() {
			if v, err := d.Value(); err == nil {
				if r, ok := v.(*swarmv1.ErrorReason); ok {
					return r.GetRemedy()
				}
			}
		}
	}
	return ""
}

// TestWhatAFollowerMayClaim is what the leader can check, and nothing else.
func TestWhatAFollowerMayClaim(t *testing.T) {
	s := newSwarm(t)
	s.second(t, "sn-1")
	a, _ := newLearner(t, s, "sl-a")
	b := s.as("/swarm/sl/sl-b")
	b.register(t, "sl-b", nodeKey(t))
	way := &http.Client{Transport: s.core.Way("sn-1", "sn-0")}
	sessions, nodes := swarmv1connect.NewSessionServiceClient(way, "http://sn"), swarmv1connect.NewNodeServiceClient(way, "http://sn")
	contracts := swarmv1connect.NewContractServiceClient(way, "http://sn")
	const slB, swci = "spiffe://hospital.example/swarm/sl/sl-b", "spiffe://hospital.example/swarm/swci"
	own := must(a.source.GetX509SVID())(t)
	sl := own.ID.String()
	report := func(caller, node, token string) error {
		req := with(a, &swarmv1.ReportRequest{})
		req.Header().Set(headerCaller, caller)
		req.Header().Set(rpc.HeaderNode, node)
		req.Header().Set(rpc.HeaderToken, token)
		_, err := sessions.Report(t.Context(), req)
		return err
	}
	tokenA, tokenB := a.header.Get(rpc.HeaderToken), b.header.Get(rpc.HeaderToken)
	if err := report(sl, "sl-a", tokenA); err != nil {
		t.Errorf("what is so: %v", err)
	}
	for name, err := range map[string]error{
		"no token":            report(sl, "sl-a", ""),
		"another's token":     report(slB, "sl-b", tokenA),
		"another's SPIFFE ID": report(sl, "sl-b", tokenB),
	} {
		if reasonOf(err) != "TOKEN_REFUSED" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := report("spiffe://hospital.example/swarm/swop/x", "sl-a", tokenA); reasonOf(err) != "TOKEN_REFUSED" {
		t.Errorf("another role: %v", err)
	}
	if err := report("nobody", "sl-a", tokenA); reasonOf(err) != "NO_CERTIFICATE" {
		t.Errorf("no SPIFFE ID: %v", err)
	}
	if err := report("", "sl-a", tokenA); reasonOf(err) != "ROLE_DENIED" {
		t.Errorf("as the SN itself: %v", err)
	}
	req := with(a, &swarmv1.ListNodesRequest{})
	req.Header().Set(headerCaller, swci)
	if _, err := nodes.ListNodes(t.Context(), req); reasonOf(err) != "ROLE_DENIED" {
		t.Errorf("a call that no SN passes on: %v", err)
	}
	reset := with(a, &swarmv1.ResetContractRequest{Contract: state.DefaultContract})
	reset.Header().Set(headerCaller, swci)
	if _, err := contracts.ResetContract(t.Context(), reset); reasonOf(err) != "ORDER_MISSING" {
		t.Errorf("an operator that nobody saw: %v", err)
	}
	challenge := with(a, &swarmv1.ChallengeRequest{})
	challenge.Header().Set(headerCaller, slB)
	other := s.as("/swarm/sl")
	svid, _ := other.source.GetX509SVID()
	challenge.Header().Set("Swarm-Caller-Chain", encode(svid.Certificates[0].Raw))
	if _, err := nodes.Challenge(t.Context(), challenge); reasonOf(err) != "NO_CERTIFICATE" {
		t.Errorf("another's certificate: %v", err)
	}
	challenge.Header().Set("Swarm-Caller-Chain", "!")
	if _, err := nodes.Challenge(t.Context(), challenge); reasonOf(err) != "BAD_REQUEST" {
		t.Errorf("no certificate: %v", err)
	}
	// A registration that was made for another SN, or for another nonce, is not taken from this one.
	m := other.registration(t, "sl-c", "sl", nodeKey(t))
	register := with(other, m)
	register.Header().Set(headerCaller, svid.ID.String())
	register.Header().Set("Swarm-Caller-Chain", encode(svid.Certificates[0].Raw))
	register.Header().Set("Swarm-Caller-Exporter", encode(other.exporter))
	if _, err := nodes.Register(t.Context(), register); reasonOf(err) != "NONCE_REFUSED" {
		t.Errorf("a registration at another SN: %v", err)
	}
}

// ending is a core that leads no more, or stops, when it is asked to propose.
type ending struct {
	*rpctest.SN
	err error
}

func (e ending) Propose(context.Context, state.Command) (state.Result, error) {
	e.SetLeader("sn-0") // the others have elected meanwhile
	return state.Result{}, e.err
}

// TestALeaderThatEndsIsLeft: who is asked while the leader stops, or has lost its leadership, asks the next one.
func TestALeaderThatEndsIsLeft(t *testing.T) {
	for _, why := range []error{consensus.ErrNotLeader, consensus.ErrShutdown} {
		s := newSwarm(t)
		a, _ := newLearner(t, s, "sl-a")
		srv := must(rpc.New(rpc.Config{
			Name: "sn-1", Core: ending{s.core.On("sn-1"), why}, Lead: &rpctest.Lead{}, Caller: rpc.TLSCaller(nil), Source: s.source("/swarm/sn"), Log: slog.New(slog.DiscardHandler),
		}))(t)
		s.core.Serve("sn-1", srv.Between())
		s.core.SetLeader("sn-1")
		if _, err := a.open(t, idA, wireTerms(layout(t, 100), 2)); err != nil {
			t.Errorf("%v: %v", why, err)
		}
	}
}

// TestClientsClaimNothing: what a client says under the names of these headers is not believed, on either hop.
func TestClientsClaimNothing(t *testing.T) {
	s := newSwarm(t)
	a, _ := newLearner(t, s, "sl-a")
	for _, leader := range []string{"sn-0", "sn-1"} {
		if leader == "sn-1" {
			s.second(t, leader)
		}
		s.core.SetLeader(leader)
		req := with(a, &swarmv1.ReportRequest{})
		req.Header().Set(headerCaller, "spiffe://hospital.example/swarm/swci")
		req.Header().Set("Swarm-Caller-Chain", "!")
		if _, err := a.sessions().Report(t.Context(), req); err != nil {
			t.Errorf("led by %s: %v", leader, err)
		}
		reset := with(a, &swarmv1.ResetContractRequest{Contract: state.DefaultContract})
		reset.Header().Set(headerCaller, "spiffe://hospital.example/swarm/swci")
		_, err := a.contracts().ResetContract(t.Context(), reset)
		wantReason(t, "as an operator, led by "+leader, err, "ROLE_DENIED")
	}
}

func encode(b []byte) string { return base64.RawStdEncoding.EncodeToString(b) }
