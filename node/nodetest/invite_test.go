package nodetest_test

import (
	"bytes"
	"crypto/x509"
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/ledger/audit"
	"github.com/swarmd/swarmd/node/nodetest"
)

// TestInvitedSNsJoinByThemselves where operators admit SNs, though the leader dies between an invitation and its use. An SN that comes too
// late waits for the operator. The ledger proves who let whom in.
func TestInvitedSNsJoinByThemselves(t *testing.T) {
	history(t, nodetest.Config{Admit: true, SLs: 2, Steps: 60, Late: []string{"sl-0", "sl-1"}}, func(t *testing.T, s *nodetest.Swarm) {
		join := func(via string, secret []byte) string {
			name := s.SNs.Join(via, secret)
			s.Until(name+" to be a member", func() bool { return s.SNs.Member(name) })
			return name
		}
		for range 2 {
			join("sn-0", s.SNs.Invite(time.Hour))
		}
		s.Until("three SNs that vote", func() bool { return s.SNs.Voters() == 3 })
		if _, err := s.Operator().GetSwarm(t.Context()); err != nil { // so that it knows them all
			t.Fatal(err)
		}
		s.Restart("sl-0")
		s.Restart("sl-1")
		enrolled(s, 2)
		secret := s.SNs.Invite(time.Hour)
		gone := s.Leader()
		s.Crash(gone)
		via := s.Leader()
		invited := join(via, secret)
		late := s.SNs.Invite(time.Minute)
		time.Sleep(2 * time.Minute)
		name := s.SNs.Join(via, late)
		waits := func() string {
			list, err := s.Operator().ListNodes(t.Context())
			if err != nil || len(list.GetCandidates()) != 1 || list.GetCandidates()[0].GetName() != name {
				return ""
			}
			return list.GetCandidates()[0].GetPeerId()
		}
		s.Until("it to wait", func() bool { return waits() != "" })
		if s.SNs.Member(name) {
			t.Error("an SN that came too late is let in")
		}
		if err := s.Operator().AdmitNode(t.Context(), name, waits()); err != nil {
			t.Fatal(err)
		}
		s.Until("it to join", func() bool { return s.SNs.Member(name) })

		var b bytes.Buffer
		if _, err := s.Operator().ReadLedger(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		admitted, o := map[string]uint64{}, audit.Options{}
		for line := range bytes.Lines(b.Bytes()) {
			_, body, err := ledger.Parse(line)
			if err != nil {
				t.Fatal(err)
			}
			switch x := body.(type) {
			case ledger.Bundle:
				for _, der := range x.Certificates {
					cert, err := x509.ParseCertificate(der)
					if err != nil {
						t.Fatal(err)
					}
					o.Authorities = append(o.Authorities, cert)
				}
			case ledger.Admission:
				admitted[x.Node] = x.Invitation
			}
		}
		if admitted["sn-1"] != 1 || admitted["sn-2"] != 2 || admitted[invited] != 3 || admitted[name] != 0 || len(admitted) != 4 {
			t.Errorf("admitted through invitations: %v", admitted)
		}
		if r, err := audit.Verify(&b, o); err != nil || !r.Good() {
			t.Errorf("audit: %v, %v", err, r.Problems)
		}
		s.Restart(gone)
	})
}
