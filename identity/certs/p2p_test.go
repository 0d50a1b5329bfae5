package certs_test

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/certs"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/p2p/p2ptest"
)

const (
	echo    = "/test/echo/1"
	swarmID = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
)

// nodeOn starts a node's libp2p host on an identity from files.
func nodeOn(t *testing.T, s *certs.FileSource) *p2p.Host {
	t.Helper()
	domains, err := identity.NewDomains(s.ID().SPIFFE().TrustDomain())
	if err != nil {
		t.Fatal(err)
	}
	h := p2ptest.Start(t, p2p.Config{
		Key: p2ptest.NewKey(t), Source: s, Domains: domains, ListenAddrs: []string{"127.0.0.1:0"},
		SwarmID: func() string { return swarmID }, Log: slog.New(slog.DiscardHandler),
	})
	h.Handle(echo, p2p.Policy{Roles: []identity.Role{identity.RoleSL}}, func(_ context.Context, s *p2p.Stream) {
		_, _ = io.Copy(s, s) // the dialler sees what is missing
		_ = s.Close()
	})
	return h
}

// TestNodesThatShareAnOriginalCertificate lets two SLs merge with one certificate of the original's generator, and refuses
// them at a node that reads SPIFFE IDs.
func TestNodesThatShareAnOriginalCertificate(t *testing.T) {
	ca := newAuthority(t, "ca")
	shared := ca.original("SL-1")
	var hosts []*p2p.Host
	var cfgs []certs.FilesConfig
	var sources []*certs.FileSource
	for range 2 {
		cfg := files(t, shared, ca.cert)
		cfg.Roles, cfg.Role = "cn", identity.RoleSL
		s := open(t, cfg)
		cfgs, sources, hosts = append(cfgs, cfg), append(sources, s), append(hosts, nodeOn(t, s))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	say := func(from, to *p2p.Host) error {
		s, err := from.Dial(ctx, p2ptest.AddrOf(t, to), echo)
		if err != nil {
			return err
		}
		defer s.Close()
		if got := s.Peer().Identity.String(); got != "spiffe://"+identity.CNDomain+"/swarm/sl" {
			t.Errorf("the peer is %s", got)
		}
		if _, err := s.Write([]byte("x")); err != nil {
			return err
		}
		_, err = io.ReadFull(s, make([]byte, 1))
		return err
	}
	if err := say(hosts[0], hosts[1]); err != nil {
		t.Fatal(err)
	}
	// Both are renewed, by another key, while they are connected.
	next := ca.original("SL-7")
	for i, cfg := range cfgs {
		write(t, cfg.Key, keyPEM(t, next.key))
		write(t, cfg.Cert, pemOf(next.chain...))
		until(t, sources[i], "renewal", func() bool { return shows(t, sources[i], next.chain[0]) })
	}
	if err := say(hosts[1], hosts[0]); err != nil {
		t.Errorf("after renewal: %v", err)
	}
	spiffe := nodeOn(t, open(t, files(t, ca.issue("", "x", "spiffe://td/swarm/sl"), ca.cert)))
	for _, pair := range [][2]*p2p.Host{{spiffe, hosts[0]}, {hosts[0], spiffe}} {
		if err := say(pair[0], pair[1]); err == nil {
			t.Error("nodes of both kinds are connected")
		}
	}
}
