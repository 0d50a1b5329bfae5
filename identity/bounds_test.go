package identity_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"math/big"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/swarmd/swarmd/identity"
)

// hugeRSA makes a certificate of an RSA key that nobody has: the modulus is any odd number of that many bits.
func hugeRSA(tb testing.TB, bits int, uri string) []byte {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	n := new(big.Int).SetBit(big.NewInt(1), bits-1, 1)
	u, err := url.Parse(uri)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature, URIs: []*url.URL{u},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, &x509.Certificate{}, &rsa.PublicKey{N: n, E: 1<<31 - 1}, key)
	if err != nil {
		tb.Fatal(err)
	}
	return der
}

// trusting is a root and a source that accepts what it signs.
func trusting(t *testing.T) (*signer, bundles, identity.Domains) {
	t.Helper()
	root := (*signer)(nil).sign(t, true)
	td := spiffeid.RequireTrustDomainFromString("own.example")
	src := bundles{x509bundle.NewSet(x509bundle.FromX509Authorities(td, []*x509.Certificate{root.cert}))}
	domains, err := identity.NewDomains(td)
	if err != nil {
		t.Fatal(err)
	}
	return root, src, domains
}

func TestChainsAreBoundedBeforeSignaturesAreChecked(t *testing.T) {
	const sl = "spiffe://own.example/swarm/sl"
	root, src, domains := trusting(t)
	leaf := root.sign(t, false, sl).cert
	long := root.sign(t, false, sl, "https://long.example/"+strings.Repeat("x", identity.MaxChainBytes)).cert
	huge := hugeRSA(t, 45_000, sl)
	for _, tt := range []struct {
		name  string
		chain [][]byte
		want  string // "": accepted
	}{
		{"a leaf", [][]byte{leaf.Raw}, ""},
		{"none", nil, "0 certificates"},
		{"nine", bytes.Split(bytes.Repeat([]byte("x"), 9), nil), "9 certificates"},
		{"too many bytes", [][]byte{leaf.Raw, long.Raw}, "bytes: at most 16384"},
		{"a leaf with a large key", [][]byte{huge}, "an RSA key of 45000 bits, at most 8192"},
		{"an authority with a large key", [][]byte{leaf.Raw, huge}, "an RSA key of 45000 bits, at most 8192"},
		{"no certificate", [][]byte{leaf.Raw, []byte("x")}, "certificate 2 of the chain"},
	} {
		_, _, err := identity.VerifySVID(tt.chain, src, domains)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		// The way of TLS, and of who has parsed the chain by itself.
		if err2 := identity.MutualTLS(src, nil).VerifyPeerCertificate(tt.chain, nil); (err2 == nil) != (err == nil) {
			t.Errorf("%s: TLS says %v, re-authentication %v", tt.name, err2, err)
		}
		var parsed []*x509.Certificate
		for _, der := range tt.chain {
			if c, err := x509.ParseCertificate(der); err == nil {
				parsed = append(parsed, c)
			}
		}
		if len(parsed) == len(tt.chain) && tt.want != "" {
			if _, err := identity.VerifyChain(src, parsed); err == nil || len(parsed) > 0 && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: parsed by others: %v, want %q", tt.name, err, tt.want)
			}
		}
	}
}

// FuzzVerifySVID gives chains of hostile bytes: only one that begins with a certificate of the authority is accepted.
func FuzzVerifySVID(f *testing.F) {
	t := &testing.T{} // for helpers whose failure here is a mistake in them
	root, src, domains := trusting(t)
	middle := root.sign(t, true)
	leaf, below := root.sign(t, false, "spiffe://own.example/swarm/sl").cert, middle.sign(t, false, "spiffe://own.example/swarm/sn").cert
	stranger := (*signer)(nil).sign(t, true).sign(t, false, "spiffe://own.example/swarm/sl").cert
	good := map[string]bool{string(leaf.Raw): true, string(below.Raw): true}
	for _, chain := range [][][]byte{
		{leaf.Raw},
		{below.Raw, middle.cert.Raw},
		{stranger.Raw},
		{leaf.Raw, leaf.Raw, leaf.Raw},
		{middle.cert.Raw},
		{root.cert.Raw},
		{hugeRSA(f, 9000, "spiffe://own.example/swarm/sl")},
		{},
	} {
		f.Add(bytes.Join(chain, nil), uint16(0))
		f.Add(bytes.Join(chain, nil), uint16(len(leaf.Raw)))
	}
	f.Fuzz(func(t *testing.T, data []byte, cut uint16) {
		chain := [][]byte{data}
		if n := int(cut); n > 0 && n < len(data) {
			chain = [][]byte{data[:n], data[n:]}
		}
		id, got, err := identity.VerifySVID(chain, src, domains)
		if err != nil {
			return
		}
		if !good[string(got.Raw)] || id.IsZero() {
			t.Errorf("accepted %x as %s", got.Raw, id)
		}
	})
}
