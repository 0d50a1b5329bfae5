package rpctest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net/url"
	"sync"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"

	"github.com/swarmd/swarmd/identity"
)

// Authority issues SVIDs of one trust domain, in memory.
type Authority struct {
	domain spiffeid.TrustDomain
	key    *ecdsa.PrivateKey
	cert   *x509.Certificate
}

// NewAuthority makes an authority of a trust domain.
func NewAuthority(domain string) (*Authority, error) {
	td, err := spiffeid.TrustDomainFromString(domain)
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	cert, err := sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: domain}, URIs: []*url.URL{td.ID().URL()}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, NotAfter: time.Now().Add(24 * time.Hour),
	}, nil, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	return &Authority{domain: td, key: key, cert: cert}, nil
}

func sign(t, parent *x509.Certificate, public *ecdsa.PublicKey, key *ecdsa.PrivateKey) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, err
	}
	t.SerialNumber, t.NotBefore = serial, time.Now().Add(-time.Minute)
	if parent == nil {
		parent = t
	}
	der, err := x509.CreateCertificate(rand.Reader, t, parent, public, key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// Domains accepts this authority's trust domain and the extra ones.
func (a *Authority) Domains(extra ...string) (identity.Domains, error) {
	return identity.NewDomains(a.domain, extra...)
}

// Issue returns a source with an SVID of this path ("/swarm/sl/sl-0") that trusts this authority and the others.
func (a *Authority) Issue(path string, life time.Duration, others ...*Authority) (*Source, error) {
	set := x509bundle.NewSet(x509bundle.FromX509Authorities(a.domain, []*x509.Certificate{a.cert}))
	for _, o := range others {
		set.Add(x509bundle.FromX509Authorities(o.domain, []*x509.Certificate{o.cert}))
	}
	s := &Source{Set: set, authority: a, path: path}
	return s, s.Rotate(life)
}

// Source is an identity source whose SVID can be rotated. Safe for concurrent use.
type Source struct {
	*x509bundle.Set
	authority *Authority
	path      string

	mu   sync.Mutex
	svid *x509svid.SVID
}

var _ identity.Source = (*Source)(nil)

// GetX509SVID returns the newest SVID.
func (s *Source) GetX509SVID() (*x509svid.SVID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.svid, nil
}

// Rotate issues a new SVID.
func (s *Source) Rotate(life time.Duration) error {
	id, err := spiffeid.FromPath(s.authority.domain, s.path)
	if err != nil {
		return fmt.Errorf("issue SVID: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	cert, err := sign(&x509.Certificate{
		URIs: []*url.URL{id.URL()}, KeyUsage: x509.KeyUsageDigitalSignature, NotAfter: time.Now().Add(life),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, s.authority.cert, &key.PublicKey, s.authority.key)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.svid = &x509svid.SVID{ID: id, Certificates: []*x509.Certificate{cert}, PrivateKey: key}
	return nil
}

// Domain is the authority's trust domain.
func (a *Authority) Domain() spiffeid.TrustDomain { return a.domain }
