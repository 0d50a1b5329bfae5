package p2p_test

import (
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
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/p2p/p2ptest"
)

func anybody(p2p.Peer) error { return nil }

func TestStreamWithItsOwnConnection(t *testing.T) {
	sw := p2ptest.New(t)
	sn, sl := sw.Host(identity.RoleSN, swarmA), sw.Host(identity.RoleSL, swarmA)
	serveEcho(sn, anyRole)
	addr := p2ptest.AddrOf(t, sn)
	for range 2 {
		s, err := sl.DialDedicated(t.Context(), addr, echo, anybody)
		if err != nil {
			t.Fatal(err)
		}
		if p2p.Shared(s) {
			t.Error("the stream shares a connection")
		}
		if got := s.Peer(); got.ID != sn.ID() || got.SwarmID != swarmA {
			t.Errorf("the stream's peer is %s", got)
		}
		roundTrip(t, s, strings.Repeat("0123456789abcdef", 1<<16)+"end") // to io.EOF
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if n := p2p.Connections(sl, sn.ID()); n != 1 {
		t.Errorf("%d connections that streams share, want the parent alone", n)
	}
	_, err := sl.DialDedicated(t.Context(), addr, "/no/such", anybody)
	if err == nil || !strings.Contains(err.Error(), "does not serve") {
		t.Errorf("unknown protocol: %v", err)
	}
	no := errors.New("does not fit")
	if _, err := sl.DialDedicated(t.Context(), addr, echo, func(p2p.Peer) error { return no }); !errors.Is(err, no) {
		t.Errorf("peer that does not fit: %v", err)
	}
	p2p.NoneDedicated(t, sl, sn.ID())
}

// A host that can't be dialled makes the connection itself for a stream of the other's, which opens, is judged and ends as any other.
func TestStreamOnAConnectionThatOnlyThePeerCanMake(t *testing.T) {
	for _, tt := range []struct {
		name   string
		old    bool // the peer does not know that it may be asked for a connection
		shared bool
	}{{"its own connection", false, false}, {"a release that does not know of it", true, true}} {
		t.Run(tt.name, func(t *testing.T) {
			sw := p2ptest.New(t)
			sn, sl := sw.Host(identity.RoleSN, swarmA), sw.Host(identity.RoleSL, swarmA)
			if tt.old {
				p2p.NoReversing(sl)
			}
			serveEcho(sl, p2p.Policy{Roles: []identity.Role{identity.RoleSN}})
			serveEcho(sn, anyRole)
			first, err := sl.Dial(t.Context(), p2ptest.AddrOf(t, sn), echo)
			if err != nil {
				t.Fatal(err)
			}
			roundTrip(t, first, "here I am")
			unreachable := p2ptest.AddrOf(t, sl)
			unreachable.Port = 1 // nothing listens
			for range 2 {        // the second knows that the address does not answer
				s, err := sn.DialDedicated(t.Context(), unreachable, echo, anybody)
				if err != nil {
					t.Fatal(err)
				}
				if p2p.Shared(s) != tt.shared {
					t.Errorf("the stream shares a connection: %t, want %t", p2p.Shared(s), tt.shared)
				}
				if got := s.Peer(); got.ID != sl.ID() || got.Identity.Role() != identity.RoleSL {
					t.Errorf("the stream's peer is %s", got)
				}
				roundTrip(t, s, strings.Repeat("over yours", 1<<15))
				_ = s.Close()
			}
			p2p.NoneDedicated(t, sl, sn.ID())
			p2p.NoneDedicated(t, sn, sl.ID())
			p2p.NoneAsked(t, sn)
		})
	}
}

// What the peer would not let in when dialled it does not let in over what it has dialled itself.
func TestReversedStreamsAreJudgedAsAnyOther(t *testing.T) {
	sw := p2ptest.New(t)
	sn, sl := sw.Host(identity.RoleSN, swarmA), sw.Host(identity.RoleSL, swarmA)
	serveEcho(sl, p2p.Policy{Roles: []identity.Role{identity.RoleSL}})
	serveEcho(sn, anyRole)
	first, err := sl.Dial(t.Context(), p2ptest.AddrOf(t, sn), echo)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Close() }()
	unreachable := p2ptest.AddrOf(t, sl)
	unreachable.Port = 1
	_, err = sn.DialDedicated(t.Context(), unreachable, echo, anybody)
	if refused, ok := errors.AsType[*p2p.RefusedError](err); !ok || !strings.Contains(refused.Reason, "may not use") {
		t.Errorf("stream of a role that may not: %v", err)
	}
	p2p.NoneDedicated(t, sn, sl.ID())
	no := errors.New("does not fit")
	if _, err := sn.DialDedicated(t.Context(), unreachable, echo, func(p2p.Peer) error { return no }); err == nil {
		t.Error("a peer that does not fit is given a stream")
	}
	// Whoever has accepted a connection has nothing dialled: only what a host chose to dial itself is dialled again.
	if err := p2p.AskReversed(t.Context(), sl, sn.ID()); err == nil || !strings.Contains(err.Error(), "has not dialled") {
		t.Errorf("asked of the side that was dialled: %v", err)
	}
}

