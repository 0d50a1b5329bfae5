package nodetest

import (
	"context"
	"time"

	"github.com/swarmd/swarmd/consensus/state"
)

// Rotate gives a node a new SVID.
func (s *Swarm) Rotate(name string) {
	s.t.Helper()
	s.must(s.ids[name].source.rotate(24 * time.Hour))
}

// Node returns a node as the leader's state has it; nil if there is none.
func (ns *SNs) Node(name string) *state.Node {
	return ns.swarm.sn(ns.swarm.Leader()).group.View().Nodes[name]
}

// DropProof puts a node back to how states of before had it: without what its SVID has signed.
func (ns *SNs) DropProof(name string) {
	ns.swarm.t.Helper()
	g := ns.swarm.sn(ns.swarm.Leader()).group
	n := *g.View().Nodes[name]
	_, err := g.Propose(context.Background(), state.RegisterNode{Node: n, TokenHash: n.TokenHashes[0], AtMS: time.Now().UnixMilli()})
	ns.swarm.must(err)
}
