package swci_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/p2p/p2ptest"
	"github.com/swarmd/swarmd/internal/rpc"
	"github.com/swarmd/swarmd/internal/rpc/rpctest"
	"github.com/swarmd/swarmd/internal/swci"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// provider makes a provider of a source in memory.
type provider struct{ *rpctest.Source }

var _ identity.Provider = provider{}

func (p provider) ID() identity.ID {
	svid, err := p.GetX509SVID()
	if err != nil {
		panic(err)
	}
	id, err := identity.ParseID(svid.ID)
	if err != nil {
		panic(err)
	}
	return id
}

func (p provider) Status() identity.Status {
	svid, err := p.GetX509SVID()
	if err != nil {
		panic(err)
	}
	st := identity.Status{Origin: "memory", ID: p.ID(), NotBefore: svid.Certificates[0].NotBefore, NotAfter: svid.Certificates[0].NotAfter}
	for _, b := range p.Bundles() {
		st.Domains = append(st.Domains, b.TrustDomain().Name())
	}
	return st
}

func (provider) Changed() <-chan struct{} { return nil }
func (provider) Close() error             { return nil }

func authority(t *testing.T, domain string) *rpctest.Authority {
	t.Helper()
	a, err := rpctest.NewAuthority(domain)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func issue(t *testing.T, a *rpctest.Authority, path string, life time.Duration, others ...*rpctest.Authority) provider {
	t.Helper()
	s, err := a.Issue(path, life, others...)
	if err != nil {
		t.Fatal(err)
	}
	return provider{s}
}

// api serves an SN's API with this identity, trusting its own domain and the extra ones.
func api(t *testing.T, source provider, healthy bool, extra ...string) string {
	t.Helper()
	core, err := rpctest.NewCore("5eed", "sn-0")
	if err != nil {
		t.Fatal(err)
	}
	srv, err := rpc.New(rpc.Config{
		Name: "sn-0", Core: core, Lead: &rpctest.Lead{}, Caller: rpc.TLSCaller(source), Log: slog.New(slog.DiscardHandler),
		Health: func() *swarmv1.NodeHealth {
			return &swarmv1.NodeHealth{Healthy: healthy, Reason: "it has a cold", UntilUnixMs: time.Now().Add(time.Hour).UnixMilli()}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	domains, err := identity.NewDomains(source.ID().SPIFFE().TrustDomain(), extra...)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ctx, ln, rpc.TLSConfig(source, domains)) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

// port accepts connections, sends each a greeting and hangs up.
func port(t *testing.T, greeting string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, greeting)
			_ = c.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		_ = ln.Close()
		<-done
	})
	return ln.Addr().String()
}

func closedPort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// checked is what a check came to.
type checked struct {
	OK    bool
	Steps []struct {
		Step   string
		OK     bool
		Detail string
	}
	Peer *map[string]any
	err  error
	text string
}

// failed is the failed steps' names.
func (c checked) failed() string {
	var out []string
	for _, s := range c.Steps {
		if !s.OK {
			out = append(out, s.Step)
		}
	}
	return strings.Join(out, ",")
}

// command runs a command about an identity as this one, accepting the extra trust domains.
func command(t *testing.T, as provider, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	home := t.TempDir()
	env := swci.Env{
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: io.Discard, Now: time.Now, IsTerminal: func(io.Writer) bool { return false },
		Getenv: func(k string) string {
			return map[string]string{"XDG_STATE_HOME": home, "SWARM_IDENTITY": "/run/agent.sock"}[k]
		},
	}
	s := &swci.Session{Env: env, Identify: func(_ context.Context, target swci.Context) (identity.Provider, identity.Domains, error) {
		domains, err := identity.NewDomains(as.ID().SPIFFE().TrustDomain(), target.TrustDomains...)
		return as, domains, err
	}}
	err := swci.Execute(t.Context(), args, s)
	return out.String(), err
}

func check(t *testing.T, as provider, address string, options ...string) checked {
	t.Helper()
	out, err := command(t, as, append([]string{"identity", "check", address, "-o", "json"}, options...)...)
	var c checked
	if jsonErr := json.Unmarshal([]byte(out), &c); jsonErr != nil {
		t.Fatalf("%v, %v\n%s", err, jsonErr, out)
	}
	c.err, c.text = err, out
	if c.OK != (err == nil) || c.OK != (c.failed() == "") || !c.OK && exit.Code(err) != exit.Failed {
		t.Errorf("%s: ok is %v, error %v, failed steps %q", address, c.OK, err, c.failed())
	}
	return c
}

func (c checked) wants(t *testing.T, name, failed string, texts ...string) {
	t.Helper()
	if c.failed() != failed {
		t.Errorf("%s: failed at %q, want %q\n%s", name, c.failed(), failed, c.text)
	}
	for _, text := range texts {
		if !strings.Contains(c.text, text) {
			t.Errorf("%s: it does not say %q:\n%s", name, text, c.text)
		}
	}
}

func TestIdentityCheckOfAnAPI(t *testing.T) {
	home, abroad, stranger := authority(t, "home.example"), authority(t, "abroad.example"), authority(t, "home.example")
	us := issue(t, home, "/swarm/swci", time.Hour, abroad)
	check(t, us, api(t, issue(t, home, "/swarm/sn/sn-0", time.Hour), true)).wants(t, "well", "",
		"spiffe://home.example/swarm/sn/sn-0", `"role": "sn"`, `"swarm_id": "5eed"`, "as the API of an SN", "healthy until 20", `"peer_id": ""`)
	check(t, us, api(t, issue(t, home, "/swarm/sn", time.Hour), false)).wants(t, "unhealthy", "health", "unhealthy: it has a cold")
	check(t, us, api(t, issue(t, stranger, "/swarm/sn", time.Hour), true)).wants(t, "another authority", "accepted here",
		"not signed by an authority", `"spiffe_id": "spiffe://home.example/swarm/sn"`, `"issuer": "CN=home.example"`)
	check(t, us, api(t, issue(t, home, "/swarm/sn", -30*time.Minute), true)).wants(t, "expired", "certificate,accepted here",
		"has expired", "clocks differ by at least 30m")
	foreign := api(t, issue(t, abroad, "/swarm/sn", time.Hour, home), true, "home.example")
	check(t, us, foreign).wants(t, "foreign trust domain", "accepted here", "trust domain of", "--trust-domain")
	check(t, us, foreign, "--trust-domain", "abroad.example").wants(t, "accepted foreign trust domain", "")
	check(t, us, api(t, issue(t, abroad, "/swarm/sn", time.Hour, home), true), "--trust-domain", "abroad.example").wants(t, "foreign trust domain that refuses us",
		"accepted there", "--trust-domain home.example")
	check(t, us, api(t, issue(t, home, "/swarm/sl", time.Hour), true)).wants(t, "role", "role", "sl: clients of an API accept the role sn only")
	check(t, issue(t, home, "/swarm/swci", -30*time.Second), api(t, issue(t, home, "/swarm/sn", time.Hour), true)).wants(t, "our own expired",
		"identity,accepted there", "our certificate has expired", "we accept it", "not tried")
	check(t, issue(t, home, "/swarm/swci", time.Hour), api(t, issue(t, abroad, "/swarm/sn", time.Hour), true), "--trust-domain=abroad.example").wants(t,
		"no CA of an accepted domain", "accepted here", "abroad.example")
}

// A proxy that routes by the name in the TLS hello must find it there.
func TestIdentityCheckNamesTheHost(t *testing.T) {
	us := issue(t, authority(t, "home.example"), "/swarm/swci", time.Hour)
	named := make(chan string, 1)
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		named <- h.ServerName
		return nil, errors.New("no route")
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1)) // makes the handshake
			_ = c.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	check(t, us, "localhost:"+port).wants(t, "no route", "protocol")
	if got := <-named; got != "localhost" {
		t.Errorf("the hello names %q, want localhost", got)
	}
}

