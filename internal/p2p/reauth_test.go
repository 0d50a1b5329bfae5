package p2p_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/embedded"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/p2p/p2ptest"
	"github.com/swarmd/swarmd/internal/rpc/rpctest"
)

// source is an identity source in memory whose SVID the test exchanges.
type source struct {
	now atomic.Pointer[rpctest.Source]
}

func (s *source) GetX509SVID() (*x509svid.SVID, error) { return s.now.Load().GetX509SVID() }

func (s *source) GetX509BundleForTrustDomain(td spiffeid.TrustDomain) (*x509bundle.Bundle, error) {
	return s.now.Load().GetX509BundleForTrustDomain(td)
}

type world struct {
	t         *testing.T
	authority *rpctest.Authority
	domains   identity.Domains
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, authority: newAuthority(t)}
	var err error
	if w.domains, err = w.authority.Domains(); err != nil {
		t.Fatal(err)
	}
	return w
}

func newAuthority(t *testing.T) *rpctest.Authority {
	t.Helper()
	a, err := rpctest.NewAuthority("swarm.learning")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (w *world) issue(path string, life time.Duration) *rpctest.Source {
	w.t.Helper()
	s, err := w.authority.Issue(path, life)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) config(src identity.Source) p2p.Config {
	return p2p.Config{
		Key: p2ptest.NewKey(w.t), Source: src, Domains: w.domains, ListenAddrs: []string{"127.0.0.1:0"},
		SwarmID: func() string { return swarmA }, Log: slog.New(slog.DiscardHandler),
	}
}

func dial(t *testing.T, from, to *p2p.Host, protocol string) *p2p.Stream {
	t.Helper()
	s, err := from.Dial(t.Context(), p2ptest.AddrOf(t, to), protocol)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); !holds(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

func TestStreamOutlivesRotationsOfBothSides(t *testing.T) {
	t.Parallel()
	sw := p2ptest.New(t, func(c *embedded.Config) { c.TTL = 4 * time.Second })
	a, b := sw.Config(identity.RoleSN, swarmA), sw.Config(identity.RoleSL, swarmA)
	sn, sl := p2ptest.Start(t, a), p2ptest.Start(t, b)
	serveEcho(sn, anyRole)
	s := dial(t, sl, sn, echo)
	var rotations sync.WaitGroup
	for _, src := range []identity.Source{a.Source, b.Source} {
		rotations.Go(func() {
			first, _ := src.GetX509SVID()
			last := first.Certificates[0].Raw
			for n := 0; n < 3 || time.Now().Before(first.Certificates[0].NotAfter); {
				<-src.(identity.Provider).Changed()
				if svid, _ := src.GetX509SVID(); !bytes.Equal(svid.Certificates[0].Raw, last) {
					last = svid.Certificates[0].Raw
					n++
				}
			}
		})
	}
	rotated := make(chan struct{})
	go func() { rotations.Wait(); close(rotated) }()
	sent, got := make([]byte, 64<<10), make([]byte, 64<<10)
	for done := false; !done; {
		select {
		case <-rotated: // and once more
			done = true
		default:
		}
		_, _ = rand.Read(sent)
		if _, err := s.Write(sent); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(s, got); err != nil || !bytes.Equal(sent, got) {
			t.Fatalf("the stream lost bytes: %v", err)
		}
	}
	if n, m := p2p.Connections(sn, sl.ID()), p2p.Connections(sl, sn.ID()); n != 1 || m != 1 {
		t.Errorf("%d and %d connections, want one", n, m)
	}
}

func TestRenewedSVIDIsFoundInASourceThatTellsNoChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	slSrc, snSrc := w.issue("/swarm/sl", 10*time.Second), w.issue("/swarm/sn", 10*time.Second)
	sn, sl := p2ptest.Start(t, w.config(snSrc)), p2ptest.Start(t, w.config(slSrc))
	serveEcho(sn, anyRole)
	s := dial(t, sl, sn, echo)
	if err := errors.Join(slSrc.Rotate(time.Hour), snSrc.Rotate(time.Hour)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the dialled side takes the new SVID", func() bool { return time.Until(p2p.Expiry(sn, sl.ID())) > time.Minute })
	eventually(t, "the dialler takes the new SVID", func() bool { return time.Until(p2p.Expiry(sl, sn.ID())) > time.Minute })
	roundTrip(t, s, "still here")
}

func TestPeerThatStopsRenewingIsCutAndBothSidesSayWhy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var log lockedBuffer
	cfg := w.config(w.issue("/swarm/sn", time.Hour))
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	sn, sl := p2ptest.Start(t, cfg), p2ptest.Start(t, w.config(w.issue("/swarm/sl", 4*time.Second)))
	served := make(chan error, 1)
	sn.Handle(echo, anyRole, func(_ context.Context, s *p2p.Stream) {
		_, err := s.Read(make([]byte, 1))
		served <- err
		_ = s.Reset()
	})
	s := dial(t, sl, sn, echo)
	expires := p2p.Expiry(sn, sl.ID())
	if err := attempt(t, sl, sn, func([]byte) []byte { return []byte{0, 0, 0, 1, 99} }); err == nil {
		t.Error("a bad answer was taken")
	}
	_ = s.SetReadDeadline(time.Now().Add(20 * time.Second))
	_, err := s.Read(make([]byte, 1))
	if late := time.Since(expires); late < 0 || late > 2*time.Second {
		t.Errorf("cut %s after the SVID's end", late)
	}
	if !errors.Is(err, p2p.ErrExpired) || !strings.Contains(err.Error(), "closed by the peer") {
		t.Errorf("the peer that was cut reads %v", err)
	}
	if err := <-served; !errors.Is(err, p2p.ErrExpired) || !strings.Contains(err.Error(), "shown no newer one; the last one was refused: parse proof") {
		t.Errorf("the side that cut reads %v", err)
	}
	if log.lines("SVID has ended") != 1 {
		t.Errorf("log: %s", log.b.String())
	}
	if _, err := sl.Dial(t.Context(), p2ptest.AddrOf(t, sn), echo); err == nil {
		t.Error("a peer with an expired SVID connected again")
	}
}

// attempt shows the peer an answer on a control stream of its own, as soon as the peer allows another one.
func attempt(t *testing.T, from, to *p2p.Host, answer func(nonce []byte) []byte) error {
	t.Helper()
	for {
		s, err := from.Dial(t.Context(), p2ptest.AddrOf(t, to), p2p.ReauthProtocol)
		if err != nil {
			if strings.Contains(err.Error(), "too often") {
				continue
			}
			t.Fatal(err)
		}
		nonce := make([]byte, 32)
		if _, err := io.ReadFull(s, nonce); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Write(answer(nonce)); err != nil {
			t.Fatal(err)
		}
		err = p2p.ReadVerdict(s)
		_ = s.Reset()
		return err
	}
}

// answerer makes answers as an honest holder would, but for what the test changes.
type answerer struct {
	t        *testing.T
	exporter []byte
	us       byte
}

func (a answerer) answer(svid *x509svid.SVID, nonce []byte) []byte {
	a.t.Helper()
	sig, err := identity.SignWithSVID(svid, p2p.ReauthMessage(a.exporter, a.us, nonce, svid.Certificates[0].Raw))
	if err != nil {
		a.t.Fatal(err)
	}
	return a.frame(identity.RawChain(svid), sig)
}

func (a answerer) frame(chain [][]byte, sig []byte) []byte {
	a.t.Helper()
	b, err := p2p.MarshalProof(chain, sig)
	if err != nil {
		a.t.Fatal(err)
	}
	var out bytes.Buffer
	if err := p2p.WriteFrame(&out, b); err != nil {
		a.t.Fatal(err)
	}
	return out.Bytes()
}

func TestBadAnswersAreRefusedAndProlongNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sn, sl := p2ptest.Start(t, w.config(w.issue("/swarm/sn", time.Hour))), p2ptest.Start(t, w.config(w.issue("/swarm/sl", time.Hour)))
	serveEcho(sn, anyRole)
	s := dial(t, sl, sn, echo)
	expires := p2p.Expiry(sn, sl.ID())
	ans := answerer{t: t}
	ans.exporter, ans.us = p2p.Binding(sl, sn.ID())
	svid := func(s *rpctest.Source) *x509svid.SVID {
		got, err := s.GetX509SVID()
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	good := svid(w.issue("/swarm/sl", 2*time.Hour))
	other := newWorld(t)
	var old []byte // an answer to an earlier nonce
	tests := []struct {
		name   string
		answer func(nonce []byte) []byte
		want   string
	}{
		{"another CA", func(n []byte) []byte {
			old = ans.answer(good, n)
			return ans.answer(svid(other.issue("/swarm/sl", time.Hour)), n)
		}, "not signed by an authority"},
		{"a replayed answer", func([]byte) []byte { return old }, "this connection and moment"},
		{"a forged signature", func(n []byte) []byte { return ans.frame(identity.RawChain(good), make([]byte, 70)) }, "this connection and moment"},
		{"another's key", func(n []byte) []byte {
			stolen := *good
			stolen.PrivateKey = svid(w.issue("/swarm/sl", time.Hour)).PrivateKey
			return ans.answer(&stolen, n)
		}, "this connection and moment"},
		{"another connection", func(n []byte) []byte {
			return answerer{t: t, exporter: make([]byte, 32), us: ans.us}.answer(good, n)
		}, "this connection and moment"},
		{"reflected", func(n []byte) []byte {
			return answerer{t: t, exporter: ans.exporter, us: p2p.OtherSide(ans.us)}.answer(good, n)
		}, "this connection and moment"},
		{"another node of the role", func(n []byte) []byte { return ans.answer(svid(w.issue("/swarm/sl/b", time.Hour)), n) }, "belongs to spiffe://swarm.learning/swarm/sl, not to"},
		{"another role", func(n []byte) []byte { return ans.answer(svid(w.issue("/swarm/sn", time.Hour)), n) }, "belongs to spiffe://swarm.learning/swarm/sl, not to"},
		{"an expired SVID", func(n []byte) []byte { return ans.answer(svid(w.issue("/swarm/sl", -time.Second)), n) }, "expired"},
		{"an SVID that ends earlier", func(n []byte) []byte { return ans.answer(svid(w.issue("/swarm/sl", time.Minute)), n) }, "ends before"},
		{"too many certificates", func([]byte) []byte {
			return append([]byte{0, 0, 0, 3 + 9*2}, append([]byte{1, 9}, make([]byte, 1+9*2)...)...)
		}, "9 certificates"},
		{"an oversize certificate", func([]byte) []byte {
			body := append([]byte{1, 1, 0xff, 0xff}, make([]byte, 60_000)...)
			var b bytes.Buffer
			_ = p2p.WriteFrame(&b, body)
			return b.Bytes()
		}, "a field of 65535 bytes"},
		{"an oversize answer", func([]byte) []byte { return []byte{0xff, 0xff, 0xff, 0xff} }, "4294967295 bytes announced"},
	}
	for _, tt := range tests {
		err := attempt(t, sl, sn, tt.answer)
		var refused *p2p.RefusedError
		if !errors.As(err, &refused) || !strings.Contains(refused.Reason, tt.want) {
			t.Errorf("%s: verdict %v, want one that says %q", tt.name, err, tt.want)
		}
		if got := p2p.Expiry(sn, sl.ID()); !got.Equal(expires) {
			t.Fatalf("%s moved the connection's end from %s to %s", tt.name, expires, got)
		}
	}
	if err := attempt(t, sl, sn, func(n []byte) []byte { return ans.answer(good, n) }); err != nil || !p2p.Expiry(sn, sl.ID()).After(expires) {
		t.Errorf("a good answer after them: %v", err)
	}
	roundTrip(t, s, "unharmed")
}

func TestAnswerIsTakenAgainWhenItsVerdictWasLost(t *testing.T) {
	w := newWorld(t)
	sn, sl := p2ptest.Start(t, w.config(w.issue("/swarm/sn", time.Hour))), p2ptest.Start(t, w.config(w.issue("/swarm/sl", time.Hour)))
	serveEcho(sn, anyRole)
	_ = dial(t, sl, sn, echo).Close()
	ans := answerer{t: t}
	ans.exporter, ans.us = p2p.Binding(sl, sn.ID())
	svid, _ := w.issue("/swarm/sl", 2*time.Hour).GetX509SVID()
	for range 2 {
		if err := attempt(t, sl, sn, func(n []byte) []byte { return ans.answer(svid, n) }); err != nil {
			t.Fatal(err)
		}
		if got := p2p.Expiry(sn, sl.ID()); !got.Equal(svid.Certificates[0].NotAfter) {
			t.Errorf("the connection ends at %s, want %s", got, svid.Certificates[0].NotAfter)
		}
	}
}

func TestReauthenticationIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sn, sl := p2ptest.Start(t, w.config(w.issue("/swarm/sn", time.Hour))), p2ptest.Start(t, w.config(w.issue("/swarm/sl", time.Hour)))
	serveEcho(sn, anyRole)
	s := dial(t, sl, sn, echo)
	start := time.Now()
	var open []*p2p.Stream
	for range 40 {
		c, err := sl.Dial(t.Context(), p2ptest.AddrOf(t, sn), p2p.ReauthProtocol)
		if err == nil { // a control stream that never answers keeps its place
			open = append(open, c)
		} else if !strings.Contains(err.Error(), "too often") {
			t.Fatal(err)
		}
	}
	if took := time.Since(start); len(open) != 1 && took < 4*time.Second {
		t.Errorf("%d control streams at a time, want 1", len(open))
	}
	for _, c := range open {
		_ = c.Reset()
	}
	served := 0
	start = time.Now()
	for time.Since(start) < time.Second {
		c, err := sl.Dial(t.Context(), p2ptest.AddrOf(t, sn), p2p.ReauthProtocol)
		if err == nil {
			served++
			_ = c.Reset()
		}
	}
	if most := 1 + int(time.Since(start)/(250*time.Millisecond)); served < 2 || served > most {
		t.Errorf("%d re-authentications in %s", served, time.Since(start))
	}
	roundTrip(t, s, "unharmed")
}

