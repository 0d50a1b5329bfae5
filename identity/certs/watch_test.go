package certs_test

import (
	"bytes"
	"crypto/x509"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/certs"
)

// safeBuffer is a log that is written by the source and read by the test.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func shows(tb testing.TB, s *certs.FileSource, c *x509.Certificate) bool {
	tb.Helper()
	svid, err := s.GetX509SVID()
	if err != nil {
		tb.Fatal(err)
	}
	return svid.Certificates[0].Equal(c)
}

func TestRenewalByRenameUnderHandshakes(t *testing.T) {
	ca := newAuthority(t, "ca")
	const id = "spiffe://td/swarm/sn/a"
	cfg := files(t, ca.issue("", "x", id), ca.cert)
	server := open(t, cfg)
	client := open(t, files(t, ca.issue("", "x", "spiffe://td/swarm/sl"), ca.cert))
	stop, done := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for {
			select {
			case <-stop:
				done <- n
				return
			default:
				if err := handshake(client, server); err != nil {
					t.Errorf("handshake while certificates are renewed: %v", err)
				}
				n++
			}
		}
	}()
	for range 10 {
		next := ca.issue("", "x", id)
		write(t, cfg.Key, keyPEM(t, next.key)) // for a moment the pair does not belong together
		write(t, cfg.Cert, pemOf(next.chain...))
		until(t, server, "renewal", func() bool { return shows(t, server, next.chain[0]) })
	}
	close(stop)
	if n := <-done; n == 0 {
		t.Error("no handshake was made")
	}
	if st := server.Status(); st.Problem != "" {
		t.Errorf("problem %q", st.Problem)
	}
}

// TestBadRenewalKeepsTheLast holds what a running node does with files that would have stopped its start.
func TestBadRenewalKeepsTheLast(t *testing.T) {
	ca, other := newAuthority(t, "ca"), newAuthority(t, "other")
	const id = "spiffe://td/swarm/sl/a"
	first := ca.issue("", "x", id)
	cfg := files(t, first, ca.cert)
	cfg.Name = "a"
	var log safeBuffer
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	s := open(t, cfg)
	late := ca.issue("", "x", id, func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) })
	shared, foreign, strange := ca.issue("", "x", "spiffe://td/swarm/sl"), ca.issue("", "x", "spiffe://other/swarm/sl/a"), other.issue("", "x", id)
	for _, tt := range []struct {
		name      string
		cert, key []byte
		want      string
	}{
		{"half written", pemOf(first.chain...)[:200], keyPEM(t, first.key), "not whole"},
		{"empty", nil, keyPEM(t, first.key), "no certificate"},
		{"mismatched", pemOf(late.chain...), keyPEM(t, first.key), "not the key of the certificate"},
		{"not valid yet", pemOf(late.chain...), keyPEM(t, late.key), "not valid yet"},
		{"shared instead of own", pemOf(shared.chain...), keyPEM(t, shared.key), "has taken the place of"},
		{"another trust domain", pemOf(foreign.chain...), keyPEM(t, foreign.key), "trust domain has changed"},
		{"another CA", pemOf(strange.chain...), keyPEM(t, strange.key), "not signed by an authority"},
	} {
		write(t, cfg.Cert, tt.cert)
		write(t, cfg.Key, tt.key)
		until(t, s, tt.name, func() bool { return strings.Contains(s.Status().Problem, tt.want) })
		if !shows(t, s, first.chain[0]) {
			t.Errorf("%s: the last certificate is gone", tt.name)
		}
		if !strings.Contains(log.String(), tt.want) {
			t.Errorf("%s: not logged", tt.name)
		}
	}
	second := ca.issue("rsa", "x", id)
	write(t, cfg.Cert, pemOf(second.chain...))
	write(t, cfg.Key, keyPEM(t, second.key))
	until(t, s, "recovery", func() bool { return shows(t, s, second.chain[0]) && s.Status().Problem == "" })
	if err := os.Remove(cfg.Cert); err != nil {
		t.Fatal(err)
	}
	until(t, s, "removal", func() bool { return strings.Contains(s.Status().Problem, "does not exist") })
	if !shows(t, s, second.chain[0]) {
		t.Error("the last certificate is gone with its file")
	}
}