// blocked returns a stream with its own connection, and what its reading ends with.
func blocked(t *testing.T, sl *p2p.Host, to p2p.Addr) (s *p2p.Stream, ended <-chan error) {
	t.Helper()
	s, err := sl.DialDedicated(t.Context(), to, echo, anybody)
	if err != nil {
		t.Fatal(err)
	}
	if p2p.Shared(s) {
		t.Fatal("the stream shares a connection")
	}
	end := make(chan error, 1)
	go func() {
		_, err := s.Read(make([]byte, 1))
		end <- err
	}()
	return s, end
}

func TestStreamEndsWithItsParent(t *testing.T) {
	for _, end := range []struct {
		name string
		by   func(sl, sn *p2p.Host, s *p2p.Stream)
	}{
		{"we disconnect", func(sl, sn *p2p.Host, _ *p2p.Stream) { sl.Disconnect(sn.ID()) }},
		{"the peer disconnects", func(sl, sn *p2p.Host, _ *p2p.Stream) { sn.Disconnect(sl.ID()) }},
		{"the peer closes", func(_, sn *p2p.Host, _ *p2p.Stream) { _ = sn.Close() }},
		{"the stream disconnects", func(_, _ *p2p.Host, s *p2p.Stream) { _ = s.Disconnect() }},
		{"reset", func(_, _ *p2p.Host, s *p2p.Stream) { _ = s.Reset() }},
	} {
		t.Run(end.name, func(t *testing.T) {
			sw := p2ptest.New(t)
			sn, sl := sw.Host(identity.RoleSN, swarmA), sw.Host(identity.RoleSL, swarmA)
			served := make(chan error, 1)
			sn.Handle(echo, anyRole, func(_ context.Context, s *p2p.Stream) {
				_, err := io.Copy(s, s)
				served <- err
				_ = s.Reset()
			})
			s, ended := blocked(t, sl, p2ptest.AddrOf(t, sn))
			end.by(sl, sn, s)
			if err := <-ended; err == nil || err == io.EOF { //nolint:errorlint // it must not look like an orderly end
				t.Errorf("reading ended with %v", err)
			}
			if err := <-served; err == nil {
				t.Error("the peer took the loss for an orderly end")
			}
		})
	}
}

func TestStreamWithItsOwnConnectionOutlivesSVIDs(t *testing.T) {
	sw := p2ptest.New(t, func(c *embedded.Config) { c.TTL = 2 * time.Second })
	sn, cfg := sw.Host(identity.RoleSN, swarmA), sw.Config(identity.RoleSL, swarmA)
	src := sw.Source("sl", "")
	cfg.Source = src
	sl := p2ptest.Start(t, cfg)
	serveEcho(sn, anyRole)
	s, err := sl.DialDedicated(t.Context(), p2ptest.AddrOf(t, sn), echo, anybody)
	if err != nil {
		t.Fatal(err)
	}
	if p2p.Shared(s) {
		t.Fatal("the stream shares a connection")
	}
	first := p2p.Expiry(sn, sl.ID())
	for time.Now().Before(first.Add(time.Second)) {
		<-src.Changed()
	}
	roundTrip(t, s, "still here")
}

// The dialler is through with a handshake before the acceptor; what it dials next may come first.
func TestStreamWithItsOwnConnectionMayOvertakeItsParent(t *testing.T) {
	sw := p2ptest.New(t)
	sn, sl := sw.Host(identity.RoleSN, swarmA), sw.Host(identity.RoleSL, swarmA)
	serveEcho(sn, anyRole)
	first, err := sl.Dial(t.Context(), p2ptest.AddrOf(t, sn), echo)
	if err != nil {
		t.Fatal(err)
	}
	roundTrip(t, first, "adopted")
	adopt := p2p.NotYetAdopted(sn, sl.ID())
	go func() {
		for p2p.Unbound(sn) == 0 {
			runtime.Gosched()
		}
		adopt()
	}()
	s, err := sl.DialDedicated(t.Context(), p2ptest.AddrOf(t, sn), echo, anybody)
	if err != nil {
		t.Fatal(err)
	}
	if p2p.Shared(s) {
		t.Error("the stream shares a connection")
	}
	roundTrip(t, s, "and this one too")
}

