package audit

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/certs"
)

// clockSlack is how far the clock of who registered a node may be behind that of who issued its SVID.
const clockSlack = time.Minute

// authorities are the trust bundles of the record that is judged.
type authorities struct {
	*findings
	bundles *x509bundle.Set
}

// parseAuthorities is identity.ParseChain for the authorities of a bundle, of which there may be many.
func parseAuthorities(ders [][]byte) ([]*x509.Certificate, error) {
	out := make([]*x509.Certificate, 0, len(ders))
	for i, der := range ders {
		cert, err := identity.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", i+1, err)
		}
		out = append(out, cert)
	}
	if len(out) == 0 {
		return nil, errors.New("no certificate")
	}
	return out, nil
}

func (a *authorities) bundle(b ledger.Bundle) {
	a.report.Bundles++
	td, err := spiffeid.TrustDomainFromString(b.TrustDomain)
	if err != nil {
		a.bad("trust_domain", "%v", err)
		return
	}
	authorities, err := parseAuthorities(b.Certificates)
	if err != nil {
		a.bad("certificates", "%v", err)
		return
	}
	if identity.IsCNDomain(td) && td.Name() != identity.CNDomain {
		for i, cert := range authorities {
			if certs.CADomain(cert) != td {
				a.bad(fmt.Sprintf("certificates[%d]", i), "authority %s does not have the key that the trust domain %s stands for", identity.CertName(cert), td)
				return
			}
		}
	}
	if !a.bundles.Has(td) {
		for i, cert := range authorities {
			if !a.opts.Unsigned && !a.trusted(cert) {
				a.bad(fmt.Sprintf("certificates[%d]", i), "authority %s of trust domain %s is not among the CA certificates given (--bundle)", identity.CertName(cert), td)
			}
		}
	}
	a.bundles.Add(x509bundle.FromX509Authorities(td, authorities))
}

// verifyChain holds an SVID to the bundles and the time of its record and returns the SPIFFE ID that it stands for. claimed is what
// the record says it is: of a certificate without SPIFFE ID it tells how nodes read such ones, and is not believed otherwise.
func (a *authorities) verifyChain(chain []*x509.Certificate, role, claimed string) (string, error) {
	at := time.UnixMilli(a.atMS)
	if early := chain[0].NotBefore.Sub(at); early > 0 && early <= clockSlack {
		at = chain[0].NotBefore
	}
	if len(chain[0].URIs) == 0 {
		if id, err := spiffeid.FromString(claimed); err == nil && id.TrustDomain().Name() != identity.CNDomain {
			proven, err := certs.VerifyOriginal(chain, a.originals(), at)
			return proven.String(), err
		}
		return a.verifyCN(chain, role, at)
	}
	id, err := identity.VerifyWithin(a.bundles, chain, at)
	if err == nil && identity.IsCNDomain(id.TrustDomain()) {
		err = fmt.Errorf("the certificate names the trust domain %s, which stands for certificates without SPIFFE ID", id.TrustDomain())
	}
	if err == nil {
		id, err = a.opts.Prefix.Read(id)
	}
	if err != nil {
		return "", err
	}
	return id.String(), nil
}

// originals returns the authorities that stand for trust domains, each made of its digest.
func (a *authorities) originals() []*x509.Certificate {
	var out []*x509.Certificate
	for _, b := range a.bundles.Bundles() {
		for _, cert := range b.X509Authorities() {
			if certs.CADomain(cert) == b.TrustDomain() {
				out = append(out, cert)
			}
		}
	}
	return out
}

// verifyCN is verifyChain for certificates that name their role as a common name.
func (a *authorities) verifyCN(chain []*x509.Certificate, role string, at time.Time) (string, error) {
	got, err := certs.RoleOfCN(chain[0].Subject.CommonName)
	if err != nil {
		return "", err
	}
	if string(got) != role {
		return "", fmt.Errorf("the certificate's common name gives role %s, not %s", got, role)
	}
	td, err := spiffeid.TrustDomainFromString(identity.CNDomain)
	if err != nil {
		return "", err
	}
	bundle, err := a.bundles.GetX509BundleForTrustDomain(td)
	if err != nil {
		return "", err
	}
	roots, others := x509.NewCertPool(), x509.NewCertPool()
	for _, cert := range bundle.X509Authorities() {
		roots.AddCert(cert)
	}
	for _, cert := range chain[1:] {
		others.AddCert(cert)
	}
	_, err = chain[0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: others, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	return "spiffe://" + identity.CNDomain + "/swarm/" + role, err
}

// trusted reports whether the auditor named a certificate.
func (a *authorities) trusted(cert *x509.Certificate) bool {
	return slices.ContainsFunc(a.opts.Authorities, cert.Equal)
}

// operator holds what an operator has signed to the authorities of its time, and returns whose key signed it; nil if the chain does not
// read. prefix stands before the names of its fields. Nodes of the roles that are given may have signed it too.
func (a *authorities) operator(prefix string, raw [][]byte, by string, also ...identity.Role) *x509.Certificate {
	chain, err := identity.ParseChain(raw)
	if err != nil {
		a.bad(prefix+"chain", "%v", err)
		return nil
	}
	role := identity.RoleSWCI
	if id, err := identity.ParseIDString(by); err == nil && slices.Contains(also, id.Role()) {
		role = id.Role()
	}
	proven, err := a.verifyChain(chain, string(role), by)
	switch {
	case err != nil:
		a.bad(prefix+"chain", "not an SVID by the authorities of its time (at_ms %d): %v", a.atMS, err)
	case proven != by:
		a.bad(prefix+"by", "the SVID is of %s, not of %s", proven, by)
	default:
		if id, err := identity.ParseIDString(proven); err != nil || id.Role() != role {
			a.bad(prefix+"by", "%s is no operator", proven)
		}
	}
	return chain[0]
}
