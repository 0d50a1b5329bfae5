package audit_test

import (
	"strings"
	"testing"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
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
		b := &builder{t: t}
		b.add(ledger.Swarm{SwarmID: swarmID, Admit: "operator", Admitted: []ledger.Admitted{{Node: founder.name, PeerID: founder.id}}})
		b.add(ledger.Bundle{TrustDomain: "a.example", Certificates: [][]byte{ca.cert.Raw}})
		b.add(founder.register(t, ca))
		tt.add(b)
		r := verify(t, b.bytes, optionsOf(ca))
		switch {
		case tt.want == "" && !r.Good():
			t.Errorf("%s: %v", tt.name, r.Problems)
		case tt.want != "" && (r.Good() || !strings.Contains(r.Problems[0].Error(), tt.want)):
			t.Errorf("%s: %v", tt.name, r.Problems)
		}
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
