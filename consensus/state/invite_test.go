package state_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/claim"
)

// secretOf is the secret of an invitation, by a word.
func secretOf(word string) []byte {
	sum := sha256.Sum256([]byte(word))
	return sum[:]
}

// claiming is a claim of the invitation with a secret, signed for a swarm.
func claiming(node, key, secret, spiffeID, swarm string, at int64) state.ClaimInvitation {
	return state.ClaimInvitation{
		Node: node, PeerID: key, SPIFFEID: spiffeID, Key: claim.KeyOf(secretOf(secret)), Signature: claim.Sign(secretOf(secret), swarm, node, key), AtMS: at,
	}
}

func inviting(node string, at, until int64) state.InviteNode {
	return state.InviteNode{
		Node: node, SPIFFEID: "spiffe://a.example/swarm/sn/" + node, Key: claim.KeyOf(secretOf(node)), ExpiresMS: until, By: "spiffe://a.example/swarm/swci", AtMS: at,
	}
}

// kept are the invitations of a state, by name.
func kept(s *state.State) map[string]*state.Invitation {
	if s.Invitations == nil {
		return nil
	}
	return s.Invitations.Kept
}

// TestInvitationsAreBounded: those that can't be claimed any more make room, the oldest first, and are kept for a week where there is some.
func TestInvitationsAreBounded(t *testing.T) {
	s := applied(t, admitting)
	for i := range state.MaxInvitations {
		s = mustApply(t, s, inviting(fmt.Sprint("sn-x", i), 1000, 5000+int64(i)))
	}
	if next, _, err := s.Apply(inviting("sn-y", 1000, 5000)); state.ReasonOf(err) != state.ReasonBadCommand || next != s {
		t.Errorf("invitation %d: %v", state.MaxInvitations+1, err)
	}
	s = mustApply(t, s, claiming("sn-x9", "key-9", "sn-x9", "spiffe://a.example/swarm/sn/sn-x9", "swarm-1", 1001))
	if open := s.Invitations.Open(5002); len(open) != state.MaxInvitations-4 || open[0].Node != "sn-x10" {
		t.Errorf("%d are open", len(open))
	}
	s = mustApply(t, s, inviting("sn-y", 5002, 6000)) // sn-x0 to sn-x2 have ended, sn-x9 was claimed
	if s.Invitations.Of("sn-x0") != nil || s.Invitations.Of("sn-x1") == nil || len(kept(s)) != state.MaxInvitations {
		t.Errorf("%d invitations", len(kept(s)))
	}
	s = mustApply(t, s, inviting("sn-z", 5002+state.KeepInvitationMS, 5002+state.KeepInvitationMS+1000))
	for _, i := range kept(s) {
		if i.ExpiresMS <= 5002 {
			t.Errorf("invitation of %s is kept", i.Node)
		}
	}
	if s.Invitations.Made != state.MaxInvitations+2 {
		t.Errorf("%d were made", s.Invitations.Made)
	}
	if state.Check(s) != nil {
		t.Error(state.Check(s))
	}
}

