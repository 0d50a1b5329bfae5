package rpc_test

import (
	"strings"
	"testing"

	p2pcrypto "github.com/libp2p/go-libp2p/core/crypto"
	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round/onwire"
	"github.com/swarmd/swarmd/internal/session/statement"
)

// signReport signs what a node reports of its sessions.
func signReport(t *testing.T, node string, key p2pcrypto.PrivKey, m *swarmv1.ReportRequest) {
	t.Helper()
	for _, x := range m.GetSessions() {
		x.Signature = must(key.Sign(statement.Message(node, must(onwire.FromReport(x))(t))))(t)
	}
}

// TestNobodyMakesUpWhatASessionSays: the SN that passes a heartbeat on can change nothing of what the leader acts on.
func TestNobodyMakesUpWhatASessionSays(t *testing.T) {
	s := newSwarm(t)
	a, key := newLearner(t, s, "sl-a")
	b, other := newLearner(t, s, "sl-b")
	terms := wireTerms(layout(t, 100), 2)
	for id, p := range map[string]*peer{idA: a, idB: b} {
		if _, err := p.open(t, id, terms); err != nil {
			t.Fatal(err)
		}
	}
	must(s.core.Propose(t.Context(), state.RegisterNode{Node: state.Node{Name: "sn-1", Role: "sn", PeerID: "sn-1"}, TokenHash: strings.Repeat("0", 64)}))(t)
	pass := func(x *swarmv1.SessionReport) error {
		return s.passOn(a, "sn-1", &swarmv1.ReportRequest{Sessions: []*swarmv1.SessionReport{x}})
	}
	genuine := &swarmv1.SessionReport{
		Session: idA, Contract: "study", Run: 1, Number: 5, Ready: &swarmv1.Ready{Seq: 2, Weight: 3, Refuses: []string{"sl-c"}},
		Held: []*swarmv1.HeldModel{{Round: 1, Digest: "d"}},
		Done: &swarmv1.Done{Round: 1, Attempt: 1, UpdateSquares: []float64{1}, Seals: [][]byte{{1}}}, // of another attempt than there is
	}
	signReport(t, "sl-a", key, &swarmv1.ReportRequest{Sessions: []*swarmv1.SessionReport{genuine}})
	for name, change := range map[string]func(x *swarmv1.SessionReport){
		"made up":                func(x *swarmv1.SessionReport) { x.Signature = nil },
		"ready for another Sync": func(x *swarmv1.SessionReport) { x.Ready.Seq++ },
		"another weight":         func(x *swarmv1.SessionReport) { x.Ready.Weight = 0 },
		"another base":           func(x *swarmv1.SessionReport) { x.Ready.BaseRound, x.Ready.BaseDigest = 1, "d" },
		"another norm":           func(x *swarmv1.SessionReport) { x.Ready.UpdateNorm = 1e9 },
		"refuses nobody":         func(x *swarmv1.SessionReport) { x.Ready.Refuses = nil },
		"not ready":              func(x *swarmv1.SessionReport) { x.Ready = nil },
		"done with less":         func(x *swarmv1.SessionReport) { x.Done.UpdateSquares[0] = 0.5 },
		"done without a seal":    func(x *swarmv1.SessionReport) { x.Done.Seals = nil },
		"not done":               func(x *swarmv1.SessionReport) { x.Done = nil },
		"failed":                 func(x *swarmv1.SessionReport) { x.Failed = &swarmv1.Failed{Round: 1, Attempt: 1, Blamed: "sl-b"} },
		"holds nothing":          func(x *swarmv1.SessionReport) { x.Held = nil },
		"holds another model":    func(x *swarmv1.SessionReport) { x.Held[0].Digest = "e" },
		"a later one":            func(x *swarmv1.SessionReport) { x.Number++ },
		"another run":            func(x *swarmv1.SessionReport) { x.Run++ },
	} {
		forged := proto.CloneOf(genuine)
		change(forged)
		want := "SIGNATURE_REFUSED"
		if name == "made up" { // it is asked for
			want = "SIGN"
		}
		if err := pass(forged); reasonOf(err) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	of := func(session string, node string, by p2pcrypto.PrivKey) *swarmv1.SessionReport {
		x := &swarmv1.SessionReport{Session: session, Contract: "study", Run: 1, Number: 1, Failed: &swarmv1.Failed{Round: 1, Attempt: 1, Blamed: node}}
		signReport(t, node, by, &swarmv1.ReportRequest{Sessions: []*swarmv1.SessionReport{x}})
		return x
	}
	if err := pass(of(idA, "sl-a", other)); reasonOf(err) != "SIGNATURE_REFUSED" {
		t.Errorf("signed by another node: %v", err)
	}
	moved := of(idB, "sl-b", other)
	moved.Session = idA
	if err := pass(moved); reasonOf(err) != "SIGNATURE_REFUSED" {
		t.Errorf("of another session: %v", err)
	}
	if got := s.lead.Reports(); len(got) != 0 {
		t.Errorf("recorded %+v", got)
	}
	shown := proto.CloneOf(genuine)
	for range 2 { // a heartbeat repeats it, with whatever the program has measured since
		if err := pass(shown); err != nil {
			t.Error(err)
		}
		shown.Progress = &swarmv1.Progress{Loss: 1, HasLoss: true}
	}
	if got := s.lead.Reports(); len(got) != 2 || got[1].Ready.Weight != 3 || got[1].Number != 5 {
		t.Errorf("recorded %+v", got)
	}
	genuine.Signature = nil // nobody has passed it on
	if _, err := a.sessions().Report(t.Context(), with(a, &swarmv1.ReportRequest{Sessions: []*swarmv1.SessionReport{genuine}})); err != nil {
		t.Errorf("to the leader itself: %v", err)
	}
}

// TestAFollowerPassesNothingOnThatIsNotSigned: the leader takes nothing from there that is not signed, and the node is told. A follower that
// says it leads gets what is not signed, and can do nothing with it that it could not do without.
func TestAFollowerPassesNothingOnThatIsNotSigned(t *testing.T) {
	s := newSwarm(t)
	a, key := newLearner(t, s, "sl-a")
	if _, err := a.open(t, idA, wireTerms(layout(t, 100), 2)); err != nil {
		t.Fatal(err)
	}
	must(s.core.Propose(t.Context(), state.RegisterNode{Node: state.Node{Name: "sn-1", Role: "sn", PeerID: "sn-1"}, TokenHash: strings.Repeat("0", 64)}))(t)
	req := &swarmv1.ReportRequest{Sessions: []*swarmv1.SessionReport{{Session: idA, Contract: "study", Run: 1, Number: 1, Ready: &swarmv1.Ready{Seq: 1}}}}
	send := func() *swarmv1.ReportResponse {
		res, err := a.sessions().Report(t.Context(), with(a, req))
		if err != nil {
			t.Fatal(err)
		}
		return res.Msg
	}
	if res := send(); !res.GetLeads() || res.GetSign() || len(s.lead.Reports()) != 1 {
		t.Errorf("the leader says %v, %d reports", res, len(s.lead.Reports()))
	}
	heard := s.second(t, "sn-1")
	s.core.SetLeader("sn-1") // sn-0 passes on from here
	if res := send(); res.GetLeads() || !res.GetSign() || res.GetLeader() != "sn-1" || len(s.lead.Reports()) != 1 || len(heard.Reports()) != 0 {
		t.Errorf("a follower says %v of what is not signed, %d reports, %d at the leader", res, len(s.lead.Reports()), len(heard.Reports()))
	}
	signReport(t, "sl-a", key, req)
	if res := send(); res.GetLeads() || res.GetSign() || res.GetLeader() != "sn-1" || len(s.lead.Reports()) != 1 || len(heard.Reports()) != 1 {
		t.Errorf("a follower says %v of what is signed, %d reports, %d at the leader", res, len(s.lead.Reports()), len(heard.Reports()))
	}
}
