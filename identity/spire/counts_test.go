package spire_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/swarmd/swarmd/identity/spire"
	"github.com/swarmd/swarmd/identity/spire/spiretest"
)

// upstream writes a root that lives for years, and returns a server's configuration of it.
func upstream(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "root"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(9, 0, 0), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	cert, err := x509.CreateCertificate(rand.Reader, root, root, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files := map[string]*pem.Block{"root.pem": {Type: "CERTIFICATE", Bytes: cert}, "root-key.pem": {Type: "PRIVATE KEY", Bytes: der}}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return spiretest.DiskUpstream(filepath.Join(dir, "root.pem"), filepath.Join(dir, "root-key.pem"))
}

// TestExpiryOfWhatSigns: it is that of the certificate with which the server signs, with and without an upstream authority, whose own lives on for years.
func TestExpiryOfWhatSigns(t *testing.T) {
	t.Parallel()
	const life = 5 * time.Hour
	for name, above := range map[string]string{"self-signed": "", "an upstream authority": upstream(t)} {
		api, err := spire.OpenServer(spiretest.NewServer(t, spiretest.Options{CATTL: life, Upstream: above}).Socket)
		if err != nil {
			t.Fatal(err)
		}
		defer api.Close()
		n, err := api.Counts(t.Context())
		if left := time.Until(n.CANotAfter); err != nil || left > life || left < life-5*time.Minute {
			t.Errorf("%s: %v, %s left of %s", name, err, left, life)
		}
	}
}
