package certs_test

import (
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/certs"
)

const hourAgo = -time.Hour

func TestOpenFilesReadsEveryKindOfKey(t *testing.T) {
	ca := newAuthority(t, "ca")
	for _, kind := range []string{"rsa", "ecdsa", "ed25519"} {
		l := ca.issue(kind, "x", "spiffe://td/swarm/sl/a")
		cfg := files(t, l, ca.cert)
		cfg.Role, cfg.Name = identity.RoleSL, "a"
		s := open(t, cfg)
		if got := s.ID().String(); got != "spiffe://td/swarm/sl/a" {
			t.Errorf("%s: ID %q", kind, got)
		}
		if err := handshake(s, s); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		svid, err := s.GetX509SVID()
		if err != nil {
			t.Fatal(err)
		}
		sig, err := identity.SignWithSVID(svid, []byte("m"))
		if err != nil || identity.VerifySVIDSignature(svid.Certificates[0], []byte("m"), sig) != nil {
			t.Errorf("%s: its signature does not verify: %v", kind, err)
		}
	}
	// The older forms of keys, beside the parameters that openssl writes before them.
	ec, rsaKey := ca.issue("ecdsa", "x", "spiffe://td/swarm/sl"), ca.issue("rsa", "x", "spiffe://td/swarm/sl")
	sec1, err := x509.MarshalECPrivateKey(ec.key.(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		l   leaf
		pem []byte
	}{
		{ec, append(pem.EncodeToMemory(&pem.Block{Type: "EC PARAMETERS", Bytes: []byte{6, 8, 42, 134, 72, 206, 61, 3, 1, 7}}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: sec1})...)},
		{rsaKey, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(rsaKey.key.(*rsa.PrivateKey))})},
	} {
		cfg := files(t, tt.l, ca.cert)
		write(t, cfg.Key, tt.pem)
		open(t, cfg)
	}
}

