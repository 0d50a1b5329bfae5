package audit_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/ledger"
)

// TestAdoptedRounds: what follows on a backup that was restored is held to the signatures of most of those who merged it.
func TestAdoptedRounds(t *testing.T) {
	ca := newAuthority(t)
	nodes := []*node{newNode(t, "sl-0"), newNode(t, "sl-1"), newNode(t, "sl-2"), newNode(t, "sl-3"), newNode(t, "sl-4")}
	stranger := newNode(t, "sl-9")
	for name, tt := range map[string]struct {
		add  func(b *builder)
		want string
	}{
		"all signed":         {func(b *builder) { b.adopts(1, 1, 71, 72, nodes[:3], 0) }, ""},
		"most signed":        {func(b *builder) { b.adopts(1, 1, 71, 72, nodes[:3], 1) }, ""},
		"who did not is new": {func(b *builder) { b.adopts(1, 1, 71, 72, []*node{nodes[0], nodes[1], stranger}, 1) }, ""},
		"the next round":     {func(b *builder) { b.adopts(1, 1, 2, 3, nodes[:3], 0) }, ""},
		"training goes on":   {func(b *builder) { b.adopts(1, 1, 71, 72, nodes[:3], 0); b.round(1, 73, 1, nodes[:3]) }, ""},
		"it is final": {func(b *builder) {
			b.adopts(1, 1, 71, 72, nodes[:3], 0)
			b.add(ledger.Over{Contract: study, Run: 1, Round: 72, Model: digestOf("model1 71").String()})
		}, ""},
		"it is lost": {func(b *builder) {
			b.adopts(1, 1, 71, 72, nodes[:3], 0)
			b.add(ledger.LostModel{Contract: study, Run: 1, Round: 72, Model: digestOf("model1 71").String(), Resumed: 1})
		}, ""},
		"half signed":          {func(b *builder) { b.adopts(1, 1, 71, 72, nodes[:4], 2) }, "2 of 4 have signed"},
		"nobody signed":        {func(b *builder) { b.adopts(1, 1, 71, 72, nodes[:3], 3) }, "0 of 3 have signed"},
		"signed by a stranger": {func(b *builder) { b.adopts(1, 1, 71, 72, []*node{nodes[0], nodes[1], stranger}, 0) }, `no registration of a node "sl-9"`},
		"another key": {func(b *builder) {
			b.adopts(1, 1, 71, 72, []*node{nodes[0], nodes[1], {"sl-2", stranger.key, stranger.id}}, 1)
		}, "node sl-2 registered with node key"},
		"one twice": {func(b *builder) { b.adopts(1, 1, 71, 72, []*node{nodes[0], nodes[0], nodes[1], nodes[2]}, 1) }, "stands here twice"},
		"a banned key": {func(b *builder) {
			b.add(ledger.Ban{PeerID: nodes[0].id, Node: "sl-0"})
			b.adopts(1, 1, 71, 72, nodes[:3], 0)
		}, "the node key of sl-0 is banned"},
		"another run":          {func(b *builder) { b.adopts(2, 1, 71, 72, nodes[:3], 0) }, "contract study is in run 1, not 2"},
		"not the last round":   {func(b *builder) { b.adopts(1, 0, 71, 72, nodes[:3], 0) }, "the last round of contract study is 1, not 0"},
		"an old round":         {func(b *builder) { b.adopts(1, 1, 1, 72, nodes[:3], 0) }, "round 1 can't follow round 1"},
		"no number of its own": {func(b *builder) { b.adopts(1, 1, 71, 71, nodes[:3], 0) }, "round 71 can't follow round 1 as round 71"},
		"the next is not due":  {func(b *builder) { b.adopts(1, 1, 71, 72, nodes[:3], 0); b.round(1, 72, 1, nodes[:3]) }, "round 73 of contract study is due, not 72"},
		"it has ended before": {func(b *builder) {
			b.add(ledger.Over{Contract: study, Run: 1, Round: 1, Model: digestOf("model1 1").String()})
			b.adopts(1, 1, 71, 72, nodes[:3], 0)
		}, "has ended with round 1"},
	} {
		t.Run(name, func(t *testing.T) {
			b := &builder{t: t}
			b.add(ledger.Swarm{SwarmID: swarmID})
			b.add(ledger.Bundle{TrustDomain: "a.example", Certificates: [][]byte{ca.cert.Raw}})
			for _, n := range nodes {
				b.add(n.register(t, ca))
			}
			b.round(1, 1, 1, nodes[:3])
			tt.add(b)
			r := verify(t, b.bytes, optionsOf(ca))
			if tt.want == "" {
				if !r.Good() || len(r.Contracts[0].Adoptions) != 1 {
					t.Errorf("%v, %+v", r.Problems, r.Contracts[0].Adoptions)
				}
				return
			}
			if r.Good() || !strings.Contains(r.Problems[0].Error(), tt.want) && !strings.Contains(r.Problems[len(r.Problems)-1].Error(), tt.want) {
				t.Errorf("%v, want %q", r.Problems, tt.want)
			}
		})
	}
}

// TestHistoryOfAnAdoptedModel counts the rounds that the ledger lacks.
func TestHistoryOfAnAdoptedModel(t *testing.T) {
	ca := newAuthority(t)
	nodes := []*node{newNode(t, "sl-0"), newNode(t, "sl-1"), newNode(t, "sl-2")}
	b := &builder{t: t}
	b.add(ledger.Swarm{SwarmID: swarmID})
	b.add(ledger.Bundle{TrustDomain: "a.example", Certificates: [][]byte{ca.cert.Raw}})
	for _, n := range nodes {
		b.add(n.register(t, ca))
	}
	b.round(1, 1, 1, nodes[:2])
	b.adopts(1, 1, 71, 72, nodes, 0)
	b.round(1, 73, 1, nodes)
	r := verify(t, b.bytes, optionsOf(ca))
	h := r.RunOf(study, 1).History(73)
	if !r.Good() || h.First != 1 || h.Last != 73 || h.Missing != 69 || len(h.Contributors) != 3 || !slices.Equal(h.Methods, []string{"mean"}) {
		t.Errorf("%v, %+v", r.Problems, h)
	}
}
