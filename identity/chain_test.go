package identity_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"

	"github.com/swarmd/swarmd/identity"
)

type signer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// sign makes a certificate; a nil s signs its own.
func (s *signer) sign(t *testing.T, ca bool, uris ...string) *signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: strings.Join(uris, " ")},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		BasicConstraintsValid: true, IsCA: ca, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	if ca {
		template.KeyUsage = x509.KeyUsageCertSign
	}
	for _, text := range uris {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		template.URIs = append(template.URIs, u)
	}
	parent, by := template, key
	if s != nil {
		parent, by = s.cert, s.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &signer{cert, key}
}

// bundles is a Source without an SVID of its own.
type bundles struct{ *x509bundle.Set }

func (bundles) GetX509SVID() (*x509svid.SVID, error) { return nil, identity.ErrOwnExpired }

// TestSharedUpstreamAuthority has two trust domains with one upstream authority: the server of the one must not make SVIDs
// of the other.
func TestSharedUpstreamAuthority(t *testing.T) {
	root := (*signer)(nil).sign(t, true, "https://pki.example")
	src := bundles{x509bundle.NewSet()}
	for _, td := range []string{"own.example", "partner.example"} {
		src.Add(x509bundle.FromX509Authorities(spiffeid.RequireTrustDomainFromString(td), []*x509.Certificate{root.cert}))
	}
	for _, tt := range []struct {
		name    string
		servers [][]string // from the root down
		ok      bool
	}{
		{"own server", [][]string{{"spiffe://own.example"}}, true},
		{"nested own servers", [][]string{{"spiffe://own.example"}, {"spiffe://own.example"}}, true},
		{"an authority that names none", [][]string{nil}, true},
		{"an authority with another kind of name", [][]string{{"https://ca.example"}}, true},
		{"the partner's server", [][]string{{"spiffe://partner.example"}}, false},
		{"below the partner's server", [][]string{{"spiffe://partner.example"}, {"spiffe://own.example"}}, false},
		{"both names", [][]string{{"spiffe://own.example", "spiffe://partner.example"}}, false},
	} {
		at, chain := root, []*x509.Certificate{}
		for _, uris := range tt.servers {
			at = at.sign(t, true, uris...)
			chain = append([]*x509.Certificate{at.cert}, chain...)
		}
		leaf := at.sign(t, false, "spiffe://own.example/swarm/sn")
		id, err := identity.VerifyChain(src, append([]*x509.Certificate{leaf.cert}, chain...))
		if (err == nil) != tt.ok || tt.ok != (id.String() == "spiffe://own.example/swarm/sn") {
			t.Errorf("%s: %q, %v", tt.name, id, err)
		}
		if err != nil && !strings.Contains(err.Error(), "another trust domain") {
			t.Errorf("%s: refused with %v", tt.name, err)
		}
	}
}