// TestOpenFilesRefuses holds every way in which files can be wrong, and that the error names the remedy.
func TestOpenFilesRefuses(t *testing.T) {
	ca, other := newAuthority(t, "ca"), newAuthority(t, "other")
	good := ca.issue("", "x", "spiffe://td/swarm/sl/a")
	with := func(l leaf, change func(*certs.FilesConfig)) certs.FilesConfig {
		cfg := files(t, l, ca.cert)
		if change != nil {
			change(&cfg)
		}
		return cfg
	}
	spoil := func(cfg certs.FilesConfig, path func(certs.FilesConfig) string, data []byte) certs.FilesConfig {
		write(t, path(cfg), data)
		return cfg
	}
	certOf := func(c certs.FilesConfig) string { return c.Cert }
	keyOf := func(c certs.FilesConfig) string { return c.Key }
	caOf := func(c certs.FilesConfig) string { return c.CACert }
	caOnly := func(a *authority) []byte { return pemOf(a.cert) }
	uris := func(texts ...string) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.URIs = parseURIs(t, texts) }
	}
	remade := newAuthority(t, "ca")
	for name, tt := range map[string]struct {
		cfg  certs.FilesConfig
		want []string
	}{
		"no cert":             {with(good, func(c *certs.FilesConfig) { c.Cert = "" }), []string{"--cert is missing"}},
		"no key":              {with(good, func(c *certs.FilesConfig) { c.Key = "" }), []string{"--key is missing"}},
		"no CA":               {with(good, func(c *certs.FilesConfig) { c.CACert = "" }), []string{"--cacert or --capath"}},
		"roles":               {with(good, func(c *certs.FilesConfig) { c.Roles = "dn" }), []string{"--cert-roles", "spiffe or cn"}},
		"missing cert":        {with(good, func(c *certs.FilesConfig) { c.Cert += "x" }), []string{"--cert: bad file", "does not exist"}},
		"missing dir":         {with(good, func(c *certs.FilesConfig) { c.CAPath = "/nonexistent" }), []string{"--capath: bad directory /nonexistent"}},
		"dir is a file":       {with(good, func(c *certs.FilesConfig) { c.CAPath = c.CACert }), []string{"--capath: bad directory"}},
		"cert is a directory": {with(good, func(c *certs.FilesConfig) { c.Cert = filepath.Dir(c.Cert) }), []string{"--cert: bad file", "no regular file"}},
		"empty dir":           {with(good, func(c *certs.FilesConfig) { c.CACert, c.CAPath = "", t.TempDir() }), []string{"--capath: bad directory", "no file in it"}},
		"cert is no PEM":      {spoil(with(good, nil), certOf, []byte("hello")), []string{"--cert: bad file", "no certificate"}},
		"half a cert":         {spoil(with(good, nil), certOf, pemOf(good.chain...)[:300]), []string{"--cert: bad file", "not whole"}},
		"half of two CAs":     {spoil(with(good, nil), caOf, pemOf(ca.cert, other.cert)[:len(pemOf(ca.cert))+100]), []string{"--cacert: bad file", "not whole"}},
		"no key in file":      {spoil(with(good, nil), keyOf, pemOf(good.chain...)), []string{"--key: bad file", "no private key"}},
		"huge cert":           {spoil(with(good, nil), certOf, make([]byte, 300<<10)), []string{"--cert: bad file", "too large"}},
		"encrypted key":       {spoil(with(good, nil), keyOf, pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte{1}})), []string{"encrypted", "openssl pkey"}},
		"two keys":            {spoil(with(good, nil), keyOf, append(keyPEM(t, good.key), keyPEM(t, other.key)...)), []string{"more than one private key"}},
		"another's key":       {spoil(with(good, nil), keyOf, keyPEM(t, other.key)), []string{"--key: bad file", "not the key of the certificate"}},
		"CA first":            {spoil(with(good, nil), certOf, pemOf(other.cert, good.chain[0])), []string{"must stand first"}},
		"CA is a leaf":        {spoil(with(good, nil), caOf, pemOf(good.chain...)), []string{"--cacert: bad file", "no CA certificate"}},
		"another CA":          {spoil(with(good, nil), caOf, caOnly(other)), []string{"not signed by an authority", "the issuer is \"CN=ca\"", "CN=other"}},
		"CA made anew":        {spoil(with(good, nil), caOf, caOnly(remade)), []string{"not signed by an authority", "same name", "another key"}},
		"other role":          {with(good, func(c *certs.FilesConfig) { c.Role = identity.RoleSN }), []string{"for the role sl, this node is of the role sn"}},
		"other name":          {with(good, func(c *certs.FilesConfig) { c.Name = "b" }), []string{`for the node "a"`, `"b"`, "--name a"}},
		"expired": {
			with(ca.issue("", "x", "spiffe://td/swarm/sl", func(c *x509.Certificate) {
				c.NotBefore, c.NotAfter = time.Now().Add(2*hourAgo), time.Now().Add(hourAgo)
			}), nil),
			[]string{"has expired", "this machine's clock says", "at least 1h0m"},
		},
		"not valid yet": {
			with(ca.issue("", "x", "spiffe://td/swarm/sl", func(c *x509.Certificate) { c.NotBefore = time.Now().Add(2 * time.Hour) }), nil),
			[]string{"not valid yet", "this machine's clock says", "at least 1h59m"},
		},
		"two SPIFFE IDs":       {with(ca.issue("", "x", "", uris("spiffe://td/swarm/sl", "spiffe://td/swarm/sn")), nil), []string{"two SPIFFE IDs", "swarm/sn"}},
		"other URI":            {with(ca.issue("", "x", "https://td/swarm/sl"), nil), []string{"is no SPIFFE ID"}},
		"other path":           {with(ca.issue("", "x", "spiffe://td/db"), nil), []string{"no swarm identity"}},
		"no SPIFFE ID":         {with(ca.original("hospital-1"), nil), []string{"names no SPIFFE ID", "--cert-roles cn"}},
		"reserved domain":      {with(ca.issue("", "x", "spiffe://"+identity.CNDomain+"/swarm/sl"), nil), []string{identity.CNDomain}},
		"SPIFFE ID in CN mode": {with(ca.issue("", "SL-1", "spiffe://td/swarm/sl"), func(c *certs.FilesConfig) { c.Roles = "cn" }), []string{"names the SPIFFE ID", "--cert-roles cn"}},
		"CN without role":      {with(ca.original("hospital-1"), func(c *certs.FilesConfig) { c.Roles = "cn" }), []string{"names no role", "SWOP-"}},
		"CN of another role":   {with(ca.original("SN-1"), func(c *certs.FilesConfig) { c.Roles, c.Role = "cn", identity.RoleSL }), []string{"for the role sn"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := certs.OpenFiles(t.Context(), tt.cfg)
			if err == nil {
				_ = s.Close()
				t.Fatal("it is accepted")
			}
			for _, w := range tt.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error %q lacks %q", err, w)
				}
			}
		})
	}
}

