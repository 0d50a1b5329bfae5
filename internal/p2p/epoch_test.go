package p2p_test

import (
	"context"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/epoch"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/p2p/p2ptest"
)

// TestNodesOfTwoEpochsRefuseEachOther, as those of two swarms do; both hear why.
func TestNodesOfTwoEpochsRefuseEachOther(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef"
	second := epoch.Of(id, []ledger.Recovery{{SwarmID: id, Epoch: 2}}).String()
	s := p2ptest.New(t)
	old, recovered, other := s.Host(identity.RoleSN, id), s.Host(identity.RoleSN, second), s.Host(identity.RoleSL, second)
	for _, h := range []*p2p.Host{old, recovered, other} {
		h.Handle("/test/1", p2p.Policy{Roles: []identity.Role{identity.RoleSN, identity.RoleSL}}, func(_ context.Context, s *p2p.Stream) { _ = s.Close() })
	}
	for name, pair := range map[string][2]*p2p.Host{"the old one dials": {old, recovered}, "the new one dials": {recovered, old}} {
		_, err := pair[0].Dial(t.Context(), p2ptest.AddrOf(t, pair[1]), "/test/1")
		if err == nil || !strings.Contains(err.Error(), "different epochs of swarm "+id+": one side follows epoch ") || !strings.Contains(err.Error(), "as the swarm was recovered") {
			t.Errorf("%s: %v", name, err)
		}
	}
	stream, err := other.Dial(t.Context(), p2ptest.AddrOf(t, recovered), "/test/1")
	if err != nil {
		t.Fatalf("of one epoch: %v", err)
	}
	_ = stream.Close()
}
