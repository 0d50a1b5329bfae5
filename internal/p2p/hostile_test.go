package p2p_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	mss "github.com/multiformats/go-multistream"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/p2p/p2ptest"
)

func TestSilentConnectionsKeepNobodyAway(t *testing.T) {
	sw := p2ptest.New(t)
	sn, sl := sw.Host(identity.RoleSN, swarmA), sw.Host(identity.RoleSL, swarmA)
	serveEcho(sn, anyRole)
	addr := p2ptest.AddrOf(t, sn)
	// More than the bound, so that new ones must be let in at the cost of these.
	var silent []net.Conn
	for range identity.MaxUnproven + 40 {
		c, err := net.DialTimeout("tcp", addr.HostPort(), 2*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		silent = append(silent, c)
	}
	s, err := sl.Dial(t.Context(), addr, echo)
	if err != nil {
		t.Fatalf("an honest peer was kept out: %v", err)
	}
	roundTrip(t, s, "hello")
	_ = silent[0].SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.Copy(io.Discard, silent[0]); err != nil && strings.Contains(err.Error(), "timeout") {
		t.Errorf("the oldest silent connection is still open")
	}
}

func TestPeerHasABoundOfConnections(t *testing.T) {
	sw := p2ptest.New(t)
	sn := sw.Host(identity.RoleSN, swarmA)
	cfg := sw.Config(identity.RoleSL, swarmA)
	serveEcho(sn, anyRole)
	for range 40 { // hosts with one key: each has a connection of its own
		s, err := p2ptest.Start(t, cfg).Dial(t.Context(), p2ptest.AddrOf(t, sn), echo)
		if err != nil {
			t.Fatal(err)
		}
		roundTrip(t, s, "x")
	}
	if got := len(sn.Peers()); got != 1 {
		t.Fatalf("%d peers, want 1", got)
	}
	if got := p2p.Connections(sn, p2ptest.AddrOf(t, p2ptest.Start(t, cfg)).PeerID); got > 16 {
		t.Errorf("one peer has %d connections, want 16 at most", got)
	}
}

func TestRefusalsDoNotFloodTheLog(t *testing.T) {
	var log lockedBuffer
	sw := p2ptest.New(t)
	cfg := sw.Config(identity.RoleSN, swarmA)
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	sn := p2ptest.Start(t, cfg)
	for range 60 {
		c, err := net.Dial("tcp", sn.ListenAddrs()[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := mss.SelectProtoOrFail(p2p.SecurityID, c); err != nil {
			t.Fatal(err)
		}
		// A stranger without any certificate.
		conn := tls.Client(c, &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, NextProtos: []string{"/yamux/1.0.0"}}) //nolint:gosec // the attacker does not care
		_ = conn.Handshake()
		_, _ = io.Copy(io.Discard, conn)
		_ = c.Close()
	}
	if n := log.lines("connection refused"); n == 0 || n > 20 {
		t.Errorf("%d refusals were logged, want 1 to 20", n)
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) lines(with string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), with)
}
