package audit_test

import (
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/identity/claim"
)

// TestSNsThatNobodyAdmitted: a leader that lies could register them, where operators admit SNs.
func TestSNsThatNobodyAdmitted(t *testing.T) {
	ca := newAuthority(t)
	op := newOperator(t, ca)
	founder, joiner, rogue := newNode(t, "sn-0"), newNode(t, "sn-1"), newNode(t, "sn-1")
	admits := func(b *builder, n *node, asked string) ledger.Admission {
		return ledger.Admission{Node: n.name, PeerID: n.id, By: op.id, Order: op.asks(b, &swarmv1.AdmitNodeRequest{Name: n.name, PeerId: asked})}
	}
	forgets := func(b *builder, n *node) ledger.Forget {
		return ledger.Forget{Node: n.name, PeerID: n.id, Order: op.asks(b, &swarmv1.ForgetNodeRequest{Name: n.name})}
	}
	const nobody = "no operator has admitted SN sn-1"
	for _, tt := range []struct {
		name, want string
		add        func(b *builder)
	}{
		{"admitted", "", func(b *builder) { b.add(admits(b, joiner, joiner.id)); b.add(joiner.register(t, ca)) }},
		{"an SL", "", func(b *builder) { b.add(newNode(t, "sl-0").register(t, ca)) }},
		{"not admitted", nobody, func(b *builder) { b.add(joiner.register(t, ca)) }},
		{"another key", nobody, func(b *builder) { b.add(admits(b, joiner, joiner.id)); b.add(rogue.register(t, ca)) }},
		{"another key than asked for", "the operator asked to admit", func(b *builder) { b.add(admits(b, rogue, joiner.id)) }},
		{"corrected", nobody, func(b *builder) {
			b.add(admits(b, rogue, rogue.id))
			b.add(admits(b, joiner, joiner.id))
			b.add(rogue.register(t, ca))
		}},
		{"forgotten", nobody, func(b *builder) {
			b.add(admits(b, joiner, joiner.id))
			b.add(joiner.register(t, ca))
			b.add(forgets(b, joiner))
			b.add(joiner.register(t, ca))
		}},
		{"banned", nobody, func(b *builder) {
			b.add(admits(b, joiner, joiner.id))
			b.add(ledger.Ban{PeerID: joiner.id, By: op.id, Order: op.asks(b, &swarmv1.BanNodeRequest{Name: joiner.id})})
			b.add(ledger.Unban{PeerID: joiner.id, Order: op.asks(b, &swarmv1.UnbanNodeRequest{Name: joiner.id})})
			b.add(joiner.register(t, ca))
		}},
		{"admitted by nobody", "no operator signed it", func(b *builder) {
			b.add(ledger.Admission{Node: joiner.name, PeerID: joiner.id, By: op.id})
			b.add(joiner.register(t, ca))
		}},
		{"banned by nobody", "no operator signed it", func(b *builder) { b.add(ledger.Ban{PeerID: founder.id, By: op.id}) }},
		{"admitted while banned", "is banned", func(b *builder) {
			b.add(ledger.Ban{PeerID: joiner.id, By: op.id, Order: op.asks(b, &swarmv1.BanNodeRequest{Name: joiner.id})})
			b.add(admits(b, joiner, joiner.id))
		}},
	} {
		judged(t, ca, founder, tt.name, tt.want, tt.add)
	}
	b := &builder{t: t}
	b.add(ledger.Swarm{SwarmID: swarmID})
	b.add(ledger.Bundle{TrustDomain: "a.example", Certificates: [][]byte{ca.cert.Raw}})
	b.add(joiner.register(t, ca))
	if r := verify(t, b.bytes, optionsOf(ca)); !r.Good() {
		t.Errorf("where nobody is asked: %v", r.Problems)
	}
	b.add(admits(b, founder, founder.id))
	if r := verify(t, b.bytes, optionsOf(ca)); r.Good() {
		t.Error("an admission where nobody is asked is good")
	}
}

// judged has a ledger judged of a swarm whose operators admit SNs, with what is added to it. Empty want: it is good; else its first problem has that.
func judged(t *testing.T, ca *authority, founder *node, name, want string, add func(*builder)) {
	t.Helper()
	b := &builder{t: t}
	b.add(ledger.Swarm{SwarmID: swarmID, Admit: "operator", Admitted: []ledger.Admitted{{Node: founder.name, PeerID: founder.id}}})
	b.add(ledger.Bundle{TrustDomain: "a.example", Certificates: [][]byte{ca.cert.Raw}})
	b.add(founder.register(t, ca))
	add(b)
	r := verify(t, b.bytes, optionsOf(ca))
	switch {
	case want == "" && !r.Good():
		t.Errorf("%s: %v", name, r.Problems)
	case want != "" && (r.Good() || !strings.Contains(r.Problems[0].Error(), want)):
		t.Errorf("%s: %v", name, r.Problems)
	}
}

// secretOf is the secret of the invitation of an SN.
func secretOf(name string) []byte {
	sum := sha256.Sum256([]byte(name))
	return sum[:]
}

