package peering

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/admission"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/p2p/p2ptest"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session"
	"github.com/swarmd/swarmd/merge/exchange"
)

// TestStreamsBetweenSLs holds dialler and acceptor to what is registered and banned, over real connections.
func TestStreamsBetweenSLs(t *testing.T) {
	swarm := p2ptest.New(t)
	bans := &admission.Bans{}
	cfg := swarm.Config(identity.RoleSL, "5eed")
	cfg.Refuse = bans.Refuse
	const own = "spiffe://swarm.learning/swarm/sl"
	a, b := p2ptest.Start(t, cfg), swarm.Host(identity.RoleSL, "5eed")
	bans.Cut = admission.CutFrom(a.Network())
	hub := exchange.NewHub(HubConfig(cfg.Key))
	t.Cleanup(hub.Close)
	log := slog.New(slog.DiscardHandler)
	Serve(Links{Host: b.Network()}, hub, session.New(session.Config{Peer: "sl-1", Log: log}), nil, log)
	at := p2ptest.AddrOf(t, b)
	network := Links{Host: a.Network()}
	to := func(spiffeID string) *round.Participant {
		return &round.Participant{Node: "sl-1", SPIFFEID: spiffeID, PeerID: b.ID().String(), Host: at.Host, FSPort: uint32(at.Port)}
	}
	fetch := func(spiffeID string) error {
		m := to(spiffeID)
		return network.FetchModel(t.Context(), &round.Session{
			Node: m.Node, SPIFFEID: m.SPIFFEID, PeerID: m.PeerID, Host: m.Host, FSPort: m.FSPort,
		}, round.Ref{Contract: "c", Run: 1, Model: round.Model{Round: 1}}, 4, &bytes.Buffer{})
	}

	for _, registered := range []string{own + "/sl-1", own + "x", ""} { // the first: as after a stale connection
		other, ok := errors.AsType[*admission.IdentityError](fetch(registered))
		if !ok || other.Proven != own {
			t.Errorf("fetch from a node that is registered as %q: %v", registered, other)
		}
		if s, err := network.OpenMerge(t.Context(), to(registered), true); !strings.Contains(errText(err), "sl-1 shows the SPIFFE ID "+own) || s != nil {
			t.Errorf("merge with a node that is registered as %q: %v", registered, err)
		}
	}
	// With the right one the acceptor judges; it has no session.
	if refused, ok := errors.AsType[*p2p.RefusedError](fetch(own)); !ok || !strings.Contains(refused.Error(), "no session of contract c here") {
		t.Errorf("fetch: %v", refused)
	}
	s, err := network.OpenMerge(t.Context(), to(own), true)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()

	bans.Take("1", []string{b.ID().String()})
	stop := time.AfterFunc(20*time.Second, func() { _ = s.Reset() })
	defer stop.Stop()
	start := time.Now()
	if _, err := s.Read(make([]byte, 1)); err == nil || time.Since(start) > 10*time.Second {
		t.Errorf("a stream of a banned node was not cut: %v after %s", err, time.Since(start))
	}
	for what, err := range map[string]error{"fetch": fetch(own), "merge": errOf(network.OpenMerge(t.Context(), to(own), true))} {
		if !strings.Contains(errText(err), "banned") {
			t.Errorf("%s with a banned node: %v", what, err)
		}
	}
	if _, err := b.Dial(t.Context(), p2ptest.AddrOf(t, a), Protocol); !strings.Contains(errText(err), "banned from the swarm") {
		t.Errorf("a banned node is told %v", err)
	}
	bans.Take("", nil)
	s, err = network.OpenMerge(t.Context(), to(own), true)
	if err != nil {
		t.Fatalf("after the ban was lifted: %v", err)
	}
	_ = s.Reset()
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func errOf[T any](_ T, err error) error { return err }