func TestIdentityCheckOfANodesPort(t *testing.T) {
	home, abroad, stranger := authority(t, "home.example"), authority(t, "abroad.example"), authority(t, "home.example")
	us := issue(t, home, "/swarm/swci", time.Hour, abroad)
	host := func(source provider) string {
		t.Helper()
		domains, err := identity.NewDomains(source.ID().SPIFFE().TrustDomain())
		if err != nil {
			t.Fatal(err)
		}
		h := p2ptest.Start(t, p2p.Config{
			Key: p2ptest.NewKey(t), Source: source, Domains: domains, ListenAddrs: []string{"127.0.0.1:0"},
			SwarmID: func() string { return "5eed" }, Log: slog.New(slog.DiscardHandler),
		})
		return h.ListenAddrs()[0]
	}
	check(t, us, host(issue(t, home, "/swarm/sl/a", time.Hour))).wants(t, "well", "", "libp2p", `"swarm_id": "5eed"`, `"peer_id": "12D3KooW`, `"role": "sl"`)
	check(t, us, host(issue(t, stranger, "/swarm/sn", time.Hour))).wants(t, "another authority", "accepted here",
		"we refuse it: its certificate is not signed by an authority", `"spiffe_id": "spiffe://home.example/swarm/sn"`)
	check(t, us, host(issue(t, home, "/swarm/sn", -30*time.Second))).wants(t, "expired", "certificate,accepted here", "has expired")
	check(t, us, host(issue(t, abroad, "/swarm/sn", time.Hour, home)), "--trust-domain", "abroad.example").wants(t, "refuses our trust domain",
		"accepted there", "it refuses us: ", "trust domain")
	check(t, issue(t, stranger, "/swarm/swci", time.Hour, abroad), host(issue(t, abroad, "/swarm/sn", time.Hour, home)), "--trust-domain", "abroad.example").wants(t,
		"refuses our authority", "accepted there", "it refuses our certificate", "it says only: ")
}

