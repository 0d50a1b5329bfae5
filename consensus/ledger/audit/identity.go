package audit

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/certs"
)

// clockSlack is how far the clock of who registered a node may be behind that of who issued its SVID.
const clockSlack = time.Minute

// auditor is the state of an audit after some records.
type auditor struct {
	opts   Options
	report *Report
	head   ledger.Head
	hashes []string // of all records so far

	// Of the record that is judged.
	seq  uint64
	kind string
	atMS int64

	latestMS int64 // of all records so far

	bundles   *x509bundle.Set // of this moment
	nodes     map[string]*ledger.Registration
	banned    map[string]string // names by peer ID
	nonces    map[string]uint64 // of orders, with the number of the record
	admitted  *admitted         // nil: SNs join without an operator's word
	ordered   uint64            // the first record with an order; 0: there was none
	recovered string            // digest of the newest recovery; empty: there was none
	contracts map[string]*course
	order     []string // of contracts
	floors    []uint64 // 0, and then the runs that each higher than all before were deleted
	witnessed uint64   // records that participants of a later round signed as their past
}

func newAuditor(o Options) *auditor {
	return &auditor{
		opts: o, report: &Report{}, bundles: x509bundle.NewSet(), nodes: map[string]*ledger.Registration{},
		banned: map[string]string{}, nonces: map[string]uint64{}, contracts: map[string]*course{}, floors: []uint64{0},
	}
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

func (a *auditor) bundle(b ledger.Bundle) {
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
	if !a.bundles.Has(td) {
		for i, cert := range authorities {
			if !a.opts.Unsigned && !a.trusted(cert) {
				a.bad(fmt.Sprintf("certificates[%d]", i), "authority %s of trust domain %s is not among the CA certificates given (--bundle)", identity.CertName(cert), td)
			}
		}
	}
	a.bundles.Add(x509bundle.FromX509Authorities(td, authorities))
}

func (a *auditor) registration(r ledger.Registration) {
	a.report.Registrations++
	if known := a.nodes[r.Node]; known != nil && (known.PeerID != r.PeerID || known.Role != r.Role) {
		a.bad("peer_id", "the name %s belongs to node key %s of role %s, and was not freed", r.Node, known.PeerID, known.Role)
	}
	a.nodes[r.Node] = &r
	a.mayJoin(r)
	id, err := identity.ParseIDString(r.SPIFFEID)
	if err != nil {
		a.bad("spiffe_id", "%v", err)
		return
	}
	if string(id.Role()) != r.Role {
		a.bad("role", "%s may not bear role %q", id, r.Role)
	}
	if name := id.NodeName(); name != "" && name != r.Node {
		a.bad("node", "%s may not bear name %q", id, r.Node)
	}
	if a.opts.Unsigned {
		return
	}
	chain, err := identity.ParseChain(r.Chain)
	if err != nil {
		a.bad("chain", "%v", err)
		return
	}
	proven, err := a.verifyChain(chain, r.Role)
	switch {
	case err != nil:
		a.bad("chain", "not an SVID by the authorities of its time (at_ms %d): %v", a.atMS, err)
	case proven != r.SPIFFEID:
		a.bad("spiffe_id", "the SVID is of %s, not of %s", proven, r.SPIFFEID)
	}
	if identity.VerifySVIDSignature(chain[0], identity.OwnershipMessage(a.report.SwarmID, r.Node, r.PeerID), r.Signature) != nil {
		a.bad("signature", "the SVID's key did not sign that swarm %s, node %s and node key %s belong to it", a.report.SwarmID, r.Node, r.PeerID)
	}
}

// verifyChain holds an SVID to the bundles and the time of its record and returns the SPIFFE ID that it stands for.
func (a *auditor) verifyChain(chain []*x509.Certificate, role string) (string, error) {
	at := time.UnixMilli(a.atMS)
	if early := chain[0].NotBefore.Sub(at); early > 0 && early <= clockSlack {
		at = chain[0].NotBefore
	}
	if len(chain[0].URIs) == 0 {
		return a.verifyCN(chain, role, at)
	}
	id, found, err := x509svid.Verify(chain, a.bundles, x509svid.WithTime(at))
	if err != nil {
		return "", err
	}
	for _, way := range found {
		if within(way, id.TrustDomain()) {
			return id.String(), nil
		}
	}
	return "", fmt.Errorf("an authority of another trust domain has signed the certificate of %s", id)
}

// within tells whether no authority between leaf and root names another trust domain.
func within(chain []*x509.Certificate, td spiffeid.TrustDomain) bool {
	for _, c := range chain[1:max(len(chain)-1, 1)] {
		for _, uri := range c.URIs {
			if id, err := spiffeid.FromURI(uri); strings.EqualFold(uri.Scheme, "spiffe") && (err != nil || id.TrustDomain() != td) {
				return false
			}
		}
	}
	return true
}

// verifyCN is verifyChain for certificates that name their role as a common name.
func (a *auditor) verifyCN(chain []*x509.Certificate, role string, at time.Time) (string, error) {
	got, err := certs.RoleOfCN(chain[0].Subject.CommonName)
	if err != nil {
		return "", err
	}
	if string(got) != role {
		return "", fmt.Errorf("the certificate's common name gives role %s, not %s", got, role)
	}
	td, err := spiffeid.TrustDomainFromString(certs.CNTrustDomain)
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
	return "spiffe://" + certs.CNTrustDomain + "/swarm/" + role, err
}