// Node key and SVID are not enough to hang on to another's connection: what only its ends know is.
func TestConnectionOfAThiefBelongsToNone(t *testing.T) {
	sw := p2ptest.New(t)
	sn := sw.Host(identity.RoleSN, swarmA)
	serveEcho(sn, anyRole)
	cfg := sw.Config(identity.RoleSL, swarmA)
	sl, thief := p2ptest.Start(t, cfg), p2ptest.Start(t, cfg) // one node key and one SVID
	s, err := sl.Dial(t.Context(), p2ptest.AddrOf(t, sn), echo)
	if err != nil {
		t.Fatal(err)
	}
	roundTrip(t, s, "the node's")
	exporter, _ := p2p.Binding(sn, sl.ID())
	if err := p2p.HangOn(t.Context(), thief, p2ptest.AddrOf(t, sn), exporter); err != nil {
		t.Fatalf("what both ends of the parent know should do: %v", err)
	}
	exporter[0] ^= 1
	if err := p2p.HangOn(t.Context(), thief, p2ptest.AddrOf(t, sn), exporter); err == nil {
		t.Error("a connection without proof was let hang on")
	}
	exporter[0] ^= 1
}

func TestReadsAheadOnlyWhatIsThere(t *testing.T) {
	a, b := net.Pipe()
	defer func() { _ = a.Close(); _ = b.Close() }()
	go func() {
		_, _ = a.Write([]byte("abc"))
		_, _ = a.Write([]byte("de"))
		_ = a.Close()
	}()
	got, lost := p2p.ReadWire(b)
	if got != "abcde" || !lost {
		t.Errorf("read %q, end noticed: %v", got, lost)
	}
}

// Connections that have not shown their parents are few for each peer, and those of who has a stolen node key and an SVID of
// his own are not the node's.
func TestSilentConnectionsAreFewAndOnlyTheirPeers(t *testing.T) {
	sw := p2ptest.New(t, func(c *embedded.Config) { c.Paths = map[string][]string{"other": {"/swarm/sl/thief"}} })
	sn, cfg := sw.Host(identity.RoleSN, swarmA), sw.Config(identity.RoleSL, swarmA)
	serveEcho(sn, anyRole)
	sl := p2ptest.Start(t, cfg)
	cfg.Source = sw.Source("other", "thief")
	thief := p2ptest.Start(t, cfg) // the node's key
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const most = 16
	for range most + 4 {
		if err := p2p.Silent(ctx, thief, p2ptest.AddrOf(t, sn)); err != nil {
			t.Fatal(err)
		}
		if n := p2p.Unbound(sn); n > most {
			t.Errorf("%d wait", n)
		}
	}
	for p2p.Unbound(sn) == 0 {
		runtime.Gosched()
	}
	s, err := sl.DialDedicated(t.Context(), p2ptest.AddrOf(t, sn), echo, anybody)
	if err != nil {
		t.Fatal(err)
	}
	if p2p.Shared(s) {
		t.Error("the thief's connections keep the node from one of its own")
	}
	roundTrip(t, s, "mine")
	cancel()
	for end := time.Now().Add(10 * time.Second); p2p.Unbound(sn) > 0; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("closed connections are still waited for")
		}
	}
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// TestStreamsGoOnBehindAReadDeadline: who finds that a peer is not late yet reads on.
func TestStreamsGoOnBehindAReadDeadline(t *testing.T) {
	sw := p2ptest.New(t)
	sn, sl := sw.Host(identity.RoleSN, swarmA), sw.Host(identity.RoleSL, swarmA)
	serveEcho(sn, anyRole)
	alone, err := sl.DialDedicated(t.Context(), p2ptest.AddrOf(t, sn), echo, anybody)
	if err != nil {
		t.Fatal(err)
	}
	shared, err := sl.Dial(t.Context(), p2ptest.AddrOf(t, sn), echo)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*p2p.Stream{alone, shared} {
		for range 2 {
			_ = s.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
			if n, err := s.Read(make([]byte, 1)); n != 0 || !isTimeout(err) {
				t.Errorf("%d bytes, %v; want a time-out", n, err)
			}
		}
		_ = s.SetReadDeadline(time.Time{})
		roundTrip(t, s, strings.Repeat("0123456789abcdef", 1<<12))
	}
}
