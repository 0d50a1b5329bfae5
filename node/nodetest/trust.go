package nodetest

import (
	"time"

	"github.com/swarmd/swarmd/consensus/state"
)

// Rotate gives a node a new SVID.
func (s *Swarm) Rotate(name string) {
	s.t.Helper()
	s.must(s.ids[name].source.Rotate(24 * time.Hour))
}

// Node returns a node as the leader's state has it; nil if there is none.
func (s *Swarm) Node(name string) *state.Node {
	return s.sn(s.Leader()).group.View().Nodes[name]
}
