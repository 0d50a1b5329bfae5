package audit_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/url"
	"strings"
	"testing"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/ledger/audit"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/certs"
)

// original is a CA as the original's gen-cert makes it.
func original(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{key: key}
	a.cert = a.issue(t, &x509.Certificate{Subject: pkix.Name{CommonName: "CA"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, &key.PublicKey)
	return a
}

// TestTrustDomainsOfCAs: a trust domain that is made of a CA's key is that CA's alone, whatever the ledger says of it later.
func TestTrustDomainsOfCAs(t *testing.T) {
	known, stranger := original(t), original(t)
	td := certs.CADomain(known.cert)
	id := spiffeid.RequireFromString("spiffe://" + td.Name() + "/swarm/sl")
	cn := x509.Certificate{Subject: pkix.Name{CommonName: "SL-9"}, KeyUsage: x509.KeyUsageDigitalSignature}
	uri := x509.Certificate{URIs: []*url.URL{id.URL()}, KeyUsage: x509.KeyUsageDigitalSignature}
	for name, tt := range map[string]struct {
		bundles [][]byte
		by      *authority
		leaf    x509.Certificate
		want    string // "": nothing is wrong
	}{
		"its own":                      {[][]byte{known.cert.Raw}, known, cn, ""},
		"a stranger's, with a CN":      {[][]byte{known.cert.Raw, stranger.cert.Raw}, stranger, cn, "does not have the key that the trust domain"},
		"a stranger's, with a URI":     {[][]byte{known.cert.Raw, stranger.cert.Raw}, stranger, uri, "does not have the key that the trust domain"},
		"its own, but with a URI":      {[][]byte{known.cert.Raw}, known, uri, "which stands for certificates without SPIFFE ID"},
		"a stranger's, without bundle": {[][]byte{known.cert.Raw}, stranger, cn, "is not signed by one of the CA certificates"},
	} {
		n := newNode(t, "sl-9")
		b := &builder{t: t}
		b.add(ledger.Swarm{SwarmID: swarmID})
		for _, ca := range tt.bundles {
			b.add(ledger.Bundle{TrustDomain: td.Name(), Certificates: [][]byte{ca}})
		}
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		leaf := tt.by.issue(t, &tt.leaf, &key.PublicKey)
		sig, err := identity.SignWithSVID(&x509svid.SVID{ID: id, Certificates: []*x509.Certificate{leaf}, PrivateKey: key}, identity.OwnershipMessage(swarmID, n.name, n.id))
		if err != nil {
			t.Fatal(err)
		}
		b.add(ledger.Registration{Node: n.name, Role: "sl", SPIFFEID: id.String(), PeerID: n.id, Signature: sig, Chain: [][]byte{leaf.Raw}})
		r := verify(t, b.bytes, audit.Options{Authorities: []*x509.Certificate{known.cert}})
		switch {
		case tt.want == "" && len(r.Problems) > 0:
			t.Errorf("%s: %v", name, r.Problems)
		case tt.want != "" && (len(r.Problems) == 0 || !strings.Contains(r.Problems[0].Error(), tt.want)):
			t.Errorf("%s: %v, want %q", name, r.Problems, tt.want)
		}
	}
}
