package certs

import (
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"

	"github.com/swarmd/swarmd/identity"
)

// How a certificate tells its role.
const (
	// RolesSPIFFE is by the SPIFFE ID in its URI SAN, as SPIRE's certificates do.
	RolesSPIFFE = "spiffe"
	// RolesCN is by the prefix of its common name: SN-1, SL-2, SWOP-1, SWCI-1.
	RolesCN = "cn"
)

// RoleOfCN returns the role that a common name begins with, in any case: "SN-1" is of role sn. What follows the dash
// must not be empty and means nothing.
func RoleOfCN(cn string) (identity.Role, error) {
	prefix, rest, dash := strings.Cut(cn, "-")
	role, err := identity.ParseRole(strings.ToLower(prefix))
	// ToLower maps some letters outside ASCII into it, such as the Kelvin sign.
	if err != nil || !dash || rest == "" || len(prefix) != len(role) {
		return "", fmt.Errorf("the certificate's CN %.80q names no role: with --cert-roles cn it begins with SN-, SL-, SWOP- or SWCI-, as SL-2 does", cn)
	}
	return role, nil
}

// cnID is whom a certificate without SPIFFE ID stands for. One that has a URI SAN is of the other kind and never taken.
func cnID(leaf *x509.Certificate) (spiffeid.ID, error) {
	if len(leaf.URIs) > 0 {
		return spiffeid.ID{}, fmt.Errorf("the certificate names the SPIFFE ID %.200q, but this node takes roles from the CN (--cert-roles cn), where certificates have none: both sides must use the same kind", leaf.URIs[0])
	}
	cn, err := onlyCN(leaf)
	if err != nil {
		return spiffeid.ID{}, err
	}
	role, err := RoleOfCN(cn)
	if err != nil {
		return spiffeid.ID{}, err
	}
	return spiffeid.FromSegments(cnDomain(), "swarm", string(role))
}

// onlyCN returns the common name of a certificate that has not several.
func onlyCN(leaf *x509.Certificate) (string, error) {
	names := 0
	for _, n := range leaf.Subject.Names {
		if n.Type.Equal(oidCommonName) {
			names++
		}
	}
	if names > 1 {
		return "", fmt.Errorf("the certificate %s has %d CNs: which one tells the role is not clear", identity.CertName(leaf), names)
	}
	return leaf.Subject.CommonName, nil
}

var oidCommonName = asn1.ObjectIdentifier{2, 5, 4, 3}

func cnDomain() spiffeid.TrustDomain { return spiffeid.RequireTrustDomainFromString(identity.CNDomain) }

// caDomain returns the trust domain that a CA certificate names, the zero value if it names none.
func caDomain(ca *x509.Certificate) (spiffeid.TrustDomain, error) {
	if len(ca.URIs) == 0 {
		return spiffeid.TrustDomain{}, nil
	}
	id, err := identity.LeafID(ca)
	if err != nil {
		return spiffeid.TrustDomain{}, err
	}
	if id.Path() != "" {
		return spiffeid.TrustDomain{}, fmt.Errorf("a CA certificate names a trust domain, not %q", id)
	}
	return id.TrustDomain(), nil
}

// newBundles sorts CA certificates by the trust domains that they are trusted for.
func newBundles(cas []*x509.Certificate, by kind, open []spiffeid.TrustDomain) (*x509bundle.Set, error) {
	set := x509bundle.NewSet()
	add := func(td spiffeid.TrustDomain, ca *x509.Certificate) {
		b, ok := set.Get(td)
		if !ok {
			b = x509bundle.New(td)
			set.Add(b)
		}
		b.AddX509Authority(ca)
	}
	if by == byCA && len(cas) > maxDomains {
		return nil, fmt.Errorf("there are %d CA certificates: of CAs that name no trust domain at most %d are taken, each stands for one (swarmctl cert init makes a CA for all hosts)", len(cas), maxDomains)
	}
	for _, ca := range cas {
		td, err := caDomain(ca)
		if err != nil {
			return nil, fmt.Errorf("CA %s: %w", identity.CertName(ca), err)
		}
		switch {
		case by != bySPIFFE && !td.IsZero():
			return nil, fmt.Errorf("CA %s is the authority of the trust domain %s: where roles come from the CN only CAs that name none are trusted (swarmctl cert init --cn-roles makes one)", identity.CertName(ca), td)
		case by == byCN:
			add(cnDomain(), ca)
		case by == byCA:
			add(CADomain(ca), ca)
		case identity.IsCNDomain(td):
			return nil, fmt.Errorf("CA %s names the trust domain %s, which stands for certificates without SPIFFE ID: use another name", identity.CertName(ca), td)
		case !td.IsZero():
			add(td, ca)
		default:
			for _, td := range open {
				add(td, ca)
			}
		}
	}
	return set, nil
}

