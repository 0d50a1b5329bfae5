package certs_test

import (
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/certs"
)

// TestIssuedIsAnSVID holds an issued certificate against the rules of SPIFFE, by go-spiffe's own reader.
func TestIssuedIsAnSVID(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	if _, err := certs.InitCA(dir, "td", now); err != nil {
		t.Fatal(err)
	}
	ca, err := certs.LoadCA(dir)
	if err != nil {
		t.Fatal(err)
	}
	issued, err := ca.Issue(certs.IssueConfig{Role: identity.RoleSL, Name: "a", Hosts: []string{"h.example", "::1"}, Days: 10}, now)
	if err != nil {
		t.Fatal(err)
	}
	svid, err := x509svid.Parse(issued.CertPEM, issued.KeyPEM)
	if err != nil || svid.ID.String() != "spiffe://td/swarm/sl/a" {
		t.Fatalf("%v, %v", svid, err)
	}
	bundle := x509bundle.FromX509Authorities(spiffeid.RequireTrustDomainFromString("td"), []*x509.Certificate{ca.Cert()})
	if _, _, err := x509svid.Verify(svid.Certificates, bundle); err != nil {
		t.Error(err)
	}
	for _, host := range []string{"h.example", "::1"} {
		if err := issued.Cert.VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.Cert())
	for _, use := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		if _, err := issued.Cert.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{use}}); err != nil {
			t.Errorf("use %d: %v", use, err)
		}
	}
	if _, err := issued.Cert.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}}); err == nil {
		t.Error("it may sign code")
	}
	// No certificate outlives its CA, and an expired CA issues none.
	end := ca.Cert().NotAfter
	last, err := ca.Issue(certs.IssueConfig{Role: identity.RoleSN, Days: 100}, end.Add(-24*time.Hour))
	if err != nil || last.Cert.NotAfter.After(end) {
		t.Errorf("a certificate outlives its CA: %v", err)
	}
	if _, err := ca.Issue(certs.IssueConfig{Role: identity.RoleSN}, end.Add(time.Hour)); err == nil || !strings.Contains(err.Error(), "has expired") {
		t.Errorf("an expired CA: %v", err)
	}
}

func TestOnlyOneOfManyMakesTheCA(t *testing.T) {
	dir := t.TempDir()
	var (
		made, refused atomic.Int32
		all           sync.WaitGroup
	)
	for range 8 {
		all.Go(func() {
			switch _, err := certs.InitCA(dir, "td", time.Now()); {
			case err == nil:
				made.Add(1)
			case errors.Is(err, certs.ErrCAExists):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if made.Load() != 1 || refused.Load() != 7 {
		t.Errorf("%d made it, %d were refused", made.Load(), refused.Load())
	}
	if _, err := certs.LoadCA(dir); err != nil {
		t.Errorf("what stays does not belong together: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestLoadCARefuses(t *testing.T) {
	other := t.TempDir()
	if _, err := certs.InitCA(other, "", time.Now()); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		spoil func(dir string) error
		want  string
	}{
		"open key": {func(dir string) error { return os.Chmod(filepath.Join(dir, "ca-key.pem"), 0o644) }, "chmod 0600"},
		"other key": {func(dir string) error {
			return os.Rename(filepath.Join(other, "ca-key.pem"), filepath.Join(dir, "ca-key.pem"))
		}, "not the key of"},
		"no key": {func(dir string) error { return os.Remove(filepath.Join(dir, "ca-key.pem")) }, "does not exist"},
		"broken cert": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "ca.pem"), []byte("-----BEGIN CERTIFICATE-----"), 0o600)
		}, "not whole"},
		"empty cert": {func(dir string) error { return os.WriteFile(filepath.Join(dir, "ca.pem"), nil, 0o600) }, "no CA certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if _, err := certs.InitCA(dir, "td", time.Now()); err != nil {
				t.Fatal(err)
			}
			if err := tt.spoil(dir); err != nil {
				t.Fatal(err)
			}
			if _, err := certs.LoadCA(dir); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			// What is left of a CA is never written over.
			if _, err := certs.InitCA(dir, "td", time.Now()); !errors.Is(err, certs.ErrCAExists) {
				t.Errorf("init: %v", err)
			}
		})
	}
}
