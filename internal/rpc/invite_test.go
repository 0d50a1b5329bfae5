package rpc_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/claim"
)

// invite asks for an invitation whose secret is one byte over and over.
func (p *peer) invite(ctx context.Context, name, spiffeID string, secret byte, until time.Time) (*swarmv1.InviteNodeResponse, error) {
	res, err := p.nodes().InviteNode(ctx, signed(p, &swarmv1.InviteNodeRequest{
		Name: name, SpiffeId: spiffeID, Key: claim.KeyOf(bytes.Repeat([]byte{secret}, claim.SecretSize)), ExpiresUnixMs: until.UnixMilli(),
	}))
	if err != nil {
		return nil, err
	}
	return res.Msg, nil
}

// TestOperatorsInviteSNs whose key nobody knows, in an order that stands in the ledger beside what was claimed with it.
func TestOperatorsInviteSNs(t *testing.T) {
	s := newAdmitting(t)
	must(s.core.Propose(t.Context(), state.RecordBundle{TrustDomain: "hospital.example", Certificates: [][]byte{{1}}, AtMS: 1}))(t)
	p, key := s.as("/swarm/swci/dr-who"), keyID(t)
	const id = "spiffe://hospital.example/swarm/sn/sn-1"
	day := time.Now().Add(24 * time.Hour)
	wantReason(t, "unsigned", func() error {
		_, err := p.nodes().InviteNode(t.Context(), with(p, &swarmv1.InviteNodeRequest{Name: "sn-1", SpiffeId: id}))
		return err
	}(), "ORDER_MISSING")
	for _, role := range []string{"sl", "sn", "audit"} {
		_, err := s.as("/swarm/"+role).invite(t.Context(), "sn-1", id, 1, day)
		wantReason(t, role, err, "ROLE_DENIED")
	}
	for name, bad := range map[string]string{"none": "", "shared": "spiffe://hospital.example/swarm/sn", "an SL's": "spiffe://hospital.example/swarm/sl/sn-1", "another's": id + "0"} {
		_, err := p.invite(t.Context(), "sn-1", bad, 1, day)
		wantReason(t, name, err, "BAD_REQUEST")
	}
	_, err := p.invite(t.Context(), "sn-1", id, 1, day.AddDate(0, 2, 0))
	wantReason(t, "too long", err, "BAD_COMMAND")
	for range 2 {
		if res := must(p.invite(t.Context(), "sn-1", id, 1, day))(t); res.GetNumber() != 1 {
			t.Errorf("it is invitation %d", res.GetNumber())
		}
	}
	list := must(p.nodes().ListNodes(t.Context(), with(p, &swarmv1.ListNodesRequest{})))(t).Msg.GetInvited()
	if len(list) != 1 || list[0].GetName() != "sn-1" || list[0].GetSpiffeId() != id || list[0].GetNumber() != 1 || !strings.HasSuffix(list[0].GetBy(), "/dr-who") {
		t.Errorf("invited: %v", list)
	}
	if admit := must(swarmv1connect.NewSwarmServiceClient(p.http, p.url()).GetSwarm(t.Context(), with(p, &swarmv1.GetSwarmRequest{})))(t).Msg.GetAdmit(); admit != "operator" {
		t.Errorf("admit %q", admit)
	}
	secret := bytes.Repeat([]byte{1}, claim.SecretSize)
	must(s.core.Propose(t.Context(), state.ClaimInvitation{
		Node: "sn-1", PeerID: key, SPIFFEID: id, Key: claim.KeyOf(secret), Signature: claim.Sign(secret, swarmID, "sn-1", key), AtMS: time.Now().UnixMilli(),
	}))(t)
	if got := p.candidates(t); len(got) != 1 || !got[0].GetAdmitted() || got[0].GetPeerId() != key {
		t.Errorf("candidates: %v", got)
	}
	// One that nobody uses is taken back by its name.
	must(p.invite(t.Context(), "sn-2", id[:len(id)-1]+"2", 2, day))(t)
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
		case ledger.Invitation:
			recorded = append(recorded, "invited "+b.Node+" by "+b.Order.By)
		case ledger.Admission:
			recorded = append(recorded, "admitted "+b.Node+" by "+b.By)
			if b.Invitation != 1 || b.Order != nil || b.PeerID != key {
				t.Errorf("%+v", b)
			}
		case ledger.Forget:
			recorded = append(recorded, "took back "+b.Node)
		}
	}
	const by = " by spiffe://hospital.example/swarm/swci/dr-who"
	if d := cmp.Diff([]string{"invited sn-1" + by, "admitted sn-1" + by, "invited sn-2" + by, "took back sn-2"}, recorded); d != "" {
		t.Error(d)
	}
}

// TestNobodyIsInvitedWhereNobodyIsAsked: the line of `invite` admits nobody there.
func TestNobodyIsInvitedWhereNobodyIsAsked(t *testing.T) {
	s := newSwarm(t)
	_, err := s.as("/swarm/swci").invite(t.Context(), "sn-1", "spiffe://hospital.example/swarm/sn/sn-1", 1, time.Now().Add(time.Hour))
	wantReason(t, "invite", err, "ADMISSION_OFF")
}
