package audit_test

import (
	"strings"
	"testing"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
)

// TestRecordsOfRights: each is held to its order, and whoever set them to the rights before and after.
func TestRecordsOfRights(t *testing.T) {
	ca := newAuthority(t)
	op := newOperator(t, ca)
	own, other := "Allow "+op.id+" to manage rights", "Allow spiffe://b.example/** to manage rights"
	rights := func(b *builder, asked string, sentences ...string) ledger.Rights {
		return ledger.Rights{Sentences: sentences, By: op.id, Order: op.asks(b, &swarmv1.SetRightsRequest{Sentences: []string{asked}})}
	}
	for name, tt := range map[string]struct {
		want string // empty: it is good
		add  func(b *builder)
	}{
		"set":                 {"", func(b *builder) { b.add(rights(b, own, own)) }},
		"set as understood":   {"", func(b *builder) { b.add(rights(b, "allow "+op.id+"  TO manage rights", own)) }},
		"set twice":           {"", func(b *builder) { b.add(rights(b, own, own)); b.add(rights(b, own, own)) }},
		"others":              {"the operator asked for 1 others", func(b *builder) { b.add(rights(b, own, own, other)) }},
		"not to be set again": {"could not set them again", func(b *builder) { b.add(rights(b, other, other)) }},
		"against those before": {"could not set rights by those before", func(b *builder) {
			b.add(rights(b, other, other))
			b.add(rights(b, own, own))
		}},
		"unsigned":          {"order: it is missing", func(b *builder) { b.add(ledger.Rights{Sentences: []string{own}, By: op.id}) }},
		"signed by another": {"by: " + op.id + " signed it", func(b *builder) { r := rights(b, own, own); r.By = "spiffe://b.example/x"; b.add(r) }},
		"by another method": {"order.method", func(b *builder) {
			r := rights(b, own, own)
			r.Order = op.asks(b, &swarmv1.DeleteTaskRequest{})
			b.add(r)
		}},
	} {
		b := &builder{t: t}
		b.add(ledger.Swarm{SwarmID: swarmID})
		b.add(ledger.Bundle{TrustDomain: "a.example", Certificates: [][]byte{ca.cert.Raw}})
		tt.add(b)
		r := verify(t, b.bytes, optionsOf(ca))
		found := ""
		for _, p := range r.Problems {
			found += p.Field + ": " + p.What + "\n"
		}
		if tt.want == "" && found != "" || !strings.Contains(found, tt.want) {
			t.Errorf("%s: found %q, want %q", name, found, tt.want)
		}
	}
}
