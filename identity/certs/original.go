package certs

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/swarmd/swarmd/identity"
)

// kind is how a node's files and its peers' certificates tell whom they stand for.
type kind int

const (
	bySPIFFE kind = iota // by the SPIFFE ID in the URI SAN
	byCN                 // by the CN, of whichever CA (--cert-roles cn)
	byCA                 // by CA and CN, of certificates exactly as the original's gen-cert makes them, without an option
)

// originalCN is the form of the common names that the original's gen-cert writes.
var originalCN = regexp.MustCompile(`^(SN|SL|SWOP|SWCI)-[1-9][0-9]{0,5}$`)

// kind decides once, as the files are opened: the certificate itself tells where no option does. With trust domains or a prefix
// named, all nodes are meant to have SPIFFE IDs.
func (c *FilesConfig) kind() kind {
	switch {
	case c.Roles == RolesCN:
		return byCN
	case c.Roles == RolesSPIFFE || len(c.TrustDomains) > 0 || c.Prefix != (identity.Prefix{}):
		return bySPIFFE
	}
	data, err := readFile(c.Cert, maxPair, false)
	if err != nil {
		return bySPIFFE // what is wrong is said when the pair is read
	}
	chain, err := parseCertificates(data, identity.MaxChain)
	if err == nil && len(chain) > 0 && asOriginal(chain) == nil {
		return byCA
	}
	return bySPIFFE
}

// asOriginal reports what keeps a chain from being one of the original's gen-cert: no certificate of it names a URI, and its leaf is a
// node's, with one CN of exactly that form. It verifies nothing.
func asOriginal(chain []*x509.Certificate) error {
	for _, c := range chain {
		if len(c.URIs) > 0 {
			return fmt.Errorf("the certificate %s names %.200q, but this node's own is of the original's gen-cert, without SPIFFE ID: both sides must use the same kind", identity.CertName(c), c.URIs[0])
		}
	}
	leaf := chain[0]
	if _, err := onlyCN(leaf); err != nil {
		return err
	}
	if !originalCN.MatchString(leaf.Subject.CommonName) {
		return fmt.Errorf("the certificate's CN %.80q is not one of the original's gen-cert, such as SN-1 or SL-2: nodes with other names need --cert-roles cn on all nodes, or SPIFFE IDs", leaf.Subject.CommonName)
	}
	if leaf.IsCA {
		return isCA(leaf)
	}
	return nil
}

func isCA(leaf *x509.Certificate) error {
	return fmt.Errorf("the certificate %s is a CA's: a node shows one of its own", identity.CertName(leaf))
}

// maxDomains bounds CAs that stand for trust domains: the ledger has a record of each, and the replicated state room for so many.
const maxDomains = 64

// CADomain returns the trust domain that stands for a CA whose certificates have no SPIFFE ID: the hexadecimal SHA-256 of its public key
// (SubjectPublicKeyInfo, DER), under [identity.CNDomain]. A CA certificate that is renewed with its key stands for the same one.
func CADomain(ca *x509.Certificate) spiffeid.TrustDomain {
	digest := sha256.Sum256(ca.RawSubjectPublicKeyInfo)
	return spiffeid.RequireTrustDomainFromString(hex.EncodeToString(digest[:]) + "." + identity.CNDomain)
}

// OriginalID returns the SPIFFE ID that a chain of the original's gen-cert stands for, and those of cas whose key has signed its leaf:
// one, or its renewals. It verifies nothing but that signature; an intermediate authority is not looked for, as gen-cert makes none.
func OriginalID(chain, cas []*x509.Certificate) (spiffeid.ID, []*x509.Certificate, error) {
	if err := asOriginal(chain); err != nil {
		return spiffeid.ID{}, nil, err
	}
	leaf := chain[0]
	var signers []*x509.Certificate
	for _, ca := range cas {
		if len(ca.URIs) == 0 && bytes.Equal(ca.RawSubject, leaf.RawIssuer) && leaf.CheckSignatureFrom(ca) == nil {
			signers = append(signers, ca)
		}
	}
	if len(signers) == 0 {
		return spiffeid.ID{}, nil, fmt.Errorf("the certificate %s is not signed by one of the CA certificates given (its issuer is %.120q): give its CA's with --cacert or --capath; one that an intermediate authority has signed needs --cert-roles cn: %w",
			identity.CertName(leaf), leaf.Issuer.String(), x509.UnknownAuthorityError{Cert: leaf})
	}
	role, err := RoleOfCN(leaf.Subject.CommonName)
	if err != nil {
		return spiffeid.ID{}, nil, err
	}
	id, err := spiffeid.FromSegments(CADomain(signers[0]), "swarm", string(role))
	return id, signers, err
}

// VerifyOriginal is OriginalID of a chain that is also valid at a time.
func VerifyOriginal(chain, cas []*x509.Certificate, at time.Time) (spiffeid.ID, error) {
	if len(chain) == 0 {
		return spiffeid.ID{}, errors.New("verify certificate: there is none")
	}
	id, signers, err := OriginalID(chain, cas)
	if err != nil {
		return spiffeid.ID{}, err
	}
	roots := x509.NewCertPool()
	for _, ca := range signers {
		roots.AddCert(ca)
	}
	_, err = chain[0].Verify(x509.VerifyOptions{Roots: roots, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	return id, err
}
