package dashboard_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/swarmd/swarmd/internal/swci/dashboard"
)

// serveTLS starts a dashboard with a certificate, and returns its addresses and what trusts it.
func serveTLS(t *testing.T, s *swarm) (invited chan string, trusts *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	trusts = x509.NewCertPool()
	trusts.AddCert(leaf)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	invited = make(chan string, 100)
	d := dashboard.New(dashboard.Config{
		Documents: s, Hosts: []string{ln.Addr().String()}, Certificate: &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, Now: time.Now,
		Invite: func(address string) { invited <- address }, Page: fstest.MapFS{"index.html": {Data: []byte("the page")}},
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Serve(ctx, ln) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return invited, trusts
}

// TestPagesShareAConnection: with TLS a browser speaks HTTP/2, by which it has more pages than it opens connections. Strangers, whichever
// protocol they speak, take it from nobody.
func TestPagesShareAConnection(t *testing.T) {
	s := &swarm{value: `{"a":1}`}
	invited, trusts := serveTLS(t, s)
	address, c := <-invited, browser(t)
	base, _, _ := strings.Cut(address, "/?")
	page := c.Transport.(*pageKeys)
	page.TLSClientConfig, page.ForceAttemptHTTP2, page.MaxConnsPerHost = &tls.Config{RootCAs: trusts}, true, 1
	crowd := func(protocol, says string) {
		for range 70 {
			conn, err := tls.Dial("tcp", strings.TrimPrefix(base, "https://"), &tls.Config{RootCAs: trusts, NextProtos: []string{protocol}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			if got := conn.ConnectionState().NegotiatedProtocol; got != protocol {
				t.Fatalf("%s became %s", protocol, got)
			}
			if _, err := io.WriteString(conn, says); err != nil {
				t.Fatal(err)
			}
		}
	}
	crowd("h2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00") // the preface and empty settings
	res, err := c.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil || string(body) != "the page" || res.ProtoMajor != 2 {
		t.Fatalf("%s %q, %v", res.Proto, body, err)
	}
	var pages []<-chan string
	for range 16 { // by one connection, which is all that the client may open
		pages = append(pages, follow(t, c, base+"/api/stream?watch=nodes"))
	}
	for _, events := range pages {
		until(t, events, "doc", `{"a":1}`)
	}
	crowd("h2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	crowd("http/1.1", "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	s.set(func() { s.value = `{"a":2}` })
	for _, events := range pages {
		until(t, events, "doc", `{"a":2}`)
	}
	if status, _, _ := get(t, c, base+"/api/doc/nodes"); status != http.StatusOK {
		t.Errorf("a document beside 16 streams: %d", status)
	}
}
