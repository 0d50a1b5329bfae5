package certs_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/certs"
)

func newKey(tb testing.TB, kind string) crypto.Signer {
	tb.Helper()
	var (
		key crypto.Signer
		err error
	)
	switch kind {
	case "rsa":
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	case "ed25519":
		_, key, err = ed25519.GenerateKey(rand.Reader)
	default:
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

// authority signs whatever a test wants.
type authority struct {
	tb   testing.TB
	cert *x509.Certificate
	key  crypto.Signer
}

func newAuthority(tb testing.TB, cn string, uris ...string) *authority {
	tb.Helper()
	a := &authority{tb: tb, key: newKey(tb, "")}
	template := caTemplate(tb, cn, uris...)
	a.cert = signWith(tb, template, template, a.key.Public(), a.key)
	return a
}

func caTemplate(tb testing.TB, cn string, uris ...string) *x509.Certificate {
	tb.Helper()
	return &x509.Certificate{
		Subject: pkix.Name{CommonName: cn}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(1000 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, URIs: parseURIs(tb, uris),
	}
}

func parseURIs(tb testing.TB, texts []string) (out []*url.URL) {
	tb.Helper()
	for _, s := range texts {
		u, err := url.Parse(s)
		if err != nil {
			tb.Fatal(err)
		}
		out = append(out, u)
	}
	return out
}

func signWith(tb testing.TB, template, parent *x509.Certificate, pub crypto.PublicKey, key crypto.Signer) *x509.Certificate {
	tb.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		tb.Fatal(err)
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, parent, pub, key)
	if err != nil {
		tb.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatal(err)
	}
	return cert
}

// leaf is a certificate of a node with its key.
type leaf struct {
	chain []*x509.Certificate
	key   crypto.Signer
}

// issue makes a valid leaf; change spoils it.
func (a *authority) issue(kind, cn, uri string, change ...func(*x509.Certificate)) leaf {
	a.tb.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: cn}, NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true,
	}
	if uri != "" {
		template.URIs = parseURIs(a.tb, []string{uri})
	}
	for _, c := range change {
		c(template)
	}
	key := newKey(a.tb, kind)
	return leaf{[]*x509.Certificate{signWith(a.tb, template, a.cert, key.Public(), a.key)}, key}
}

// original makes a certificate as the original's generator does: an RSA key, no basic constraints, no extended key usage,
// and a key usage that would let it sign others.
func (a *authority) original(cn string) leaf {
	a.tb.Helper()
	return a.issue("rsa", cn, "", func(c *x509.Certificate) {
		c.Subject = pkix.Name{OrganizationalUnit: []string{"Swarm-Learning"}, CommonName: cn}
		c.DNSNames, c.BasicConstraintsValid = []string{cn}, false
		c.KeyUsage = x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign
		c.NotAfter = time.Now().Add(30 * 24 * time.Hour)
	})
}

func pemOf(certs ...*x509.Certificate) []byte {
	var out []byte
	for _, c := range certs {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return out
}

func keyPEM(tb testing.TB, key crypto.Signer) []byte {
	tb.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func write(tb testing.TB, path string, data []byte) {
	tb.Helper()
	// Replaced by a rename: the node reads meanwhile.
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		tb.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		tb.Fatal(err)
	}
}

// files writes a node's files into a directory of their own and returns the configuration that reads them.
func files(tb testing.TB, l leaf, cas ...*x509.Certificate) certs.FilesConfig {
	tb.Helper()
	dir := tb.TempDir()
	cfg := certs.FilesConfig{
		Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem"), CACert: filepath.Join(dir, "ca.pem"),
		Poll: 5 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
	}
	write(tb, cfg.Cert, pemOf(l.chain...))
	write(tb, cfg.Key, keyPEM(tb, l.key))
	write(tb, cfg.CACert, pemOf(cas...))
	return cfg
}

func open(tb testing.TB, cfg certs.FilesConfig) *certs.FileSource {
	tb.Helper()
	s, err := certs.OpenFiles(tb.Context(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

// until waits until done holds, which is looked at after every change of the source.
func until(tb testing.TB, s identity.Provider, what string, done func() bool) {
	tb.Helper()
	limit := time.After(20 * time.Second)
	for {
		changed := s.Changed()
		if done() {
			return
		}
		select {
		case <-changed:
		case <-limit:
			tb.Fatalf("%s: not within 20 s; status %+v", what, s.Status())
		}
	}
}
