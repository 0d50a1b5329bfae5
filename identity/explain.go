package identity

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
)

// LeafID returns the SPIFFE ID in a certificate: its one URI SAN. It verifies nothing.
func LeafID(leaf *x509.Certificate) (spiffeid.ID, error) {
	switch n := len(leaf.URIs); n {
	case 1:
	case 0:
		return spiffeid.ID{}, fmt.Errorf("the certificate %s names no SPIFFE ID (it has no URI SAN): only nodes whose own have none accept one, those of the original's gen-cert or with --cert-roles cn", CertName(leaf))
	default:
		names := make([]string, min(n, 2))
		for i := range names {
			names[i] = fmt.Sprintf("%.200q", leaf.URIs[i])
		}
		if n == 2 {
			return spiffeid.ID{}, fmt.Errorf("the certificate has two SPIFFE IDs (%s): an identity has exactly one", strings.Join(names, ", "))
		}
		return spiffeid.ID{}, fmt.Errorf("the certificate has %d SPIFFE IDs (%s and more): an identity has exactly one", n, strings.Join(names, ", "))
	}
	id, err := spiffeid.FromURI(leaf.URIs[0])
	if err != nil {
		return spiffeid.ID{}, fmt.Errorf("the certificate's URI SAN %.200q is no SPIFFE ID: %w", leaf.URIs[0], err)
	}
	return id, nil
}

// CertName is a certificate's subject for messages, quoted and of bounded length.
func CertName(c *x509.Certificate) string { return fmt.Sprintf("%.120q", c.Subject.String()) }

// UnknownDomainError reports a peer of a trust domain whose authorities the node does not know.
type UnknownDomainError struct {
	Domain spiffeid.TrustDomain
	Known  []string // of which there are authorities
}

func (e *UnknownDomainError) Error() string {
	return fmt.Sprintf("there is no X.509 bundle for trust domain %q here (only of: %s): to accept its nodes, let the authorities federate or give its CA certificate, and add --trust-domain %s",
		e.Domain.Name(), strings.Join(e.Known, ", "), e.Domain.Name())
}

// refusal is a plain text over a cause.
type refusal struct {
	text  string
	cause error
}

func (r *refusal) Error() string { return r.text }
func (r *refusal) Unwrap() error { return r.cause }

// plain says in words why a chain was refused; authorities are those that it was verified against.
func plain(err error, chain []*x509.Certificate, authorities []*x509.Certificate, now time.Time) error {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r
	}
	if unknown, ok := errors.AsType[*UnknownDomainError](err); ok {
		return &refusal{unknown.Error(), err}
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return &refusal{unknownAuthority(chain, authorities), err}
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired && invalid.Cert != nil {
		whose := "its certificate "
		if len(chain) > 0 && !invalid.Cert.Equal(chain[0]) {
			whose = fmt.Sprintf("the certificate of its authority %s ", CertName(invalid.Cert))
		}
		return &refusal{whose + validity(invalid.Cert.NotBefore, invalid.Cert.NotAfter, now), err}
	}
	return err
}

// unknownAuthority tells an authority that was made anew, under its old name, from one that was never known.
func unknownAuthority(chain, authorities []*x509.Certificate) string {
	const text = "its certificate is not signed by an authority that this node trusts"
	if len(chain) == 0 {
		return text
	}
	top := chain[len(chain)-1]
	for _, a := range authorities {
		if bytes.Equal(a.RawSubject, top.RawIssuer) {
			return fmt.Sprintf("%s: it trusts one of the same name (%.120q) with another key; the authority was made anew, or there are two: do both sides have the same CA certificate?", text, top.Issuer.String())
		}
	}
	return fmt.Sprintf("%s: the issuer is %.120q, this node has %s; do both use the same authority, and is each one's CA known to the other?", text, top.Issuer.String(), authorityNames(authorities))
}

func authorityNames(authorities []*x509.Certificate) string {
	const most = 3
	if len(authorities) == 0 {
		return "no CA certificate of that trust domain"
	}
	var names []string
	for i, a := range authorities {
		if i == most {
			names = append(names, fmt.Sprintf("%d more", len(authorities)-most))
			break
		}
		names = append(names, CertName(a))
	}
	return strings.Join(names, ", ")
}

// authoritiesOf returns what a chain's leaf is verified against, nil if that is not known.
func authoritiesOf(src x509bundle.Source, id spiffeid.ID) []*x509.Certificate {
	if id.IsZero() {
		return nil
	}
	bundle, err := src.GetX509BundleForTrustDomain(id.TrustDomain())
	if err != nil {
		return nil
	}
	return bundle.X509Authorities()
}
