package p2p_test

import (
	"context"
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

// lost waits for the end of a stream whose peer says nothing.
func lost(s *p2p.Stream) bool {
	_ = s.SetReadDeadline(time.Now().Add(20 * time.Second))
	_, err := s.Read(make([]byte, 1))
	late, ok := errors.AsType[net.Error](err)
	return err != nil && (!ok || !late.Timeout())
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
		if !lost(s) {
			t.Errorf("connection %d is still open", i)
		}
	}
	for _, s := range append(streams[over:], other) {
		roundTrip(t, s, "hello")
	}
}

// TestUnreadBytesOfOneSPIFFEIDAreBounded: each stream has a window that its peer may fill while nobody reads, so streams of
// many keys must not have windows without number. Who takes most loses the connection, and no other SPIFFE ID does.
func TestUnreadBytesOfOneSPIFFEIDAreBounded(t *testing.T) {
	const hold, streamWindow = "/test/hold/1", 256 << 10
	sw, member := crowded(t)
	cfg := sw.Config(identity.RoleSN, swarmA)
	cfg.Memory = p2p.MemoryLimits{Named: 4 * streamWindow}
	sn := p2ptest.Start(t, cfg)
	serveEcho(sn, anyRole)
	sn.Handle(hold, anyRole, func(ctx context.Context, s *p2p.Stream) {
		<-ctx.Done()
		_ = s.Reset()
	})
	other := sw.Host(identity.RoleSL, swarmA)
	honest, err := other.Dial(t.Context(), p2ptest.AddrOf(t, sn), echo)
	if err != nil {
		t.Fatal(err)
	}
	greedy, modest := p2ptest.Start(t, member()), p2ptest.Start(t, member())
	unread := func(h *p2p.Host) *p2p.Stream {
		s, err := h.Dial(t.Context(), p2ptest.AddrOf(t, sn), hold)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Write(make([]byte, streamWindow/2)); err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := unread(greedy)
	unread(greedy)
	unread(greedy)
	unread(modest)
	unread(modest)
	if !lost(first) {
		t.Error("five windows stay open where four may")
	}
	unread(modest)
	roundTrip(t, honest, "hello")
	alone, err := other.DialDedicated(t.Context(), p2ptest.AddrOf(t, sn), echo, anybody)
	if err != nil {
		t.Fatal(err)
	}
	roundTrip(t, alone, "hello")
	for _, h := range []*p2p.Host{greedy, modest, other} {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		p2p.NothingHeld(t, h)
	}
	p2p.NothingHeld(t, sn)
}
