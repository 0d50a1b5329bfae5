package p2p_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/embedded"
	"github.com/swarmd/swarmd/internal/fetch"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/p2p/p2ptest"
)

const (
	swarmA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	swarmB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	echo   = "/test/echo/1"
)

var anyRole = p2p.Policy{Roles: identity.Roles()}

func serveEcho(h *p2p.Host, policy p2p.Policy) {
	h.Handle(echo, policy, func(_ context.Context, s *p2p.Stream) {
		_, _ = io.Copy(s, s)
		_ = s.Close()
	})
}

// roundTrip sends text through the stream and expects it back.
func roundTrip(t *testing.T, s *p2p.Stream, text string) {
	t.Helper()
	sent := make(chan error, 1)
	go func() { // beside the reading: an echo of more than the windows hold would stand still otherwise
		_, err := io.WriteString(s, text)
		sent <- errors.Join(err, s.CloseWrite())
	}()
	got, err := io.ReadAll(s)
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	if err != nil || string(got) != text {
		t.Fatalf("echo gave %q, %v; want %q", got, err, text)
	}
}

func TestStreamsKnowTheirPeers(t *testing.T) {
	sw := p2ptest.New(t)
	sn, sl := sw.Host(identity.RoleSN, swarmA), sw.Host(identity.RoleSL, swarmA)
	seen := make(chan p2p.Peer, 1)
	sn.Handle(echo, anyRole, func(_ context.Context, s *p2p.Stream) {
		seen <- s.Peer()
		_, _ = io.Copy(s, s)
		_ = s.Close()
	})
	for range 2 { // the second one shares the connection
		s, err := sl.Dial(t.Context(), p2ptest.AddrOf(t, sn), echo)
		if err != nil {
			t.Fatal(err)
		}
		roundTrip(t, s, strings.Repeat("x", 1<<20))
		if got := s.Peer(); got.ID != sn.ID() || got.Identity.Role() != identity.RoleSN || got.SwarmID != swarmA {
			t.Errorf("dialler sees %+v", got)
		}
		if got := <-seen; got.ID != sl.ID() || got.Identity.String() != "spiffe://swarm.learning/swarm/sl" || got.SwarmID != swarmA {
			t.Errorf("acceptor sees %+v", got)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	// The acceptor dials back over the same connection, whose remote port is no listener.
	serveEcho(sl, anyRole)
	s, err := sn.Dial(t.Context(), p2ptest.AddrOf(t, sl), echo)
	if err != nil {
		t.Fatal(err)
	}
	roundTrip(t, s, "back")
	if n := len(sn.Peers()); n != 1 {
		t.Errorf("SN has %d peers, want 1", n)
	}
}

func TestRefusals(t *testing.T) {
	sw := p2ptest.New(t)
	foreign := p2ptest.New(t, func(c *embedded.Config) { c.TrustDomain = "elsewhere.example" })
	imposter := p2ptest.New(t) // the same trust domain, another CA
	sn := sw.Host(identity.RoleSN, swarmA)
	serveEcho(sn, p2p.Policy{Roles: []identity.Role{identity.RoleSN, identity.RoleSL}})
	other := sw.Host(identity.RoleSN, swarmA)

	addr := p2ptest.AddrOf(t, sn)
	tests := []struct {
		name string
		from *p2p.Host
		to   p2p.Addr
		id   string
		want []string
	}{
		{"wrong role", sw.Host(identity.RoleSWCI, swarmA), addr, echo, []string{"refused by the peer", "role swci may not use /test/echo/1"}},
		{"unknown protocol", sw.Host(identity.RoleSL, swarmA), addr, "/no/such", []string{"does not serve /no/such"}},
		{"other swarm", sw.Host(identity.RoleSL, swarmB), addr, echo, []string{"different swarms", swarmA, swarmB}},
		{"no swarm", sw.Host(identity.RoleSL, ""), addr, echo, []string{"refused by the peer", "belong to the swarm"}},
		{"foreign trust domain", foreign.Host(identity.RoleSL, swarmA), addr, echo, []string{"no X.509 bundle for trust domain", "swarm.learning"}},
		{"same trust domain, other CA", imposter.Host(identity.RoleSL, swarmA), addr, echo, []string{"not signed by an authority"}},
		{"wrong peer ID", sw.Host(identity.RoleSL, swarmA), p2p.Addr{PeerID: other.ID(), Host: addr.Host, Port: addr.Port}, echo, []string{"another node answers", sn.ID().String(), other.ID().String()}},
		{"own address", sn, addr, echo, []string{"same node"}},
		{"nobody there", sw.Host(identity.RoleSL, swarmA), p2p.Addr{PeerID: sn.ID(), Host: "127.0.0.1", Port: 1}, echo, []string{"connection refused"}},
		{"no peer ID", other, p2p.Addr{Host: addr.Host, Port: addr.Port}, echo, []string{"no peer ID"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := tt.from.Dial(t.Context(), tt.to, tt.id)
			if err == nil {
				_ = s.Reset()
				t.Fatal("dial succeeded")
			}
			for _, w := range tt.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error %q does not say %q", err, w)
				}
			}
		})
	}
}

