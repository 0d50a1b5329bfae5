package embedded

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/swarmd/swarmd/internal/atomicfile"
)

const (
	caFile     = "ca.pem" // the certificate, then the key: one file, so that both are there or none
	caLifetime = 10 * 365 * 24 * time.Hour
	clockSlack = time.Minute // SVIDs are valid from a little in the past: clocks step
	maxCAFile  = 64 << 10
)

type authorityCA struct {
	domain spiffeid.TrustDomain
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
}

// loadOrCreateCA keeps the authority's CA in dir, so that nodes trust each other across its restarts.
func loadOrCreateCA(dir string, domain spiffeid.TrustDomain, now time.Time) (*authorityCA, error) {
	path := filepath.Join(dir, caFile)
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return createCA(path, domain, now)
	}
	if err != nil {
		return nil, fmt.Errorf("load authority's CA: %w", err)
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 || info.Size() > maxCAFile {
		return nil, fmt.Errorf("load authority's CA: %s (mode %04o) must be a small regular file of mode 0600", path, info.Mode().Perm())
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("load authority's CA: %w", err)
	}
	ca, err := parseCA(raw)
	if err != nil {
		return nil, fmt.Errorf("load authority's CA: %s is damaged (%w): delete the directory and restart the swarm", path, err)
	}
	if len(ca.cert.URIs) != 1 || ca.cert.URIs[0].Host != domain.Name() {
		return nil, fmt.Errorf("load authority's CA: %s is of another trust domain than %s: use another directory", path, domain)
	}
	if now.After(ca.cert.NotAfter.Add(-24 * time.Hour)) {
		return nil, fmt.Errorf("load authority's CA: %s expires at %s: delete the directory and restart the swarm", path, ca.cert.NotAfter)
	}
	ca.domain = domain
	return ca, nil
}

func parseCA(raw []byte) (*authorityCA, error) {
	certBlock, rest := pem.Decode(raw)
	keyBlock, _ := pem.Decode(rest)
	if certBlock == nil || keyBlock == nil {
		return nil, errors.New("two PEM blocks expected")
	}
	cert, err := x509.ParseCertificate(certBlock.Bytes)
	if err != nil {
		return nil, err
	}
	key, err := x509.ParseECPrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, err
	}
	if !key.PublicKey.Equal(cert.PublicKey) {
		return nil, errors.New("key and certificate do not belong together")
	}
	return &authorityCA{cert: cert, key: key}, nil
}

func createCA(path string, domain spiffeid.TrustDomain, now time.Time) (*authorityCA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("create authority's CA: %w", err)
	}
	serial, err := newSerial()
	if err != nil {
		return nil, fmt.Errorf("create authority's CA: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: "swarmd embedded authority"},
		NotBefore:             now.Add(-clockSlack),
		NotAfter:              now.Add(caLifetime),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
		URIs:                  []*url.URL{domain.ID().URL()},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("create authority's CA: %w", err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("create authority's CA: %w", err)
	}
	out := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	out = append(out, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})...)
	if err := atomicfile.Replace(path, out, 0o600); err != nil {
		return nil, fmt.Errorf("create authority's CA: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("create authority's CA: %w", err)
	}
	return &authorityCA{domain: domain, cert: cert, key: key}, nil
}

// svid is an issued X.509-SVID in the Workload API's encodings.
type svid struct {
	id        string
	cert, key []byte // DER; the key in PKCS #8
	renewAt   time.Time
}

// issue makes an SVID with a fresh key. Half of its life later it should be renewed.
func (ca *authorityCA) issue(path string, ttl time.Duration, now time.Time) (*svid, error) {
	id, err := spiffeid.FromPath(ca.domain, path)
	if err != nil {
		return nil, fmt.Errorf("issue SVID: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("issue SVID: %w", err)
	}
	serial, err := newSerial()
	if err != nil {
		return nil, fmt.Errorf("issue SVID: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		NotBefore:             now.Add(-clockSlack),
		NotAfter:              now.Add(ttl),
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		URIs:                  []*url.URL{id.URL()},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, ca.cert, key.Public(), ca.key)
	if err != nil {
		return nil, fmt.Errorf("issue SVID: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("issue SVID: %w", err)
	}
	return &svid{id: id.String(), cert: cert, key: keyDER, renewAt: now.Add(ttl / 2)}, nil
}

func newSerial() (*big.Int, error) {
	return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
}