// invites makes the invitation of an SN, which ends after a time from now on.
func (o *operator) invites(b *builder, number uint64, name string, life time.Duration) ledger.Invitation {
	x := ledger.Invitation{
		Number: number, Node: name, SPIFFEID: "spiffe://a.example/swarm/sn/" + name, Key: claim.KeyOf(secretOf(name)), By: o.id,
		ExpiresMS: start.UnixMilli() + int64(len(b.entries)) + life.Milliseconds(),
	}
	x.Order = o.asks(b, &swarmv1.InviteNodeRequest{Name: x.Node, SpiffeId: x.SPIFFEID, Key: x.Key, ExpiresUnixMs: x.ExpiresMS})
	return x
}

// claims is the admission of an SN that was invited.
func claims(n *node, number uint64, by string) ledger.Admission {
	return ledger.Admission{Node: n.name, PeerID: n.id, By: by, Invitation: number, Claim: claim.Sign(secretOf(n.name), swarmID, n.name, n.id)}
}

// TestSNsThatNobodyInvited: neither a leader that lies nor who reads the ledger can make an admission of an invitation.
func TestSNsThatNobodyInvited(t *testing.T) {
	ca := newAuthority(t)
	op, other := newOperator(t, ca), newOperator(t, newAuthority(t))
	founder, joiner, rogue := newNode(t, "sn-0"), newNode(t, "sn-1"), newNode(t, "sn-1")
	for _, tt := range []struct {
		name, want string
		add        func(b *builder)
	}{
		{"invited", "", func(b *builder) {
			b.add(op.invites(b, 1, "sn-1", time.Hour))
			b.add(claims(joiner, 1, op.id))
			b.add(joiner.register(t, ca))
		}},
		{"invited again", "", func(b *builder) {
			b.add(op.invites(b, 1, "sn-1", time.Hour))
			again := op.invites(b, 2, "sn-1", time.Hour)
			again.Key = claim.KeyOf(secretOf("again"))
			again.Order = op.asks(b, &swarmv1.InviteNodeRequest{Name: "sn-1", SpiffeId: again.SPIFFEID, Key: again.Key, ExpiresUnixMs: again.ExpiresMS})
			b.add(again)
			second := claims(joiner, 2, op.id)
			second.Claim = claim.Sign(secretOf("again"), swarmID, joiner.name, joiner.id)
			b.add(second)
			b.add(joiner.register(t, ca))
		}},
		{"invited and not admitted", "no operator has admitted SN sn-1", func(b *builder) {
			b.add(op.invites(b, 1, "sn-1", time.Hour))
			b.add(joiner.register(t, ca))
		}},
		{"not invited", "no invitation 1 of SN sn-1 is open", func(b *builder) { b.add(claims(joiner, 1, op.id)) }},
		{"signed for another key", "did not sign that it admits node key", func(b *builder) {
			b.add(op.invites(b, 1, "sn-1", time.Hour))
			stolen := claims(joiner, 1, op.id)
			stolen.PeerID = rogue.id
			b.add(stolen)
		}},
		{"not signed", "did not sign that it admits node key", func(b *builder) {
			b.add(op.invites(b, 1, "sn-1", time.Hour))
			b.add(ledger.Admission{Node: "sn-1", PeerID: rogue.id, By: op.id, Invitation: 1})
		}},
		{"signed in another swarm", "did not sign that it admits node key", func(b *builder) {
			b.add(op.invites(b, 1, "sn-1", time.Hour))
			elsewhere := claims(joiner, 1, op.id)
			elsewhere.Claim = claim.Sign(secretOf("sn-1"), "another", joiner.name, joiner.id)
			b.add(elsewhere)
		}},
		{"claimed twice", "no invitation 1 of SN sn-1 is open", func(b *builder) {
			b.add(op.invites(b, 1, "sn-1", time.Hour))
			b.add(claims(joiner, 1, op.id))
			b.add(claims(rogue, 1, op.id))
		}},
		{"with another SVID than the invited one", "the invitation of SN sn-1 is for", func(b *builder) {
			x := op.invites(b, 1, "sn-1", time.Hour)
			x.SPIFFEID = "spiffe://a.example/swarm/sn"
			x.Order = op.asks(b, &swarmv1.InviteNodeRequest{Name: x.Node, SpiffeId: x.SPIFFEID, Key: x.Key, ExpiresUnixMs: x.ExpiresMS})
			b.add(x)
			b.add(claims(joiner, 1, op.id))
			b.add(joiner.register(t, ca))
		}},
		{"invited with the key of one that has ended", "", func(b *builder) {
			b.add(op.invites(b, 1, "sn-1", time.Millisecond))
			b.add(newNode(t, "sl-0").register(t, ca))
			x := op.invites(b, 2, "sn-2", time.Hour)
			x.Key = claim.KeyOf(secretOf("sn-1"))
			x.Order = op.asks(b, &swarmv1.InviteNodeRequest{Name: x.Node, SpiffeId: x.SPIFFEID, Key: x.Key, ExpiresUnixMs: x.ExpiresMS})
			b.add(x)
		}},
		{"ended", "it ended at", func(b *builder) {
			b.add(op.invites(b, 1, "sn-1", time.Millisecond))
			b.add(claims(joiner, 1, op.id))
		}},
		{"ended before", "it had ended when it was made", func(b *builder) { b.add(op.invites(b, 1, "sn-1", 0)) }},
		{"taken back", "no invitation 1 of SN sn-1 is open", func(b *builder) {
			b.add(op.invites(b, 1, "sn-1", time.Hour))
			b.add(ledger.Forget{Node: "sn-1", Invitation: 1, Order: op.asks(b, &swarmv1.ForgetNodeRequest{Name: "sn-1"})})
			b.add(claims(joiner, 1, op.id))
		}},
		{"taken back with the node of its name", "no invitation 2 of SN sn-1 is open", func(b *builder) {
			b.add(op.invites(b, 1, "sn-1", time.Hour))
			b.add(claims(joiner, 1, op.id))
			b.add(joiner.register(t, ca))
			x := op.invites(b, 2, "sn-1", time.Hour)
			x.Key = claim.KeyOf(secretOf("anew"))
			x.Order = op.asks(b, &swarmv1.InviteNodeRequest{Name: x.Node, SpiffeId: x.SPIFFEID, Key: x.Key, ExpiresUnixMs: x.ExpiresMS})
			b.add(x)
			b.add(ledger.Forget{Node: "sn-1", PeerID: joiner.id, Invitation: 2, Order: op.asks(b, &swarmv1.ForgetNodeRequest{Name: "sn-1"})})
			if sofar := verify(t, b.bytes, optionsOf(ca)); !sofar.Good() {
				t.Errorf("before it is claimed: %v", sofar.Problems)
			}
			b.add(ledger.Admission{Node: "sn-1", PeerID: rogue.id, By: op.id, Invitation: 2, Claim: claim.Sign(secretOf("anew"), swarmID, "sn-1", rogue.id)})
		}},
		{"taken back by nobody", "no invitation 1 of SN sn-1 is open", func(b *builder) {
			b.add(ledger.Forget{Node: "sn-1", Invitation: 1, Order: op.asks(b, &swarmv1.ForgetNodeRequest{Name: "sn-1"})})
		}},
		{"taken back by a key", "no invitation 1 of SN sn-1 is open", func(b *builder) {
			b.add(op.invites(b, 1, "sn-1", time.Hour))
			b.add(ledger.Admission{Node: "sn-1", PeerID: rogue.id, By: op.id, Order: op.asks(b, &swarmv1.AdmitNodeRequest{Name: "sn-1", PeerId: rogue.id})})
			b.add(claims(joiner, 1, op.id))
		}},
		{"by nobody", "no operator signed it", func(b *builder) {
			x := op.invites(b, 1, "sn-1", time.Hour)
			x.Order = nil
			b.add(x)
		}},
		{"by a stranger", "order.chain", func(b *builder) { b.add(other.invites(b, 1, "sn-1", time.Hour)) }},
		{"another key than asked for", "the operator asked for another one", func(b *builder) {
			x := op.invites(b, 1, "sn-1", time.Hour)
			x.Key = claim.KeyOf(secretOf("mine"))
			b.add(x)
		}},
		{"for longer than asked for", "the operator asked for 1800", func(b *builder) {
			x := op.invites(b, 1, "sn-1", time.Hour)
			x.ExpiresMS++
			b.add(x)
		}},
		{"another name than asked for", "the operator asked to invite", func(b *builder) {
			x := op.invites(b, 1, "sn-1", time.Hour)
			x.Node = "sn-2"
			b.add(x)
		}},
		{"claimed in the name of another", "made the invitation", func(b *builder) {
			b.add(op.invites(b, 1, "sn-1", time.Hour))
			b.add(claims(joiner, 1, "spiffe://a.example/swarm/swci/else"))
		}},
		{"a number twice", "2 is due, not 1", func(b *builder) {
			b.add(op.invites(b, 1, "sn-1", time.Hour))
			b.add(op.invites(b, 1, "sn-2", time.Hour))
		}},
		{"a key twice", "it is that of invitation 1", func(b *builder) {
			b.add(op.invites(b, 1, "sn-1", time.Hour))
			b.add(op.invites(b, 2, "sn-1", time.Hour))
		}},
		{"a claim of no invitation", "there is no invitation that it could claim", func(b *builder) {
			x := ledger.Admission{Node: "sn-1", PeerID: joiner.id, By: op.id, Claim: []byte{1}}
			x.Order = op.asks(b, &swarmv1.AdmitNodeRequest{Name: "sn-1", PeerId: joiner.id})
			b.add(x)
		}},
		{"a banned key", "is banned", func(b *builder) {
			b.add(op.invites(b, 1, "sn-1", time.Hour))
			b.add(ledger.Ban{PeerID: joiner.id, By: op.id, Order: op.asks(b, &swarmv1.BanNodeRequest{Name: joiner.id})})
			b.add(claims(joiner, 1, op.id))
		}},
	} {
		judged(t, ca, founder, tt.name, tt.want, tt.add)
	}
}