func TestNewIdentityGetsNewConnections(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	src := &source{}
	src.now.Store(w.issue("/swarm/sl", 6*time.Second))
	sn, sl := p2ptest.Start(t, w.config(w.issue("/swarm/sn", time.Hour))), p2ptest.Start(t, w.config(src))
	serveEcho(sn, anyRole)
	serveEcho(sl, anyRole)
	old := dial(t, sl, sn, echo)
	expires := p2p.Expiry(sn, sl.ID())
	src.now.Store(w.issue("/swarm/sl/hospital-a", time.Hour))
	var who identity.ID
	eventually(t, "a stream that the SN opens finds the new identity", func() bool {
		s := dial(t, sn, sl, echo)
		defer func() { _ = s.Reset() }()
		who = s.Peer().Identity
		return who.NodeName() == "hospital-a"
	})
	seen := make(chan p2p.Peer, 1)
	sn.Handle("/test/who/1", anyRole, func(_ context.Context, s *p2p.Stream) { seen <- s.Peer(); _ = s.Close() })
	_ = dial(t, sl, sn, "/test/who/1").Close()
	if got := (<-seen).Identity.NodeName(); got != "hospital-a" {
		t.Errorf("a new stream came from %q", got)
	}
	if old.Peer().ID != sn.ID() || time.Now().After(expires) {
		t.Fatal("too late to look at the old connection")
	}
	_ = old.SetReadDeadline(time.Now().Add(20 * time.Second))
	_, err := old.Read(make([]byte, 1))
	if late := time.Since(expires); !errors.Is(err, p2p.ErrExpired) || late < 0 || late > 2*time.Second {
		t.Errorf("the old connection ended %s after its SVID with %v", late, err)
	}
}

