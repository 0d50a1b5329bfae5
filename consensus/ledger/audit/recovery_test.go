package audit_test

import (
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/ledger/audit"
	"github.com/swarmd/swarmd/identity"
)

// recovers has an operator found the group anew from an SN, as what follows on the ledger.
func (o *operator) recovers(b *builder, epoch uint64, n *node, previous string) ledger.Recovery {
	o.t.Helper()
	return o.signs(ledger.Recovery{
		SwarmID: swarmID, Epoch: epoch, Node: n.name, PeerID: n.id, LastIndex: 77, Had: ledger.Witness{Length: b.head.Length, Hash: b.head.Hash},
		Previous: previous, By: o.id, AskedMS: start.UnixMilli() + int64(len(b.entries)), Chain: identity.RawChain(o.svid),
	})
}

func (o *operator) signs(r ledger.Recovery) ledger.Recovery {
	o.t.Helper()
	var err error
	if r.Signature, err = identity.SignWithSVID(o.svid, identity.RecoveryMessage(r.Statement())); err != nil {
		o.t.Fatal(err)
	}
	return r
}

// TestRecoveries: which foundings anew an audit takes, and what counts afterwards.
func TestRecoveries(t *testing.T) {
	ca, stranger := newAuthority(t), newAuthority(t)
	op, sn := newOperator(t, ca), svidOf(t, ca, "sn/sn-1")
	survivor, dead, renewed := newNode(t, "sn-0"), newNode(t, "sn-1"), newNode(t, "sn-1")
	tests := []struct {
		name string
		add  func(b *builder)
		want string // what is said; empty: it is good
	}{
		{"one, and a new SN under the name of a dead one", func(b *builder) {
			b.add(op.recovers(b, 2, survivor, ""))
			b.add(renewed.register(t, ca))
		}, ""},
		{"two in a row", func(b *builder) {
			first := op.recovers(b, 2, survivor, "")
			b.add(first)
			b.add(op.recovers(b, 3, survivor, first.Digest()))
		}, ""},
		{"a dead one's name without a recovery", func(b *builder) { b.add(renewed.register(t, ca)) }, "was not freed"},
		{"an epoch left out", func(b *builder) { b.add(op.recovers(b, 3, survivor, "")) }, "2 is due, not 3"},
		{"one epoch twice", func(b *builder) {
			b.add(op.recovers(b, 2, survivor, ""))
			b.add(op.recovers(b, 2, dead, ""))
		}, "3 is due, not 2"},
		{"after another one than that before it", func(b *builder) {
			b.add(op.recovers(b, 2, survivor, ""))
			b.add(op.recovers(b, 3, survivor, strings.Repeat("ab", 32)))
		}, "previous"},
		{"signed for an older ledger", func(b *builder) {
			r := op.recovers(b, 2, survivor, "")
			b.add(ledger.Bundle{TrustDomain: "a.example", Certificates: [][]byte{ca.cert.Raw}})
			r.AskedMS++
			b.add(op.signs(r))
		}, "had"},
		{"signed by an SN", func(b *builder) { b.add(sn.recovers(b, 2, survivor, "")) }, "is no operator"},
		{"signed by a stranger", func(b *builder) { b.add(newOperator(t, stranger).recovers(b, 2, survivor, "")) }, "not an SVID by the authorities"},
		{"of another SN than was signed", func(b *builder) {
			r := op.recovers(b, 2, survivor, "")
			r.Node, r.PeerID = dead.name, dead.id
			b.add(r)
		}, "did not sign this recovery"},
		{"of another swarm", func(b *builder) {
			r := op.recovers(b, 2, survivor, "")
			r.SwarmID = "other"
			b.add(op.signs(r))
		}, "swarm_id"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := &builder{t: t}
			b.add(ledger.Swarm{SwarmID: swarmID})
			b.add(ledger.Bundle{TrustDomain: "a.example", Certificates: [][]byte{ca.cert.Raw}})
			b.add(survivor.register(t, ca))
			b.add(dead.register(t, ca))
			tt.add(b)
			r := verify(t, b.bytes, optionsOf(ca))
			said := ""
			for _, p := range r.Problems {
				said += p.Error() + "\n"
			}
			if (tt.want == "") != r.Good() || !strings.Contains(said, tt.want) {
				t.Errorf("got %q, want %q", said, tt.want)
			}
		})
	}
}

// TestRecoveryAdmits: where operators admit SNs, a recovery lets the survivor in and nobody else.
func TestRecoveryAdmits(t *testing.T) {
	ca := newAuthority(t)
	op := newOperator(t, ca)
	survivor, other := newNode(t, "sn-0"), newNode(t, "sn-1")
	for _, back := range []*node{survivor, other} {
		b := &builder{t: t}
		b.add(ledger.Swarm{SwarmID: swarmID, Admit: "operator", Admitted: []ledger.Admitted{{Node: other.name, PeerID: other.id}}})
		b.add(ledger.Bundle{TrustDomain: "a.example", Certificates: [][]byte{ca.cert.Raw}})
		b.add(other.register(t, ca))
		b.add(op.recovers(b, 2, survivor, ""))
		b.add(back.register(t, ca))
		r := verify(t, b.bytes, audit.Options{Authorities: optionsOf(ca).Authorities})
		if r.Good() != (back == survivor) {
			t.Errorf("%s registers: %v", back.name, r.Problems)
		}
	}
}