// state is everything that was read from files at one time. It does not change.
type state struct {
	by      kind
	prefix  identity.Prefix
	svid    *x509svid.SVID
	id      identity.ID
	cas     []*x509.Certificate
	bundles *x509bundle.Set
}

var (
	_ identity.Source     = (*state)(nil)
	_ identity.CertReader = (*state)(nil)
)

func (s *state) GetX509SVID() (*x509svid.SVID, error) { return s.svid, nil }

func (s *state) GetX509BundleForTrustDomain(td spiffeid.TrustDomain) (*x509bundle.Bundle, error) {
	b, ok := s.bundles.Get(td)
	if !ok {
		return nil, &identity.UnknownDomainError{Domain: td, Known: s.domains()}
	}
	return b, nil
}

func (s *state) CertID(leaf *x509.Certificate) (spiffeid.ID, error) {
	switch s.by {
	case byCN:
		return cnID(leaf)
	case byCA:
		id, _, err := OriginalID([]*x509.Certificate{leaf}, s.cas)
		return id, err
	}
	id, err := identity.LeafID(leaf)
	if err == nil && identity.IsCNDomain(id.TrustDomain()) {
		return spiffeid.ID{}, fmt.Errorf("the certificate names the trust domain %s, which stands for certificates without SPIFFE ID", id.TrustDomain())
	}
	if err != nil {
		return spiffeid.ID{}, err
	}
	return s.prefix.Read(id)
}

func (s *state) VerifyChain(chain []*x509.Certificate) (spiffeid.ID, error) {
	return s.VerifyChainAt(chain, time.Now())
}

func (s *state) VerifyChainAt(chain []*x509.Certificate, at time.Time) (spiffeid.ID, error) {
	if len(chain) == 0 {
		return spiffeid.ID{}, errors.New("verify certificate: there is none")
	}
	if s.by == byCA {
		return VerifyOriginal(chain, s.cas, at)
	}
	id, err := s.CertID(chain[0])
	if err != nil {
		return spiffeid.ID{}, err
	}
	var found [][]*x509.Certificate
	if s.by == byCN {
		found, err = s.verifyCN(chain, at)
	} else {
		_, found, err = x509svid.Verify(chain, s, x509svid.WithTime(at))
	}
	if err != nil {
		return spiffeid.ID{}, err
	}
	for _, c := range found {
		if s.signersFit(c[1:], id.TrustDomain()) {
			return id, nil
		}
	}
	return spiffeid.ID{}, fmt.Errorf("an authority of another trust domain has signed the certificate of %s", id)
}

// verifyCN verifies the chain alone: no host names and any key usage, as the original's certificates need. That a leaf
// may sign by its key usage does not make it an authority: it is none by its basic constraints.
func (s *state) verifyCN(chain []*x509.Certificate, at time.Time) ([][]*x509.Certificate, error) {
	if chain[0].IsCA {
		return nil, isCA(chain[0])
	}
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	for _, c := range s.cas {
		roots.AddCert(c)
	}
	for _, c := range chain[1:] {
		intermediates.AddCert(c)
	}
	return chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: intermediates, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
}

// signersFit reports whether none of the authorities of a chain names another trust domain: an authority that partners
// share could else speak for all of them through an intermediate that was made for one.
func (s *state) signersFit(signers []*x509.Certificate, td spiffeid.TrustDomain) bool {
	for _, c := range signers {
		named, err := caDomain(c)
		if err != nil || !named.IsZero() && (s.by == byCN || named != td) {
			return false
		}
	}
	return true
}
