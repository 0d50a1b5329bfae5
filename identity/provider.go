package identity

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
)

// Source gives the node's current X.509-SVID and the trust bundles. Both calls are cheap and safe for concurrent
// use; what they return must not be changed. A Source that reads identities otherwise than from the certificate's
// SPIFFE ID is a [CertReader] too.
type Source interface {
	x509svid.Source
	x509bundle.Source
}

// CertReader is a Source with its own way to tell whom a certificate stands for. Both methods are safe for concurrent
// use; CertID is cheap.
type CertReader interface {
	// CertID returns the SPIFFE ID that a certificate stands for. It verifies nothing.
	CertID(leaf *x509.Certificate) (spiffeid.ID, error)
	// VerifyChain verifies a peer's chain, leaf first, as of now, and returns what CertID says of its leaf.
	VerifyChain(chain []*x509.Certificate) (spiffeid.ID, error)
}

// Provider is a Source that keeps itself fresh. All methods are safe for concurrent use.
type Provider interface {
	Source
	// ID returns the identity of the current SVID.
	ID() ID
	// Changed returns a channel that is closed at the next change of SVID, bundles or Status.
	Changed() <-chan struct{}
	// Status tells what there is to know of the identity now.
	Status() Status
	// Close stops following changes and waits until that has ended.
	Close() error
}

// Status is the state of a node's identity.
type Status struct {
	// Origin says where the identity comes from, in words: "Workload API at /run/agent.sock".
	Origin string
	// ID is the identity, zero before the first.
	ID ID
	// NotBefore and NotAfter bound the current SVID's life.
	NotBefore, NotAfter time.Time
	// Updated is when SVID or bundles came last.
	Updated time.Time
	// Domains are the trust domains of which there is a bundle, sorted.
	Domains []string
	// Problem says why nothing new comes, "" while all is well.
	Problem string
	// Warnings say what will soon be a problem, or is one of age: the certificate nears its end, or is not renewed on
	// schedule.
	Warnings []string
}

// CertID returns the SPIFFE ID that a certificate stands for in the eyes of src. It verifies nothing.
func CertID(src Source, leaf *x509.Certificate) (spiffeid.ID, error) {
	if r, ok := src.(CertReader); ok {
		return r.CertID(leaf)
	}
	return LeafID(leaf)
}

// VerifyChain verifies a peer's chain, leaf first, against the bundles of src as of now and returns the SPIFFE ID that
// it stands for. Errors are in the users' words, the cause is wrapped.
func VerifyChain(src Source, chain []*x509.Certificate) (spiffeid.ID, error) {
	if len(chain) == 0 {
		return spiffeid.ID{}, errors.New("verify certificate: the peer shows none")
	}
	if err := checkChain(chain); err != nil {
		return spiffeid.ID{}, fmt.Errorf("verify certificate: %w", err)
	}
	claimed, err := CertID(src, chain[0])
	if err != nil {
		return spiffeid.ID{}, err
	}
	var id spiffeid.ID
	if r, ok := src.(CertReader); ok {
		id, err = r.VerifyChain(chain)
	} else {
		id, err = VerifyWithin(src, chain, time.Now())
	}
	if err != nil {
		return spiffeid.ID{}, plain(err, chain, authoritiesOf(src, claimed), time.Now())
	}
	return id, nil
}

// PastReader is a CertReader that verifies chains of the past too.
type PastReader interface {
	// VerifyChainAt is VerifyChain as of a time, by the authorities of now.
	VerifyChainAt(chain []*x509.Certificate, at time.Time) (spiffeid.ID, error)
}

// VerifyChainAt is VerifyChain as of a time, by the authorities that src trusts now: for what was signed once and is shown later.
func VerifyChainAt(src Source, chain []*x509.Certificate, at time.Time) (spiffeid.ID, error) {
	if err := checkChain(chain); err != nil {
		return spiffeid.ID{}, fmt.Errorf("verify certificate: %w", err)
	}
	claimed, err := CertID(src, chain[0])
	if err != nil {
		return spiffeid.ID{}, err
	}
	var id spiffeid.ID
	switch r := src.(type) {
	case PastReader:
		id, err = r.VerifyChainAt(chain, at)
	case CertReader:
		return VerifyChain(src, chain)
	default:
		id, err = VerifyWithin(src, chain, at)
	}
	if err != nil {
		return spiffeid.ID{}, plain(err, chain, authoritiesOf(src, claimed), at)
	}
	return id, nil
}

// VerifyWithin verifies a chain as the SPIFFE standard says, as of a time, and that no authority between leaf and root is another trust
// domain's. It returns the SPIFFE ID in the leaf.
func VerifyWithin(bundles x509bundle.Source, chain []*x509.Certificate, at time.Time) (spiffeid.ID, error) {
	id, found, err := x509svid.Verify(chain, bundles, x509svid.WithTime(at))
	if err == nil && !slices.ContainsFunc(found, signedWithin(id.TrustDomain())) {
		err = fmt.Errorf("an authority of another trust domain has signed the certificate of %s", id)
	}
	return id, err
}

// signedWithin tells of a verified chain whether no authority between leaf and root names another trust domain. Trust domains
// whose servers have one upstream authority could else make SVIDs of each other.
func signedWithin(td spiffeid.TrustDomain) func(chain []*x509.Certificate) bool {
	return func(chain []*x509.Certificate) bool {
		for _, c := range chain[1:max(len(chain)-1, 1)] {
			for _, uri := range c.URIs {
				if id, err := spiffeid.FromURI(uri); strings.EqualFold(uri.Scheme, "spiffe") && (err != nil || id.TrustDomain() != td) {
					return false
				}
			}
		}
		return true
	}
}
