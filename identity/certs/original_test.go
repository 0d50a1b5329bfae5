package certs_test

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/certs"
)

// TestOriginal: two hosts, each with a CA of its own as gen-cert makes it, that have exchanged the CA certificates. No option says how
// roles are told.
func TestOriginal(t *testing.T) {
	one, two, stranger := newAuthority(t, "ca"), newAuthority(t, "ca"), newAuthority(t, "ca") // gen-cert names all the same
	var told bytes.Buffer
	cfg := files(t, one.original("SN-1"), one.cert, two.cert)
	cfg.Role, cfg.Log = identity.RoleSN, slog.New(slog.NewTextHandler(&told, nil))
	sn := open(t, cfg)
	sl := open(t, files(t, two.original("SL-2"), one.cert, two.cert))
	digest := sha256.Sum256(one.cert.RawSubjectPublicKeyInfo)
	if got, want := sn.ID().String(), "spiffe://"+hex.EncodeToString(digest[:])+"."+identity.CNDomain+"/swarm/sn"; got != want {
		t.Errorf("SN-1 is %s, want %s", got, want)
	}
	if sn.ID().SPIFFE().TrustDomain() == sl.ID().SPIFFE().TrustDomain() || sl.ID().Role() != identity.RoleSL {
		t.Errorf("SL-2 of another CA is %s", sl.ID())
	}
	for _, want := range []string{"WARN", "every CA certificate given may make nodes of every role", "cert issue", sn.ID().String()} {
		if !strings.Contains(told.String(), want) {
			t.Errorf("log %q lacks %q", told.String(), want)
		}
	}
	if err := handshake(sl, sn); err != nil {
		t.Errorf("SL-2 calls SN-1: %v", err)
	}
	domains, err := identity.DomainsOf(sn)
	if err != nil {
		t.Fatal(err)
	}
	if id, err := domains.Check(sl.ID().SPIFFE(), identity.RoleSL); err != nil || id != sl.ID() {
		t.Errorf("SN-1 takes SL-2 for %s, %v", id, err)
	}
	if names := domains.Names(); len(names) != 2 || names[0] != sn.ID().SPIFFE().TrustDomain().Name() {
		t.Errorf("SN-1 accepts %v, want its own trust domain and the other CA's", names)
	}
	if _, err := domains.Check(certsID(t, stranger)); err == nil {
		t.Error("a CA that was not given is accepted")
	}
}