func TestCAsChange(t *testing.T) {
	ca, partner := newAuthority(t, "ca"), newAuthority(t, "partner")
	cfg := files(t, ca.issue("", "x", "spiffe://td/swarm/sl"), ca.cert)
	s := open(t, cfg)
	peer := partner.issue("", "x", "spiffe://td/swarm/sl")
	accepted := func() bool { _, err := identity.VerifyChain(s, peer.chain); return err == nil }
	if accepted() {
		t.Error("an unknown CA is trusted")
	}
	write(t, cfg.CACert, pemOf(ca.cert, partner.cert))
	until(t, s, "new CA", accepted)
	// A CA that is taken away is trusted no longer, even when the node's own certificate goes with it.
	write(t, cfg.CACert, pemOf(partner.cert))
	until(t, s, "own CA is gone", func() bool {
		_, err := identity.VerifyChain(s, ca.issue("", "x", "spiffe://td/swarm/sn").chain)
		return err != nil && strings.Contains(s.Status().Problem, "not signed by an authority")
	})
	if !accepted() {
		t.Error("the CA that stayed is not trusted")
	}
	write(t, cfg.CACert, pemOf(partner.cert)[:100])
	until(t, s, "half a CA", func() bool { return strings.Contains(s.Status().Problem, "not whole") })
	if !accepted() {
		t.Error("half a file took the CAs away")
	}
}

// TestKubernetesSecret swaps all files at once by a symbolic link, as Kubernetes does.
func TestKubernetesSecret(t *testing.T) {
	ca := newAuthority(t, "ca")
	const id = "spiffe://td/swarm/sl"
	dir := t.TempDir()
	put := func(version string, l leaf) {
		t.Helper()
		v := filepath.Join(dir, "..v"+version)
		if err := os.Mkdir(v, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(v, "tls.crt"), pemOf(l.chain...))
		write(t, filepath.Join(v, "tls.key"), keyPEM(t, l.key))
		write(t, filepath.Join(v, "ca.crt"), pemOf(ca.cert))
		if err := os.Symlink("..v"+version, filepath.Join(dir, "..tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	put("1", ca.issue("", "x", id))
	for _, name := range []string{"tls.crt", "tls.key", "ca.crt"} {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, certs.FilesConfig{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key"), CACert: filepath.Join(dir, "ca.crt"), Poll: 5 * time.Millisecond, Log: slog.New(slog.DiscardHandler)})
	next := ca.issue("", "x", id)
	put("2", next)
	until(t, s, "swap", func() bool { return shows(t, s, next.chain[0]) })
}

// TestExpiry runs a month in virtual time: warnings come once each, the certificate that expired can still be read but not
// dialled with, and its successor mends all of it.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := newAuthority(t, "ca")
		ca.cert = signWith(t, &x509.Certificate{Subject: ca.cert.Subject, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0)}, ca.cert, ca.key.Public(), ca.key)
		month := func(c *x509.Certificate) { c.NotBefore, c.NotAfter = time.Now(), time.Now().AddDate(0, 0, 30) }
		l := ca.issue("", "x", "spiffe://td/swarm/sl", month)
		cfg := files(t, l, ca.cert)
		cfg.Poll = 20 * time.Minute
		var log safeBuffer
		cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
		s := open(t, cfg)
		defer s.Close()
		for day := 1; day <= 31; day++ {
			time.Sleep(24 * time.Hour)
			st := s.Status()
			if want := day >= 24; (len(st.Warnings) > 0) != want { // 23 days are gone: exactly a week is left
				t.Errorf("day %d: warnings %q", day, st.Warnings)
			}
		}
		for _, w := range []string{"less than a week", "less than a day", "less than an hour", "certificate expired at"} {
			if n := strings.Count(log.String(), w); n != 1 {
				t.Errorf("%q is logged %d times", w, n)
			}
		}
		if !shows(t, s, l.chain[0]) || !strings.Contains(s.Status().Problem, "has expired") {
			t.Errorf("an expired certificate is hidden; status %+v", s.Status())
		}
		if _, err := identity.MutualTLS(s, nil).GetClientCertificate(nil); err == nil || !strings.Contains(err.Error(), "spiffe://td/swarm/sl has expired") {
			t.Errorf("dial with an expired certificate: %v", err)
		}
		if _, err := certs.OpenFiles(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "clocks differ by at least") {
			t.Errorf("start with an expired certificate: %v", err)
		}
		next := ca.issue("", "x", "spiffe://td/swarm/sl", month)
		write(t, cfg.Cert, pemOf(next.chain...))
		write(t, cfg.Key, keyPEM(t, next.key))
		time.Sleep(time.Hour)
		if st := s.Status(); !shows(t, s, next.chain[0]) || st.Problem != "" || len(st.Warnings) != 0 {
			t.Errorf("renewal: %+v", st)
		}
		if _, err := identity.MutualTLS(s, nil).GetClientCertificate(nil); err != nil {
			t.Error(err)
		}
	})
}
