// Package p2ptest gives tests real identities and hosts: a running embedded authority and hosts on loopback TCP. It
// is imported by tests only.
package p2ptest

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/embedded"
	"github.com/swarmd/swarmd/internal/p2p"
)

// Swarm is a trust domain with a running authority.
type Swarm struct {
	// Dir is the authority's directory.
	Dir string
	// Domains accepts the swarm's own trust domain.
	Domains identity.Domains

	tb  testing.TB
	log *slog.Logger
}

// Option changes the authority's configuration.
type Option func(*embedded.Config)

// New starts an authority that ends with the test.
func New(tb testing.TB, options ...Option) *Swarm {
	tb.Helper()
	// Not TempDir: its name holds the test's, and unix socket paths are short.
	dir, err := os.MkdirTemp("", "swarm")
	if err != nil {
		tb.Fatal(err)
	}
	s := &Swarm{Dir: dir, tb: tb, log: slog.New(slog.DiscardHandler)}
	cfg := embedded.Config{Dir: dir, Log: s.log}
	for _, o := range options {
		o(&cfg)
	}
	a, err := embedded.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	tb.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			tb.Errorf("authority: %v", err)
		}
		_ = os.RemoveAll(dir)
	})
	select {
	case <-a.Ready():
	case err := <-done:
		done <- nil
		tb.Fatalf("authority: %v", err)
	}
	domain := cfg.TrustDomain
	if domain == "" {
		domain = embedded.DefaultTrustDomain
	}
	s.Domains, err = identity.NewDomains(spiffeid.RequireTrustDomainFromString(domain))
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// Source opens the identity source of a socket of the authority: a role, or a name of embedded.Config.Paths. name is
// the node's name, "" for none.
func (s *Swarm) Source(socket, name string) *identity.WorkloadSource {
	s.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	src, err := identity.OpenSource(ctx, identity.SourceConfig{Socket: embedded.SocketPath(s.Dir, socket), Name: name, Log: s.log})
	if err != nil {
		s.tb.Fatal(err)
	}
	s.tb.Cleanup(func() { _ = src.Close() })
	return src
}

// Config returns the configuration of a host of the role with a new node key, bound to a free loopback port.
func (s *Swarm) Config(role identity.Role, swarmID string) p2p.Config {
	s.tb.Helper()
	return p2p.Config{
		Key:         NewKey(s.tb),
		Source:      s.Source(string(role), ""),
		Domains:     s.Domains,
		ListenAddrs: []string{"127.0.0.1:0"},
		SwarmID:     func() string { return swarmID },
		Log:         s.log,
	}
}

// Host starts a host of the role that ends with the test.
func (s *Swarm) Host(role identity.Role, swarmID string) *p2p.Host {
	s.tb.Helper()
	return Start(s.tb, s.Config(role, swarmID))
}

// Start starts a host that ends with the test.
func Start(tb testing.TB, cfg p2p.Config) *p2p.Host {
	tb.Helper()
	h, err := p2p.NewHost(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = h.Close() })
	return h
}

// NewKey makes a node key.
func NewKey(tb testing.TB) crypto.PrivKey {
	tb.Helper()
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

// AddrOf returns where the host answers: its first listen address.
func AddrOf(tb testing.TB, h *p2p.Host) p2p.Addr {
	tb.Helper()
	host, portText, err := net.SplitHostPort(h.ListenAddrs()[0])
	if err != nil {
		tb.Fatal(err)
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		tb.Fatal(err)
	}
	return p2p.Addr{PeerID: h.ID(), Host: host, Port: port}
}
