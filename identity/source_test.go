package identity_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/embedded"
)

// logBuffer is written by a source and read by the test.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// authority runs an embedded authority until the returned function is called.
func authority(t *testing.T, dir string, ttl time.Duration) (stop func()) {
	t.Helper()
	a, err := embedded.New(embedded.Config{Dir: dir, TTL: ttl, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	select {
	case <-a.Ready():
	case err := <-done:
		t.Fatal(err)
	}
	return sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func waitFor(t *testing.T, s *identity.WorkloadSource, what string, done func(identity.Status) bool) {
	t.Helper()
	limit := time.After(30 * time.Second)
	for {
		changed := s.Changed()
		if done(s.Status()) {
			return
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("%s: not within 30 s; status %+v", what, s.Status())
		}
	}
}

// shake is one handshake of a source with itself; the error is the client's.
func shake(t *testing.T, s identity.Source) error {
	t.Helper()
	a, b := net.Pipe()
	defer a.Close()
	served := make(chan struct{})
	go func() {
		defer close(served)
		conn := tls.Server(b, identity.MutualTLS(s, nil))
		_, _ = io.CopyN(conn, conn, 1) // the client's error is looked at
		_ = b.Close()
	}()
	conn := tls.Client(a, identity.MutualTLS(s, nil))
	_, err := conn.Write([]byte{1})
	if err == nil {
		_, err = io.ReadFull(conn, make([]byte, 1))
	}
	_ = a.Close()
	<-served
	return err
}

// TestAuthorityAwayForLongerThanAnSVID holds what a node does when nobody renews its SVID: it goes on while the SVID is
// valid, then its handshakes fail with the reason, and all is well again when the authority is back.
func TestAuthorityAwayForLongerThanAnSVID(t *testing.T) {
	dir, err := os.MkdirTemp("", "src")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	stop := authority(t, dir, 4*time.Second)
	var log logBuffer
	s, err := identity.OpenSource(t.Context(), identity.SourceConfig{
		Socket: embedded.SocketPath(dir, "sl"), Role: identity.RoleSL, Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	stop()
	waitFor(t, s, "outage", func(st identity.Status) bool { return st.Problem != "" })
	if time.Now().Before(s.Status().NotAfter) {
		if err := shake(t, s); err != nil && time.Now().Before(s.Status().NotAfter) {
			t.Errorf("handshake while the SVID is valid: %v", err)
		}
	}
	waitFor(t, s, "expiry", func(st identity.Status) bool { return strings.Contains(st.Problem, "the SVID expired") })
	if _, err := s.GetX509SVID(); err != nil {
		t.Errorf("an expired SVID is hidden: %v", err)
	}
	// As a client the node meets its own expired SVID as a server's first.
	if err := shake(t, s); err == nil || !strings.Contains(err.Error(), "has expired") || !strings.Contains(err.Error(), "clocks differ by at least") {
		t.Errorf("handshake with an expired SVID: %v", err)
	}
	if _, err := identity.MutualTLS(s, nil).GetClientCertificate(nil); !errors.Is(err, identity.ErrOwnExpired) || !strings.Contains(err.Error(), "spiffe://swarm.learning/swarm/sl") {
		t.Errorf("own expired SVID: %v", err)
	}
	if !strings.Contains(log.String(), "keeping the last identity until it expires") || !strings.Contains(log.String(), "certificate expired at") {
		t.Errorf("the log does not tell of outage and expiry:\n%s", log.String())
	}
	defer authority(t, dir, time.Hour)()
	waitFor(t, s, "recovery", func(st identity.Status) bool { return st.Problem == "" && time.Now().Before(st.NotAfter) })
	if err := shake(t, s); err != nil {
		t.Errorf("handshake after recovery: %v", err)
	}
	if len(s.Status().Warnings) != 0 {
		t.Errorf("warnings after recovery: %q", s.Status().Warnings)
	}
}

func TestUnknownDomainNamesTheKnownOnes(t *testing.T) {
	dir, err := os.MkdirTemp("", "src")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	defer authority(t, dir, time.Hour)()
	s, err := identity.OpenSource(t.Context(), identity.SourceConfig{Socket: embedded.SocketPath(dir, "sn"), Role: identity.RoleSN, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = s.GetX509BundleForTrustDomain(spiffeid.RequireTrustDomainFromString("partner.example"))
	if err == nil || !strings.Contains(err.Error(), "only of: swarm.learning") || !strings.Contains(err.Error(), "--trust-domain partner.example") {
		t.Error(err)
	}
}
