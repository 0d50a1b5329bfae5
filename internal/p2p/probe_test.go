package p2p_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/p2p/p2ptest"
	"github.com/swarmd/swarmd/internal/reach"
	"github.com/swarmd/swarmd/internal/rpc/rpctest"
)

func TestProbeFindsWhoAnswers(t *testing.T) {
	w := newWorld(t)
	for role, swarm := range map[string]string{"/swarm/sn": swarmA, "/swarm/sl/hospital-a": swarmB, "/swarm/swop": ""} {
		cfg := w.config(w.issue(role, time.Hour))
		cfg.SwarmID = func() string { return swarm }
		h := p2ptest.Start(t, cfg)
		got, err := p2p.Probe(t.Context(), p2p.ProbeConfig{Source: w.issue("/swarm/swci", time.Hour), Domains: w.domains}, h.ListenAddrs()[0])
		if err != nil {
			t.Fatal(err)
		}
		if got.ID != h.ID() || got.SwarmID != swarm || got.Identity.SPIFFE().Path() != role {
			t.Errorf("probe found %+v", got)
		}
	}
}

// listen accepts connections and hands each to serve.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { _ = l.Close(); <-done })
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.SetDeadline(time.Now().Add(10 * time.Second))
			serve(c)
			_ = c.Close()
		}
	}()
	return l.Addr().String()
}

func TestProbeSaysWhatStandsBetween(t *testing.T) {
	w, stranger := newWorld(t), newAuthority(t)
	elsewhere, err := rpctest.NewAuthority("elsewhere.example")
	if err != nil {
		t.Fatal(err)
	}
	ours := w.issue("/swarm/swci", time.Hour)
	issue := func(a *rpctest.Authority, path string, others ...*rpctest.Authority) identity.Source {
		src, err := a.Issue(path, time.Hour, others...)
		if err != nil {
			t.Fatal(err)
		}
		return src
	}
	host := func(src identity.Source, domains identity.Domains) string {
		cfg := w.config(src)
		cfg.Domains = domains
		return p2ptest.Start(t, cfg).ListenAddrs()[0]
	}
	both, err := w.authority.Domains("elsewhere.example")
	if err != nil {
		t.Fatal(err)
	}
	sn := host(w.issue("/swarm/sn", time.Hour), w.domains)
	api := listen(t, func(c net.Conn) { _ = tls.Server(c, identity.ServerTLS(ours, w.domains)).Handshake() })
	greeter := listen(t, func(c net.Conn) { _, _ = io.WriteString(c, "220 mail.example ESMTP\r\n") })
	tests := []struct {
		name string
		src  identity.Source
		to   string
		is   error
		want []string
	}{
		{"nothing listens", ours, "127.0.0.1:1", p2p.ErrNothingListens, []string{"nothing listens there", "connection refused"}},
		{"the API's port", ours, api, p2p.ErrNoSwarmNode, []string{"no swarm node answers there", "port of the API"}},
		{"another program", ours, greeter, p2p.ErrNoSwarmNode, []string{"no swarm node answers there"}},
		{"it is signed by a stranger", issue(stranger, "/swarm/swci"), sn, p2p.ErrPeerSVID, []string{"the SVID of the peer is not accepted here", "not signed by an authority"}},
		{"it is of a domain without bundle", ours, host(issue(elsewhere, "/swarm/sn", w.authority), both), p2p.ErrPeerSVID, []string{"no X.509 bundle for trust domain", "elsewhere.example"}},
		{"it is of a domain that is not accepted", issue(w.authority, "/swarm/swci", elsewhere), host(issue(elsewhere, "/swarm/sn", w.authority), both), p2p.ErrPeerSVID, []string{"elsewhere.example"}},
		{"its identity is no swarm's", ours, host(w.issue("/other/thing", time.Hour), w.domains), p2p.ErrPeerSVID, []string{"no swarm identity"}},
		{"it does not know our authority", issue(elsewhere, "/swarm/swci", w.authority), sn, p2p.ErrOwnSVID, []string{"our SVID is not accepted by the peer", "trust domains"}},
		{"our SVID has expired", w.issue("/swarm/swci", -time.Second), sn, p2p.ErrOwnSVID, []string{"our SVID is not accepted", "expired"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := p2p.Probe(t.Context(), p2p.ProbeConfig{Source: tt.src, Domains: w.domains}, tt.to)
			if !errors.Is(err, tt.is) {
				t.Fatalf("probe: %v, want %v", err, tt.is)
			}
			for _, s := range append(tt.want, tt.to) {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("error %q does not say %q", err, s)
				}
			}
		})
	}
	t.Run("it refuses our trust domain in words", func(t *testing.T) {
		knows := host(issue(w.authority, "/swarm/sn", elsewhere), w.domains)
		src := issue(elsewhere, "/swarm/swci", w.authority)
		_, err := p2p.Probe(t.Context(), p2p.ProbeConfig{Source: src, Domains: both}, knows)
		var refused *p2p.RefusedError
		if !errors.As(err, &refused) || !strings.Contains(refused.Reason, "elsewhere.example") {
			t.Errorf("probe: %v", err)
		}
	})
}

// TestContactKeepsToTheAddressesThatItMay: also where a name leads to another one.
func TestContactKeepsToTheAddressesThatItMay(t *testing.T) {
	sw := p2ptest.New(t)
	sn, sl := sw.Host(identity.RoleSN, swarmA), sw.Host(identity.RoleSL, swarmA)
	to := p2ptest.AddrOf(t, sl)
	for _, host := range []string{to.Host, "localhost"} {
		to.Host = host
		_, err := sn.Contact(reach.Only(t.Context(), reach.Remote), to.HostPort(), identity.RoleSL)
		if barred, ok := errors.AsType[*reach.BarredError](err); !ok || barred.Why != "a loopback address" {
			t.Errorf("contact of %s: %v", host, err)
		}
	}
	if n := p2p.Connections(sl, sn.ID()); n != 0 {
		t.Errorf("%d connections were made", n)
	}
}