func certsID(t *testing.T, a *authority) spiffeid.ID {
	t.Helper()
	id, _, err := certs.OriginalID(a.original("SL-9").chain, []*x509.Certificate{a.cert})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestOriginalCAs: a CA that is added counts without a restart, one that is taken away no longer.
func TestOriginalCAs(t *testing.T) {
	one, two := newAuthority(t, "one"), newAuthority(t, "two")
	cfg := files(t, one.original("SN-1"), one.cert)
	s := open(t, cfg)
	domains, err := identity.DomainsOf(s)
	if err != nil {
		t.Fatal(err)
	}
	peer := two.original("SL-1")
	for _, known := range []bool{false, true, false} {
		list := []*x509.Certificate{one.cert}
		if known {
			list = append(list, two.cert)
		}
		write(t, cfg.CACert, pemOf(list...))
		until(t, s, "the CAs", func() bool { return len(domains.Names()) == len(list) })
		id, err := identity.VerifyChain(s, peer.chain)
		if known != (err == nil) {
			t.Errorf("second CA given %v: verified as %s, %v", known, id, err)
		}
		if err == nil {
			if _, err := domains.Check(id); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestOriginalRenewed: a CA certificate that is made anew with its key stands for the same trust domain, beside the old one and alone.
func TestOriginalRenewed(t *testing.T) {
	ca := newAuthority(t, "ca")
	template := caTemplate(t, "ca")
	renewed := signWith(t, template, template, ca.key.Public(), ca.key)
	cfg := files(t, ca.original("SN-1"), ca.cert)
	s := open(t, cfg)
	before := s.ID()
	peer := ca.original("SL-1")
	for i, list := range [][]*x509.Certificate{{ca.cert, renewed}, {renewed}} {
		write(t, cfg.CACert, pemOf(list...))
		until(t, s, "the CAs", func() bool {
			b, err := s.GetX509BundleForTrustDomain(before.SPIFFE().TrustDomain())
			return err == nil && len(b.X509Authorities()) == len(list) && b.HasX509Authority(renewed)
		})
		id, err := identity.VerifyChain(s, peer.chain)
		if own, ownErr := identity.VerifyChain(s, ca.original("SN-1").chain); ownErr != nil || own != before.SPIFFE() || s.ID() != before {
			t.Errorf("%d: SN-1 is %s, %v; it was %s", i, own, ownErr, before)
		}
		if err != nil || id.TrustDomain() != before.SPIFFE().TrustDomain() {
			t.Errorf("%d: SL-1 is %s, %v", i, id, err)
		}
	}
}

// TestOriginalManyCAs: each is a trust domain, and the ledger has room for so many.
func TestOriginalManyCAs(t *testing.T) {
	ca := newAuthority(t, "ca")
	list := []*x509.Certificate{ca.cert}
	for range 64 {
		list = append(list, newAuthority(t, "ca").cert)
	}
	open(t, files(t, ca.original("SN-1"), list[:64]...))
	if _, err := certs.OpenFiles(t.Context(), files(t, ca.original("SN-1"), list...)); err == nil || !strings.Contains(err.Error(), "at most 64 are taken") {
		t.Errorf("65 CAs: %v", err)
	}
}

// TestOriginalRefuses: what does not have exactly the form of gen-cert's certificates is refused, whoever signed it.
func TestOriginalRefuses(t *testing.T) {
	ca := newAuthority(t, "ca")
	other := newAuthority(t, "ca")
	node := open(t, files(t, ca.original("SN-1"), ca.cert))
	sub := &authority{tb: t, key: newKey(t, "")}
	sub.cert = signWith(t, caTemplate(t, "sub"), ca.cert, sub.key.Public(), ca.key)
	sl1 := ca.original("SL-1")
	through := &authority{t, sl1.chain[0], sl1.key}
	chained := func(l leaf, up ...*x509.Certificate) leaf { return leaf{append(slices.Clone(l.chain), up...), l.key} }
	uri := newAuthority(t, "ca", "spiffe://td")
	for name, tt := range map[string]struct {
		peer leaf
		want string
	}{
		"another CA of that name":  {other.original("SL-1"), "is not signed by one of the CA certificates given"},
		"a SPIFFE ID":              {ca.issue("", "SL-1", "spiffe://td/swarm/sl"), "both sides must use the same kind"},
		"another URI":              {ca.issue("", "SL-1", "https://x"), "both sides must use the same kind"},
		"a URI above":              {chained(ca.original("SL-1"), uri.cert), "both sides must use the same kind"},
		"lower case":               {ca.original("sl-1"), "is not one of the original's gen-cert"},
		"no number":                {ca.original("SL-a"), "is not one of"},
		"zero":                     {ca.original("SL-0"), "is not one of"},
		"a leading zero":           {ca.original("SL-01"), "is not one of"},
		"a long number":            {ca.original("SL-1234567"), "is not one of"},
		"more behind it":           {ca.original("SL-1\n"), "is not one of"},
		"another role":             {ca.original("DB-1"), "is not one of"},
		"a CA's own":               {leaf{[]*x509.Certificate{signWith(t, caTemplate(t, "SN-1"), ca.cert, ca.key.Public(), ca.key)}, ca.key}, "is a CA's"},
		"signed by a node":         {chained(through.original("SN-2"), sl1.chain[0]), "is not signed by one of"},
		"through an intermediate":  {chained(sub.original("SL-1"), sub.cert), "needs --cert-roles cn"},
		"signed by the other's CA": {leaf{[]*x509.Certificate{other.original("SL-1").chain[0], ca.cert}, other.key}, "is not signed by one of"},
		"expired": {ca.issue("", "SL-1", "", func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(2*hourAgo), time.Now().Add(hourAgo)
		}), "has expired"},
		"two CNs": {ca.issue("", "", "", func(c *x509.Certificate) {
			cn := asn1.ObjectIdentifier{2, 5, 4, 3}
			c.Subject = pkix.Name{ExtraNames: []pkix.AttributeTypeAndValue{{Type: cn, Value: "SN-1"}, {Type: cn, Value: "SL-1"}}}
		}), "2 CNs"},
	} {
		if id, err := identity.VerifyChain(node, tt.peer.chain); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: accepted as %q, error %v lacks %q", name, id, err, tt.want)
		}
	}
	if _, err := certs.OpenFiles(t.Context(), files(t, sl1, ca.cert, uri.cert)); err == nil || !strings.Contains(err.Error(), "only CAs that name none are trusted") {
		t.Errorf("a CA of a trust domain beside the original's: %v", err)
	}
	plain := open(t, files(t, ca.issue("", "x", "spiffe://td/swarm/sn"), ca.cert))
	claims := "spiffe://" + certs.CADomain(ca.cert).Name() + "/swarm/sn"
	if id, err := identity.VerifyChain(plain, ca.issue("", "x", claims).chain); err == nil {
		t.Errorf("a certificate that claims to be the original's is taken for %s", id)
	}
	if err := handshake(plain, node); err == nil || !strings.Contains(err.Error(), "names no SPIFFE ID") {
		t.Errorf("a certificate of each kind: %v", err)
	}
}

// TestOriginalOff: any word on roles or trust domains turns it off.
func TestOriginalOff(t *testing.T) {
	ca := newAuthority(t, "ca")
	for name, change := range map[string]func(*certs.FilesConfig){
		"--trust-domain":      func(c *certs.FilesConfig) { c.TrustDomains = []string{"partner"} },
		"--cert-roles spiffe": func(c *certs.FilesConfig) { c.Roles = "spiffe" },
	} {
		cfg := files(t, ca.original("SL-1"), ca.cert)
		change(&cfg)
		if _, err := certs.OpenFiles(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "names no SPIFFE ID") {
			t.Errorf("%s: %v", name, err)
		}
	}
	cfg := files(t, ca.original("SL-1"), ca.cert)
	cfg.Roles = "cn"
	if got := open(t, cfg).ID().SPIFFE().TrustDomain().Name(); got != identity.CNDomain {
		t.Errorf("--cert-roles cn: trust domain %s", got)
	}
}

// TestOriginalDirectory reads --capath as gen-cert fills it.
func TestOriginalDirectory(t *testing.T) {
	one, two := newAuthority(t, "ca"), newAuthority(t, "ca")
	cfg := files(t, one.original("SWCI-1"), one.cert)
	dir := filepath.Join(t.TempDir(), "capath")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "ca-1-cert.pem"), pemOf(one.cert))
	write(t, filepath.Join(dir, "ca-2-cert.pem"), pemOf(two.cert))
	cfg.CACert, cfg.CAPath = filepath.Join(dir, "ca-1-cert.pem"), dir // gen-cert's users give both
	s := open(t, cfg)
	if _, err := identity.VerifyChain(s, two.original("SN-2").chain); err != nil {
		t.Error(err)
	}
}