func TestContact(t *testing.T) {
	sw := p2ptest.New(t)
	sn := sw.Host(identity.RoleSN, swarmA)
	joiner := sw.Host(identity.RoleSN, "")
	p, err := joiner.Contact(t.Context(), sn.ListenAddrs()[0], identity.RoleSN)
	if err != nil {
		t.Fatal(err)
	}
	if p.ID != sn.ID() || p.SwarmID != swarmA || p.Identity.Role() != identity.RoleSN {
		t.Errorf("contact found %+v", p)
	}
	if _, err := joiner.Contact(t.Context(), sn.ListenAddrs()[0], identity.RoleSL); !errors.Is(err, identity.ErrNotAuthorized) {
		t.Errorf("contact of the wrong role: %v", err)
	}
	_, err = sw.Host(identity.RoleSN, swarmB).Contact(t.Context(), sn.ListenAddrs()[0], identity.RoleSN)
	if err == nil || !strings.Contains(err.Error(), swarmA) {
		t.Errorf("contact of another swarm: %v", err)
	}
}

func TestNoSwarmIsAllowedWhereThePolicySaysSo(t *testing.T) {
	sw := p2ptest.New(t)
	sn := sw.Host(identity.RoleSN, swarmA)
	serveEcho(sn, p2p.Policy{Roles: identity.Roles(), AllowNoSwarm: true})
	sn.Handle("/test/strict/1", anyRole, func(_ context.Context, s *p2p.Stream) { _ = s.Close() })
	cfg := sw.Config(identity.RoleSL, "")
	id := ""
	cfg.SwarmID = func() string { return id }
	sl := p2ptest.Start(t, cfg)
	s, err := sl.Dial(t.Context(), p2ptest.AddrOf(t, sn), echo)
	if err != nil {
		t.Fatal(err)
	}
	roundTrip(t, s, "bundle")
	if _, err := sl.Dial(t.Context(), p2ptest.AddrOf(t, sn), "/test/strict/1"); err == nil {
		t.Error("a node without swarm opened a strict stream")
	}
	_ = s.Close()
	// Having joined, the same host gets what it was refused: the old connection is not used.
	id = swarmA
	s, err = sl.Dial(t.Context(), p2ptest.AddrOf(t, sn), "/test/strict/1")
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
}