func TestKeyThatOthersMayRead(t *testing.T) {
	ca := newAuthority(t, "ca")
	cfg := files(t, ca.issue("", "x", "spiffe://td/swarm/sl"), ca.cert)
	if err := os.Chmod(cfg.Key, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := certs.OpenFiles(t.Context(), cfg)
	if err == nil || !strings.Contains(err.Error(), "run chmod 0600 "+cfg.Key) {
		t.Errorf("key of mode 0644: %v", err)
	}
	if err := os.Chmod(cfg.Key, 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, cfg)
}

func TestCADirectory(t *testing.T) {
	a, b := newAuthority(t, "a"), newAuthority(t, "b")
	cfg := files(t, a.issue("", "x", "spiffe://td/swarm/sl"), a.cert)
	dir := t.TempDir()
	for name, data := range map[string][]byte{"one.pem": pemOf(a.cert), "two.crt": pemOf(b.cert), "again.pem": pemOf(b.cert), "README": []byte("no certificate"), ".hidden": []byte("-----BEGIN CERTIFICATE-----\n")} {
		write(t, filepath.Join(dir, name), data)
	}
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	cfg.CACert, cfg.CAPath = "", dir
	s := open(t, cfg)
	peer := open(t, files(t, b.issue("", "x", "spiffe://td/swarm/sn"), a.cert, b.cert))
	if err := handshake(s, peer); err != nil {
		t.Error(err)
	}
	bundle, err := s.GetX509BundleForTrustDomain(spiffeid.RequireTrustDomainFromString("td"))
	if err != nil || len(bundle.X509Authorities()) != 2 {
		t.Errorf("bundle %v, %v", bundle, err)
	}
}

// handshake is one mutual TLS handshake with a byte each way; the error is of the side that says more.
func handshake(client, server identity.Source) error {
	a, b, err := socketPair()
	if err != nil {
		return err
	}
	defer a.Close()
	defer b.Close()
	served := make(chan error, 1)
	go func() {
		conn := tls.Server(b, identity.MutualTLS(server, nil))
		_, err := io.CopyN(conn, conn, 1)
		_ = b.Close()
		served <- err
	}()
	conn := tls.Client(a, identity.MutualTLS(client, nil))
	_, err = conn.Write([]byte{1})
	if err == nil {
		_, err = io.ReadFull(conn, make([]byte, 1))
	}
	_ = a.Close()
	if serr := <-served; err != nil && serr != nil && strings.Contains(err.Error(), "remote error") {
		return serr
	}
	return err
}

func socketPair() (client, server net.Conn, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	if client, err = net.Dial("tcp", l.Addr().String()); err != nil {
		return nil, nil, err
	}
	if server, err = l.Accept(); err != nil {
		_ = client.Close()
		return nil, nil, err
	}
	return client, server, nil
}

// TestPeers holds who accepts whom between sources of files, and in which words not.
func TestPeers(t *testing.T) {
	ca := newAuthority(t, "ca")
	tdA, tdB := newAuthority(t, "a", "spiffe://a"), newAuthority(t, "b", "spiffe://b")
	inter := func(root *authority, uris ...string) *authority {
		sub := &authority{tb: t, key: newKey(t, "")}
		sub.cert = signWith(t, caTemplate(t, "intermediate", uris...), root.cert, sub.key.Public(), root.key)
		return sub
	}
	chained := func(l leaf, up ...*x509.Certificate) leaf { return leaf{append(l.chain, up...), l.key} }
	spiffe := func(l leaf, cas ...*x509.Certificate) *certs.FileSource { return open(t, files(t, l, cas...)) }
	cn := func(l leaf, cas ...*x509.Certificate) *certs.FileSource {
		cfg := files(t, l, cas...)
		cfg.Roles = "cn"
		return open(t, cfg)
	}
	sl1 := ca.original("SL-1")
	slSigner := &authority{t, sl1.chain[0], sl1.key}
	fake := chained(slSigner.original("SN-1"), sl1.chain[0])
	ofB, sub := inter(ca, "spiffe://b"), inter(ca)
	node := spiffe(ca.issue("", "x", "spiffe://a/swarm/sn"), ca.cert)
	nodeA := spiffe(tdA.issue("", "x", "spiffe://a/swarm/sn"), tdA.cert, tdB.cert)
	nodeCN := cn(ca.original("SN-1"), ca.cert)
	for name, tt := range map[string]struct {
		us   identity.Source
		peer leaf
		want string // "" accepts
	}{
		"same CA":                        {node, ca.issue("", "x", "spiffe://a/swarm/sl/x"), ""},
		"intermediate":                   {node, chained(sub.issue("", "x", "spiffe://a/swarm/sl"), sub.cert), ""},
		"another of its name":            {node, chained(sub.issue("", "x", "spiffe://a/swarm/sl"), inter(ca).cert), "not signed"},
		"intermediate of another domain": {node, chained(ofB.issue("", "x", "spiffe://a/swarm/sl"), ofB.cert), "authority of another trust domain"},
		"two SPIFFE IDs": {node, ca.issue("", "x", "", func(c *x509.Certificate) {
			c.URIs = parseURIs(t, []string{"spiffe://a/swarm/sl", "spiffe://a/swarm/sn"})
		}), "two SPIFFE IDs"},
		"expired": {node, ca.issue("", "x", "spiffe://a/swarm/sl", func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(2*hourAgo), time.Now().Add(hourAgo)
		}), "clocks differ by at least 1h"},
		"not valid yet":                    {node, ca.issue("", "x", "spiffe://a/swarm/sl", func(c *x509.Certificate) { c.NotBefore = time.Now().Add(2 * time.Hour) }), "not valid yet"},
		"unknown domain":                   {node, tdB.issue("", "x", "spiffe://b/swarm/sl"), "--trust-domain b"},
		"other CA":                         {node, tdB.issue("", "x", "spiffe://a/swarm/sl"), `the issuer is "CN=b"`},
		"CA that names its domain":         {nodeA, tdB.issue("", "x", "spiffe://b/swarm/sl"), ""},
		"CA speaks for another domain":     {nodeA, tdB.issue("", "x", "spiffe://a/swarm/sl"), "not signed"},
		"no SPIFFE ID":                     {node, ca.original("SL-1"), "--cert-roles cn"},
		"leaf may sign":                    {node, ca.issue("", "x", "spiffe://a/swarm/sl", func(c *x509.Certificate) { c.KeyUsage |= x509.KeyUsageCertSign }), "KeyCertSign"},
		"the reserved domain":              {node, ca.issue("", "x", "spiffe://"+identity.CNDomain+"/swarm/sl"), "stands for certificates without"},
		"CN: as the original makes":        {nodeCN, ca.original("SL-2"), ""},
		"CN: with a SPIFFE ID":             {nodeCN, ca.issue("", "SL-1", "spiffe://a/swarm/sl"), "--cert-roles cn"},
		"CN: with the reserved domain":     {nodeCN, ca.issue("", "SL-1", "spiffe://"+identity.CNDomain+"/swarm/sn"), "both sides must use the same kind"},
		"CN: with another URI":             {nodeCN, ca.issue("", "SL-1", "https://a.example"), "both sides must use the same kind"},
		"CN: no role":                      {nodeCN, ca.original("DB-1"), "names no role"},
		"CN: signed by a node":             {nodeCN, fake, "not signed"},
		"CN: through a domain's authority": {nodeCN, chained(ofB.original("SL-1"), ofB.cert), "another trust domain"},
		"CN: a CA itself":                  {nodeCN, leaf{[]*x509.Certificate{signWith(t, caTemplate(t, "SN-ca"), ca.cert, ca.key.Public(), ca.key)}, ca.key}, "is a CA's"},
		"CN: two CNs": {nodeCN, ca.issue("", "", "", func(c *x509.Certificate) {
			c.Subject = pkix.Name{ExtraNames: []pkix.AttributeTypeAndValue{{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "SL-1"}, {Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "SN-1"}}}
		}), "2 CNs"},
		"CN: other CA": {nodeCN, tdB.original("SL-1"), "not signed"},
		"CN: expired": {nodeCN, ca.issue("", "SL-1", "", func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(2*hourAgo), time.Now().Add(hourAgo)
		}), "has expired"},
	} {
		t.Run(name, func(t *testing.T) {
			id, err := identity.VerifyChain(tt.us, tt.peer.chain)
			switch {
			case tt.want == "" && (err != nil || id.IsZero()):
				t.Errorf("refused: %v", err)
			case tt.want != "" && err == nil:
				t.Errorf("accepted as %s", id)
			case tt.want != "" && !strings.Contains(err.Error(), tt.want):
				t.Errorf("error %q lacks %q", err, tt.want)
			}
		})
	}
	if id, err := identity.VerifyChain(nodeCN, ca.original("SWOP-1").chain); err != nil || id.String() != "spiffe://"+identity.CNDomain+"/swarm/swop" {
		t.Errorf("SWOP-1 stands for %s, %v", id, err)
	}
	slCN := cn(ca.original("SL-2"), ca.cert)
	if err := handshake(slCN, nodeCN); err != nil {
		t.Error(err)
	}
	for _, pair := range [][2]identity.Source{{node, nodeCN}, {nodeCN, node}} {
		if err := handshake(pair[0], pair[1]); err == nil || !strings.Contains(err.Error(), "--cert-roles cn") {
			t.Errorf("CN roles on one side only: %v", err)
		}
	}
}