func TestRefusedInvitations(t *testing.T) {
	for name, change := range map[string]func(*state.InviteNode){
		"no SPIFFE ID":       func(c *state.InviteNode) { c.SPIFFEID = "" },
		"long SPIFFE ID":     func(c *state.InviteNode) { c.SPIFFEID = strings.Repeat("b", 4096) },
		"no key":             func(c *state.InviteNode) { c.Key = nil },
		"long key":           func(c *state.InviteNode) { c.Key = append(c.Key, 1) },
		"blank in who":       func(c *state.InviteNode) { c.By = "a b" },
		"before the Epoch":   func(c *state.InviteNode) { c.AtMS = -1 },
		"end of all numbers": func(c *state.InviteNode) { c.ExpiresMS = 1<<63 - 1 },
	} {
		s, c := applied(t, admitting), inviting("sn-d", 1000, 5000)
		change(&c)
		if next, _, err := s.Apply(c); state.ReasonOf(err) != state.ReasonBadCommand || next != s {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, change := range map[string]func(*state.ClaimInvitation){
		"no node key":     func(c *state.ClaimInvitation) { c.PeerID = "" },
		"no key":          func(c *state.ClaimInvitation) { c.Key = nil },
		"no signature":    func(c *state.ClaimInvitation) { c.Signature = nil },
		"long signature":  func(c *state.ClaimInvitation) { c.Signature = make([]byte, 1<<20) },
		"long SPIFFE ID":  func(c *state.ClaimInvitation) { c.SPIFFEID = strings.Repeat("b", 1<<20) },
		"bad name":        func(c *state.ClaimInvitation) { c.Node = "a b" },
		"blank in the ID": func(c *state.ClaimInvitation) { c.PeerID = "a b" },
	} {
		s := mustApply(t, applied(t, admitting), inviting("sn-d", 1000, 5000))
		c := claiming("sn-d", "key-d", "sn-d", "spiffe://a.example/swarm/sn/sn-d", "swarm-1", 1001)
		change(&c)
		if next, _, err := s.Apply(c); state.ReasonOf(err) != state.ReasonBadCommand || next != s {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCheckFindsBrokenInvitations breaks one thing of an invitation in a fresh copy.
func TestCheckFindsBrokenInvitations(t *testing.T) {
	for name, spoil := range map[string]func(s *state.State){
		"without a policy": func(s *state.State) { s.Admit, s.Admitted = "", nil },
		"under another":    func(s *state.State) { kept(s)["sn-e"] = kept(s)["sn-d"] },
		"nil":              func(s *state.State) { kept(s)["sn-e"] = nil },
		"of no number":     func(s *state.State) { s.Invitations.Made = 0 },
		"one key twice": func(s *state.State) {
			s.Invitations.Made = 2
			kept(s)["sn-e"] = &state.Invitation{Number: 2, Node: "sn-e", SPIFFEID: "x", Key: kept(s)["sn-d"].Key, ExpiresMS: 9}
		},
		"claimed by nobody": func(s *state.State) { kept(s)["sn-d"].ClaimedBy = "a b" },
		"not counted":       func(s *state.State) { delete(kept(s), "sn-d") },
	} {
		s := applied(t, admitting+"; invite sn-d")
		if err := state.Check(s); err != nil {
			t.Fatal(err)
		}
		spoil(s)
		if state.Check(s) == nil {
			t.Errorf("%s: Check finds nothing", name)
		}
	}
}

// TestForgettingANodeTakesItsInvitationBack: who forgets a node wants nobody of its name in, also if it was invited again.
func TestForgettingANodeTakesItsInvitationBack(t *testing.T) {
	const dead = admitting + "; admit sn-d; register sn-d role=sn; dead sn-d"
	for name, tt := range map[string]struct {
		history string
		number  uint64 // in the record
	}{
		"open":              {dead + "; invite sn-d", 1},
		"of another name":   {dead + "; invite sn-e", 0},
		"claimed":           {dead + "; invite sn-d; claim sn-d", 0},
		"none":              {dead, 0},
		"of an SL's name":   {admitting + "; invite sn-d; register sn-d; dead sn-d", 1},
		"without that node": {admitting + "; invite sn-d", 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := mustApply(t, applied(t, tt.history), state.BundleOf("a.example", [][]byte{{1}}, 8000))
			next, result, err := s.Apply(state.ForgetNode{Node: "sn-d", AtMS: 9000})
			if err != nil || len(result.Records) != 1 {
				t.Fatalf("%d records, %v", len(result.Records), err)
			}
			_, body, err := ledger.Parse(result.Records[0])
			if f, ok := body.(ledger.Forget); err != nil || !ok || f.Invitation != tt.number {
				t.Errorf("%+v, %v; want invitation %d", body, err, tt.number)
			}
			if i := next.Invitations.Of("sn-d"); tt.number != 0 && i != nil || tt.number == 0 && len(kept(next)) != len(kept(s)) {
				t.Errorf("kept are %v", kept(next))
			}
			if tt.number != 0 {
				again := claiming("sn-d", "key-x", "sn-d", "spiffe://a.example/swarm/sn/sn-d", "swarm-1", 9001)
				if got, _, err := next.Apply(again); err == nil && got != next {
					t.Error("the line is still good")
				}
			}
			if err := state.Check(next); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestNothingOfASecretIsKept: neither the state nor what is in the log shows more than the public key.
func TestNothingOfASecretIsKept(t *testing.T) {
	s := applied(t, admitting+"; invite sn-d; claim sn-d")
	b, err := state.EncodeSnapshot(s)
	if err != nil {
		t.Fatal(err)
	}
	c, err := state.EncodeCommand(claiming("sn-d", "key-d", "sn-d", "spiffe://a.example/swarm/sn/sn-d", "swarm-1", 1))
	if err != nil {
		t.Fatal(err)
	}
	for _, raw := range [][]byte{b, c} {
		for _, shown := range []string{fmt.Sprintf("%x", secretOf("sn-d")), base64.StdEncoding.EncodeToString(secretOf("sn-d"))[:40]} {
			if strings.Contains(string(raw), shown) {
				t.Errorf("it shows the secret: %s", raw)
			}
		}
	}
}
