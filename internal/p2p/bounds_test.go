package p2p_test

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/embedded"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/p2p/p2ptest"
)

// crowded returns a swarm that has a SPIFFE ID of one node, and that node's configurations, each with a node key of its own.
func crowded(t *testing.T) (sw *p2ptest.Swarm, member func() p2p.Config) {
	t.Helper()
	sw = p2ptest.New(t, func(c *embedded.Config) { c.Paths = map[string][]string{"own": {"/swarm/sl/own"}} })
	source := sw.Source("own", "own")
	return sw, func() p2p.Config {
		cfg := sw.Config(identity.RoleSL, swarmA)
		cfg.Source, cfg.ListenAddrs = source, nil
		return cfg
	}
}

// TestKeysOfOneSPIFFEIDShareItsConnections: a new node key costs nothing, so each must not bring connections of its own.
func TestKeysOfOneSPIFFEIDShareItsConnections(t *testing.T) {
	const limit, over = 3, 2
	sw, member := crowded(t)
	cfg := sw.Config(identity.RoleSN, swarmA)
	cfg.Conns = identity.CrowdLimits{Named: limit}
	sn := p2ptest.Start(t, cfg)
	serveEcho(sn, anyRole)
	other, err := sw.Host(identity.RoleSL, swarmA).Dial(t.Context(), p2ptest.AddrOf(t, sn), echo)
	if err != nil {
		t.Fatal(err)
	}
	var streams []*p2p.Stream
	for range limit + over {
		s, err := p2ptest.Start(t, member()).Dial(t.Context(), p2ptest.AddrOf(t, sn), echo)
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, s)
	}
	for i, s := range streams[:over] {
		_ = s.SetReadDeadline(time.Now().Add(20 * time.Second))
		_, err := s.Read(make([]byte, 1))
		if late, ok := errors.AsType[net.Error](err); err == nil || ok && late.Timeout() {
			t.Errorf("connection %d is still open: %v", i, err)
		}
	}
	for _, s := range append(streams[over:], other) {
		roundTrip(t, s, "hello")
	}
}