func TestRefusedSVIDIsShownAgainWhenTheBundleHasCome(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	src, snSrc := &source{}, w.issue("/swarm/sn", time.Hour)
	src.now.Store(w.issue("/swarm/sl", 8*time.Second))
	sn, sl := p2ptest.Start(t, w.config(snSrc)), p2ptest.Start(t, w.config(src))
	serveEcho(sn, anyRole)
	s := dial(t, sl, sn, echo)
	expires := p2p.Expiry(sn, sl.ID())
	// The authority's next CA, which only the SL knows yet.
	td := spiffeid.RequireTrustDomainFromString("swarm.learning")
	next, err := newAuthority(t).Issue("/swarm/sl", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	bundle, _ := next.Get(td)
	both, _ := snSrc.Get(td)
	authorities := slices.Concat(both.X509Authorities(), bundle.X509Authorities())
	bundle.SetX509Authorities(authorities)
	src.now.Store(next)
	if err := attempt(t, sl, sn, func(n []byte) []byte {
		ans := answerer{t: t}
		ans.exporter, ans.us = p2p.Binding(sl, sn.ID())
		svid, _ := next.GetX509SVID()
		return ans.answer(svid, n)
	}); err == nil || !strings.Contains(err.Error(), "not signed by an authority") {
		t.Fatalf("an SVID of an unknown CA: %v", err)
	}
	both.SetX509Authorities(authorities)
	eventually(t, "the new SVID is taken", func() bool { return p2p.Expiry(sn, sl.ID()).After(expires) })
	roundTrip(t, s, "the same stream")
}

func TestClosingWhileReauthenticating(t *testing.T) {
	w := newWorld(t)
	before := runtime.NumGoroutine()
	defer noMoreGoroutines(t, before)
	for range 5 {
		slSrc, snSrc := w.issue("/swarm/sl", 2*time.Second), w.issue("/swarm/sn", 2*time.Second)
		sn, sl := p2ptest.Start(t, w.config(snSrc)), p2ptest.Start(t, w.config(slSrc))
		serveEcho(sn, anyRole)
		_ = dial(t, sl, sn, echo).Close()
		_ = slSrc.Rotate(time.Hour)
		_ = snSrc.Rotate(time.Hour)
		var all sync.WaitGroup
		all.Go(func() { sn.Disconnect(sl.ID()) })
		all.Go(func() { _ = sl.Close() })
		all.Go(func() { _ = sn.Close() })
		all.Wait()
		if n := p2p.Connections(sn, sl.ID()); n != 0 {
			t.Errorf("%d connections are left", n)
		}
	}
}

func TestRefusedKeysReadTheReason(t *testing.T) {
	w := newWorld(t)
	var banned atomic.Pointer[string]
	cfg := w.config(w.issue("/swarm/sn", time.Hour))
	var sl *p2p.Host
	cfg.Refuse = func(id peer.ID) error {
		if why := banned.Load(); why != nil && id == sl.ID() {
			return errors.New(*why)
		}
		return nil
	}
	sn := p2ptest.Start(t, cfg)
	sl = p2ptest.Start(t, w.config(w.issue("/swarm/sl", time.Hour)))
	serveEcho(sn, anyRole)
	serveEcho(sl, anyRole)
	s := dial(t, sl, sn, echo)
	why := "node sl-1 is banned: lost laptop"
	banned.Store(&why)
	refusedBy := func(what string, err error) {
		t.Helper()
		var refused *p2p.RefusedError
		if !errors.As(err, &refused) || refused.Reason != why {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := sl.Dial(t.Context(), p2ptest.AddrOf(t, sn), echo)
	refusedBy("a stream on the open connection", err)
	ans := answerer{t: t}
	ans.exporter, ans.us = p2p.Binding(sl, sn.ID())
	svid, _ := w.issue("/swarm/sl", 2*time.Hour).GetX509SVID()
	refusedBy("a re-authentication", attempt(t, sl, sn, func(n []byte) []byte { return ans.answer(svid, n) }))
	sn.Disconnect(sl.ID())
	if _, err := s.Read(make([]byte, 1)); err == nil {
		t.Error("the stream outlived Disconnect")
	}
	eventually(t, "the connection is gone", func() bool { return p2p.Connections(sl, sn.ID()) == 0 })
	_, err = sl.Dial(t.Context(), p2ptest.AddrOf(t, sn), echo)
	refusedBy("a new connection", err)
	if _, err := sn.Dial(t.Context(), p2ptest.AddrOf(t, sl), echo); err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("the refusing side dials: %v", err)
	}
	_, err = sn.Contact(t.Context(), sl.ListenAddrs()[0], identity.RoleSL)
	if err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("the refusing side makes contact: %v", err)
	}
	banned.Store(nil)
	roundTrip(t, dial(t, sl, sn, echo), "pardoned")
}

// TestBanDuringTheHandshake has the ban come, and Disconnect with it, between the handshake's question and the moment at
// which the connection is known.
func TestBanDuringTheHandshake(t *testing.T) {
	w := newWorld(t)
	var banned atomic.Bool
	cfg := w.config(w.issue("/swarm/sn", time.Hour))
	cfg.Refuse = func(peer.ID) error {
		if banned.Swap(true) {
			return errors.New("banned")
		}
		return nil
	}
	sn := p2ptest.Start(t, cfg)
	sl := p2ptest.Start(t, w.config(w.issue("/swarm/sl", time.Hour)))
	if _, err := sl.Dial(t.Context(), p2ptest.AddrOf(t, sn), echo); err == nil {
		t.Fatal("a banned key opens a stream")
	}
	eventually(t, "the banned key's connection is gone", func() bool {
		return p2p.Connections(sn, sl.ID()) == 0 && p2p.Connections(sl, sn.ID()) == 0
	})
}
