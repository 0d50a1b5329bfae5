package peering

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/admission"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/p2p/p2ptest"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/rpc/rpctest"
	"github.com/swarmd/swarmd/merge/exchange"
)

// TestStolenKeyDoesNotTakeTheNodesPlace has somebody with a node's key and an SVID of his own connect to a node that merges
// with the first one: what is open goes on, and what is opened reaches the registered node.
func TestStolenKeyDoesNotTakeTheNodesPlace(t *testing.T) {
	authority, err := rpctest.NewAuthority("swarm.learning")
	if err != nil {
		t.Fatal(err)
	}
	domains, err := authority.Domains()
	if err != nil {
		t.Fatal(err)
	}
	start := func(key crypto.PrivKey, path string) *p2p.Host {
		src, err := authority.Issue(path, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return p2ptest.Start(t, p2p.Config{
			Key: key, Source: src, Domains: domains, ListenAddrs: []string{"127.0.0.1:0"}, Log: slog.New(slog.DiscardHandler),
			SwarmID: func() string { return "5eed" },
		})
	}
	stolen := p2ptest.NewKey(t)
	a, victim := start(p2ptest.NewKey(t), "/swarm/sl/sl-0"), start(stolen, "/swarm/sl/sl-1")
	policy := p2p.Policy{Roles: []identity.Role{identity.RoleSL}}
	victim.Handle(Protocol, policy, func(_ context.Context, s *p2p.Stream) {
		_, _ = io.Copy(s, s)
		_ = s.Close()
	})
	refused := make(chan struct{}, 100)
	a.Handle(Protocol, policy, func(_ context.Context, s *p2p.Stream) {
		p := s.Peer().Identity.String()
		stale(s, admission.CheckIdentity("sl-1", "spiffe://swarm.learning/swarm/sl/sl-1", p))
		_ = s.Reset()
		refused <- struct{}{}
	})
	at := p2ptest.AddrOf(t, victim)
	network, to := Links{Host: a.Network()}, &round.Participant{
		Node: "sl-1", SPIFFEID: "spiffe://swarm.learning/swarm/sl/sl-1", PeerID: victim.ID().String(), Host: at.Host, FSPort: uint32(at.Port),
	}
	echo := func(what string, s exchange.Stream) {
		t.Helper()
		stop := time.AfterFunc(10*time.Second, func() { _ = s.Reset() })
		defer stop.Stop()
		got := make([]byte, 1)
		if _, err := s.Write([]byte("x")); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if _, err := io.ReadFull(s, got); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	s, err := network.OpenMerge(t.Context(), to, true)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	echo("before", s)
	paths := []string{"/swarm/sl"} // one that the node has left
	for range 20 {
		paths = append(paths, "/swarm/sl/evil")
	}
	for _, path := range paths {
		// An error is the connection's end, which may come before the consent.
		if thief, err := start(stolen, path).Dial(t.Context(), p2ptest.AddrOf(t, a), Protocol); err == nil {
			defer thief.Close()
		}
		<-refused
		echo("a merge stream that is open while somebody comes with "+path, s)
	}
	again, err := network.OpenMerge(t.Context(), to, true)
	if err != nil {
		t.Fatalf("the registered node can't be reached: %v", err)
	}
	defer again.Close()
	echo("a new merge stream", again)
}
