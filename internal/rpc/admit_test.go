package rpc_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/admission"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/rpc"
	"github.com/swarmd/swarmd/internal/rpc/rpctest"
)

func newAdmitting(t *testing.T) *swarm {
	return startSwarm(t, rpc.Config{Core: must(rpctest.NewAdmitting(swarmID, "sn-0"))(t)})
}

func (p *peer) admit(ctx context.Context, name, peerID string) error {
	_, err := p.nodes().AdmitNode(ctx, signed(p, &swarmv1.AdmitNodeRequest{Name: name, PeerId: peerID}))
	return err
}

func (p *peer) candidates(t *testing.T) []*swarmv1.Candidate {
	t.Helper()
	res, err := p.nodes().ListNodes(t.Context(), with(p, &swarmv1.ListNodesRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	return res.Msg.GetCandidates()
}

func keyID(t *testing.T) string { return must(identity.PeerID(nodeKey(t)))(t).String() }

// TestOperatorsAdmitSNs by name and key, in an order that stands in the ledger.
func TestOperatorsAdmitSNs(t *testing.T) {
	s := newAdmitting(t)
	must(s.core.Propose(t.Context(), state.RecordBundle{TrustDomain: "hospital.example", Certificates: [][]byte{{1}}, AtMS: 1}))(t)
	p, key, other := s.as("/swarm/swci/dr-who"), keyID(t), keyID(t)
	joins := func(name, key string) error {
		_, err := s.core.Propose(t.Context(), state.RegisterNode{Node: state.Node{Name: name, Role: "sn", PeerID: key}, TokenHash: strings.Repeat("0", 64)})
		return err
	}
	wantReason(t, "unsigned", func() error {
		_, err := p.nodes().AdmitNode(t.Context(), with(p, &swarmv1.AdmitNodeRequest{Name: "sn-1", PeerId: key}))
		return err
	}(), "ORDER_MISSING")
	wantReason(t, "an SL", s.as("/swarm/sl").admit(t.Context(), "sn-1", key), "ROLE_DENIED")
	wantReason(t, "an SN", s.as("/swarm/sn").admit(t.Context(), "sn-1", key), "ROLE_DENIED")
	for _, bad := range []string{"", "x", key + "x", strings.Repeat("x", 5000), "/p2p/" + key} {
		wantReason(t, "bad key", p.admit(t.Context(), "sn-1", bad), "BAD_REQUEST")
	}
	wantReason(t, "bad name", p.admit(t.Context(), "a b", key), "BAD_COMMAND")
	if err := joins("sn-1", key); state.ReasonOf(err) != state.ReasonNotAdmitted {
		t.Errorf("join before: %v", err)
	}
	for range 2 {
		if err := p.admit(t.Context(), "sn-1", key); err != nil {
			t.Fatal(err)
		}
	}
	if err := joins("sn-1", other); state.ReasonOf(err) != state.ReasonNotAdmitted {
		t.Errorf("join of another key: %v", err)
	}
	if err := joins("sn-1", key); err != nil {
		t.Error(err)
	}
	wantReason(t, "the name is taken", p.admit(t.Context(), "sn-1", other), "NAME_TAKEN")
	wantReason(t, "the key is taken", p.admit(t.Context(), "sn-2", key), "KEY_TAKEN")
	// One that never joins is forgotten by name.
	if err := p.admit(t.Context(), "sn-2", other); err != nil {
		t.Fatal(err)
	}
	forget := func() error {
		_, err := p.nodes().ForgetNode(t.Context(), signed(p, &swarmv1.ForgetNodeRequest{Name: "sn-2"}))
		return err
	}
	if err := forget(); err != nil {
		t.Error(err)
	}
	wantReason(t, "forgotten twice", forget(), "NODE_UNKNOWN")
	var recorded []string
	for _, line := range s.core.Records() {
		_, body, err := ledger.Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		switch b := body.(type) {
		case ledger.Swarm:
			recorded = append(recorded, "asks "+b.Admit+" from "+b.Admitted[0].Node)
		case ledger.Admission:
			recorded = append(recorded, b.Node+" by "+b.By)
			if b.Order.By != b.By || b.PeerID != map[string]string{"sn-1": key, "sn-2": other}[b.Node] {
				t.Errorf("%+v", b)
			}
		case ledger.Forget:
			recorded = append(recorded, "forgot "+b.Node+" "+b.PeerID)
		}
	}
	const by = " by spiffe://hospital.example/swarm/swci/dr-who"
	if d := cmp.Diff([]string{"asks operator from sn-0", "sn-1" + by, "sn-2" + by, "forgot sn-2 " + other}, recorded); d != "" {
		t.Error(d)
	}
}

// TestWhoWaitsIsListed as the leader tells it, whose words are held to their bounds.
func TestWhoWaitsIsListed(t *testing.T) {
	s := newAdmitting(t)
	p, waits, admitted, joined := s.as("/swarm/swci"), keyID(t), keyID(t), keyID(t)
	if got := p.candidates(t); len(got) != 0 {
		t.Errorf("the leader says nothing, and there are %v", got)
	}
	for name, key := range map[string]string{"sn-2": admitted, "sn-3": joined} {
		if err := p.admit(t.Context(), name, key); err != nil {
			t.Fatal(err)
		}
	}
	must(s.core.Propose(t.Context(), state.RegisterNode{Node: state.Node{Name: "sn-3", Role: "sn", PeerID: joined}, TokenHash: strings.Repeat("0", 64)}))(t)
	told := []admission.Candidate{
		{Name: "sn-1", PeerID: waits, SPIFFEID: "spiffe://hospital.example/swarm/sn", Host: "10.0.0.1\n\x1b[2J", SinceMS: 7},
		{Name: "../x", PeerID: keyID(t)},
		{Name: "sn-4", PeerID: "x"},
		{Name: "sn-3", PeerID: joined},
	}
	var list []*swarmv1.Candidate
	for _, c := range told {
		list = append(list, &swarmv1.Candidate{Name: c.Name, PeerId: c.PeerID, SpiffeId: c.SPIFFEID, Host: c.Host, SinceUnixMs: c.SinceMS})
	}
	s.core.Serve("sn-9", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { // a leader that says what it likes
		w.Header().Set("Content-Type", "application/proto")
		_, _ = w.Write(must(proto.Marshal(&swarmv1.ListNodesResponse{Candidates: list}))(t))
	}))
	s.core.SetLeader("sn-9")
	want := []*swarmv1.Candidate{
		{Name: "sn-1", PeerId: waits, SpiffeId: "spiffe://hospital.example/swarm/sn", Host: "10.0.0.1  [2J", SinceUnixMs: 7},
		{Name: "sn-2", PeerId: admitted, SinceUnixMs: s.core.View().Admitted[admitted].AtMS, Admitted: true, AdmittedBy: "spiffe://hospital.example/swarm/swci"},
	}
	if d := cmp.Diff(want, p.candidates(t), protocmp.Transform()); d != "" {
		t.Error(d)
	}
	for range 1000 {
		list = append(list, &swarmv1.Candidate{Name: "sn-x", PeerId: keyID(t)})
	}
	if n := len(p.candidates(t)); n > admission.MaxCandidates {
		t.Errorf("%d candidates", n)
	}
}

// TestNobodyIsAdmittedWhereNobodyIsAsked: the default.
func TestNobodyIsAdmittedWhereNobodyIsAsked(t *testing.T) {
	s := newSwarm(t)
	p := s.as("/swarm/swci")
	wantReason(t, "admit", p.admit(t.Context(), "sn-1", keyID(t)), "ADMISSION_OFF")
	if got := p.candidates(t); len(got) != 0 {
		t.Errorf("candidates: %v", got)
	}
}