func TestOutsiderWithoutSVID(t *testing.T) {
	sw := p2ptest.New(t)
	sn := sw.Host(identity.RoleSN, swarmA)
	c, err := net.Dial("tcp", sn.ListenAddrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	// The server hangs up at garbage within its handshake limit, having said no more than its protocol names.
	_, _ = io.WriteString(c, "\x13/multistream/1.0.0\n\x0d/tls/1.0.0\n\x00")
	b, _ := io.ReadAll(c)
	if bytes.Contains(b, []byte(swarmA)) {
		t.Errorf("server told an outsider %q", b)
	}
	if len(sn.Peers()) != 0 {
		t.Error("outsider became a peer")
	}
}

func TestPeerMovesAndDies(t *testing.T) {
	sw := p2ptest.New(t)
	cfg := sw.Config(identity.RoleSN, swarmA)
	sn := p2ptest.Start(t, cfg)
	serveEcho(sn, anyRole)
	sl := sw.Host(identity.RoleSL, swarmA)
	s, err := sl.Dial(t.Context(), p2ptest.AddrOf(t, sn), echo)
	if err != nil {
		t.Fatal(err)
	}
	if err := sn.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(make([]byte, 1)); err == nil {
		t.Error("stream of a dead peer still reads")
	}
	moved := p2ptest.Start(t, cfg) // another free port
	serveEcho(moved, anyRole)
	if s, err = sl.Dial(t.Context(), p2ptest.AddrOf(t, moved), echo); err != nil {
		t.Fatal(err)
	}
	roundTrip(t, s, "moved")
}

func TestDialGivesUp(t *testing.T) {
	sw := p2ptest.New(t)
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts, never answers
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	sl := sw.Host(identity.RoleSL, swarmA)
	addr := p2p.Addr{PeerID: sw.Host(identity.RoleSN, swarmA).ID(), Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := sl.Dial(ctx, addr, echo); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("dial with a short context: %v", err)
	}
	start := time.Now()
	if _, err := sl.Dial(t.Context(), addr, echo); err == nil || time.Since(start) > 13*time.Second {
		t.Errorf("dial of a silent peer: %v after %s", err, time.Since(start))
	}
	if _, err := sl.Contact(t.Context(), l.Addr().String(), identity.RoleSN); err == nil {
		t.Error("contact of a silent peer succeeded")
	}
}

func TestRotation(t *testing.T) {
	sw := p2ptest.New(t, func(c *embedded.Config) { c.TTL = 2 * time.Second })
	sn := sw.Host(identity.RoleSN, swarmA)
	serveEcho(sn, anyRole)
	src := sw.Source("sl", "")
	first, err := src.GetX509SVID()
	if err != nil {
		t.Fatal(err)
	}
	changed := src.Changed()
	cfg := sw.Config(identity.RoleSL, swarmA)
	cfg.Source = src
	sl := p2ptest.Start(t, cfg)
	<-changed
	<-src.Changed()
	<-src.Changed() // by now the first SVID has expired
	now, err := src.GetX509SVID()
	if err != nil {
		t.Fatal(err)
	}
	if first.Certificates[0].Equal(now.Certificates[0]) || first.Certificates[0].NotAfter.After(now.Certificates[0].NotBefore.Add(2*time.Minute)) {
		t.Error("the SVID was not renewed")
	}
	s, err := sl.Dial(t.Context(), p2ptest.AddrOf(t, sn), echo)
	for range 5 { // on a slow machine an SVID may expire during the handshake
		if err == nil {
			break
		}
		<-src.Changed()
		s, err = sl.Dial(t.Context(), p2ptest.AddrOf(t, sn), echo)
	}
	if err != nil {
		t.Fatal(err)
	}
	roundTrip(t, s, "fresh")
}

func TestCloseLeavesNoGoroutine(t *testing.T) {
	sw := p2ptest.New(t)
	a, b := sw.Config(identity.RoleSN, swarmA), sw.Config(identity.RoleSL, swarmA)
	before := runtime.NumGoroutine()
	for range 3 {
		sn, err := p2p.NewHost(a)
		if err != nil {
			t.Fatal(err)
		}
		sl, err := p2p.NewHost(b)
		if err != nil {
			t.Fatal(err)
		}
		serveEcho(sn, anyRole)
		for range 3 {
			if _, err := sl.Dial(t.Context(), p2ptest.AddrOf(t, sn), echo); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(sl.Close(), sn.Close(), sn.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := sl.Dial(t.Context(), p2p.Addr{PeerID: sn.ID(), Host: "127.0.0.1", Port: 9}, echo); err == nil {
			t.Error("a closed host dials")
		}
	}
	noMoreGoroutines(t, before)
}

// noMoreGoroutines waits until there are no more than before.
func noMoreGoroutines(t *testing.T, before int) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for runtime.NumGoroutine() > before && time.Now().Before(deadline) {
		runtime.Gosched()
	}
	if n := runtime.NumGoroutine(); n > before {
		buf := make([]byte, 1<<20)
		t.Errorf("%d goroutines, %d before:\n%s", n, before, buf[:runtime.Stack(buf, true)])
	}
}

func TestFetch(t *testing.T) {
	sw := p2ptest.New(t)
	sl, swci := sw.Host(identity.RoleSL, swarmA), sw.Host(identity.RoleSWCI, swarmA)
	model := bytes.Repeat([]byte("model"), 300_000)
	open := func(_ context.Context, peer p2p.Peer, req fetch.Request) (io.ReadCloser, int64, error) {
		if req.Contract != "mine" {
			return nil, 0, errors.New("contract is not exported\nto you")
		}
		r := bytes.NewReader(model[req.Offset:])
		if req.Round == 9 { // promises more than it has
			return io.NopCloser(r), int64(r.Len()) + 1, nil
		}
		return io.NopCloser(r), int64(r.Len()), nil
	}
	sl.Handle(fetch.Protocol, p2p.Policy{Roles: []identity.Role{identity.RoleSWCI}}, func(ctx context.Context, s *p2p.Stream) {
		_ = fetch.Answer(ctx, s, open) // what it could not send
	})
	from := p2ptest.AddrOf(t, sl)
	get := func(req fetch.Request, maxSize int64, dst io.Writer) error {
		s, err := swci.Dial(t.Context(), from, fetch.Protocol)
		if err != nil {
			return err
		}
		return fetch.Over(t.Context(), s, req, maxSize, dst)
	}
	var got bytes.Buffer
	if err := get(fetch.Request{Kind: "model", Contract: "mine", Offset: 7}, 2<<20, &got); err != nil || !bytes.Equal(got.Bytes(), model[7:]) {
		t.Errorf("fetch gave %d bytes, %v", got.Len(), err)
	}
	var refused *p2p.RefusedError
	err := get(fetch.Request{Kind: "model", Contract: "theirs"}, 2<<20, io.Discard)
	if !errors.As(err, &refused) || refused.Reason != "contract is not exported to you" {
		t.Errorf("refused fetch: %v", err)
	}
	if err := get(fetch.Request{Kind: "model", Contract: "mine"}, 100, io.Discard); err == nil || !strings.Contains(err.Error(), "at most 100") {
		t.Errorf("oversize fetch: %v", err)
	}
	if err := get(fetch.Request{Kind: "model", Contract: "mine", Round: 9}, 2<<20, io.Discard); err == nil {
		t.Error("a short fetch succeeded")
	}
}