func TestCAsOfCNRolesNameNoDomain(t *testing.T) {
	td := newAuthority(t, "td", "spiffe://td")
	cfg := files(t, td.original("SL-1"), td.cert)
	cfg.Roles = "cn"
	if _, err := certs.OpenFiles(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "cert init --cn-roles") {
		t.Errorf("CA of a trust domain in CN mode: %v", err)
	}
	for _, uri := range []string{"spiffe://td/path", "https://td", "spiffe://" + identity.CNDomain} {
		odd := newAuthority(t, "odd", uri)
		if _, err := certs.OpenFiles(t.Context(), files(t, odd.issue("", "x", "spiffe://td/swarm/sl"), odd.cert)); err == nil {
			t.Errorf("CA with URI %s is taken", uri)
		}
	}
}

func TestForeignDomainsOfCAs(t *testing.T) {
	a, plain := newAuthority(t, "a", "spiffe://a"), newAuthority(t, "plain")
	cfg := files(t, a.issue("", "x", "spiffe://a/swarm/sn"), a.cert, plain.cert)
	cfg.TrustDomains = []string{"partner"}
	s := open(t, cfg)
	for uri, ok := range map[string]bool{"spiffe://partner/swarm/sl": true, "spiffe://a/swarm/sl": true, "spiffe://stranger/swarm/sl": false} {
		if _, err := identity.VerifyChain(s, plain.issue("", "x", uri).chain); (err == nil) != ok {
			t.Errorf("CA without domain for %s: %v", uri, err)
		}
	}
	if _, err := identity.VerifyChain(s, a.issue("", "x", "spiffe://partner/swarm/sl").chain); err == nil {
		t.Error("the CA of a speaks for partner")
	}
}

func TestPrefixOfSPIFFEIDs(t *testing.T) {
	ca := newAuthority(t, "ca")
	prefix, err := identity.ParsePrefix("/")
	if err != nil {
		t.Fatal(err)
	}
	with := func(uri string) certs.FilesConfig {
		cfg := files(t, ca.issue("", "SL-1", uri), ca.cert)
		cfg.Prefix = prefix
		return cfg
	}
	node := open(t, with("spiffe://td/sl"))
	if got := node.ID().String(); got != "spiffe://td/swarm/sl" {
		t.Errorf("spiffe://td/sl is read as %s", got)
	}
	if err := handshake(open(t, with("spiffe://td/sn")), node); err != nil {
		t.Error(err)
	}
	for _, uri := range []string{"spiffe://td/swarm/sn", "spiffe://td/db", ""} {
		if _, err := certs.OpenFiles(t.Context(), with(uri)); err == nil {
			t.Errorf("%q is taken with --spiffe-prefix /", uri)
		}
	}
}