// twoURIs serves TLS with a certificate that has two URI SANs, and returns where.
func twoURIs(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	uri := &url.URL{Scheme: "spiffe", Host: "home.example", Path: "/swarm/sn"}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), URIs: []*url.URL{uri, uri}, NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewUnstartedServer(http.NotFoundHandler())
	web.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	web.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	web.StartTLS()
	t.Cleanup(web.Close)
	return web.Listener.Addr().String()
}

func TestIdentityCheckOfStrangePorts(t *testing.T) {
	us := issue(t, authority(t, "home.example"), "/swarm/swci", time.Hour+time.Minute)
	check(t, us, port(t, "SSH-2.0-OpenSSH_9.7\r\n")).wants(t, "SSH", "protocol", `it begins with \"SSH-2\"`, "no node of a swarm listens there")
	check(t, us, port(t, "")).wants(t, "hangs up", "protocol", "hangs up without a word")
	check(t, us, closedPort(t)).wants(t, "closed", "connection", "nothing listens at 127.0.0.1:")
	check(t, us, "no-such-host.invalid:1").wants(t, "no such name", "name", "does not resolve")
	web := httptest.NewUnstartedServer(http.NotFoundHandler())
	web.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	web.StartTLS()
	defer web.Close()
	check(t, us, web.Listener.Addr().String()).wants(t, "another TLS server", "certificate,accepted here", "no SPIFFE ID", "Acme")
	check(t, us, twoURIs(t)).wants(t, "more than one URI", "certificate,accepted here", `it shows the URI SAN \"spiffe://home.example/swarm/sn\" (`)
	for _, bad := range []string{"", "host", "host:", ":1"} {
		if _, err := command(t, us, "identity", "check", bad); exit.Code(err) != exit.Usage {
			t.Errorf("%q: %v", bad, err)
		}
	}
	out, err := command(t, us, "identity", "check", closedPort(t))
	if lines := strings.Split(out, "\n"); exit.Code(err) != exit.Failed || len(lines) != 3 || !strings.HasPrefix(lines[0], "ok      identity    we are spiffe://home.example/swarm/swci, for another 60 minutes") || !strings.HasPrefix(lines[1], "FAILED  connection  nothing listens") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestIdentity(t *testing.T) {
	home, abroad := authority(t, "home.example"), authority(t, "abroad.example")
	us := issue(t, home, "/swarm/swci", time.Hour+time.Minute, abroad)
	out, err := command(t, us, "identity", "--trust-domain", "far.example")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"identity  spiffe://home.example/swarm/swci\n", "role      swci\n", "source    memory\n", ", 60 minutes left\n",
		"trusts    home.example: own, accepted; 1 CA certificate\n", `CA "CN=home.example`,
		"abroad.example: NOT accepted (--trust-domain abroad.example would); 1 CA certificate\n",
		"far.example: accepted, but no CA certificate of it is known here",
		"(" + us.Status().NotAfter.UTC().Format(time.RFC3339) + ")",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	if err := us.Rotate(-30 * time.Second); err != nil {
		t.Fatal(err)
	}
	out, err = command(t, us, "identity", "-o", "json")
	var doc map[string]any
	if jsonErr := json.Unmarshal([]byte(out), &doc); jsonErr != nil || exit.Code(err) != exit.Failed || !strings.Contains(err.Error(), "has expired") || doc["valid"] != false || doc["role"] != "swci" {
		t.Errorf("expired: %v %v\n%s", err, jsonErr, out)
	}
}
