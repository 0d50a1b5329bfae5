package swci

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/swarmd/swarmd/consensus/ledger/audit"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// TestExpiredIdentityIsSaid: a dashboard whose identity expires while the page is open says so, and goes on once it is renewed.
func TestExpiredIdentityIsSaid(t *testing.T) {
	c, err := client.New(client.Config{SNs: []string{"10.0.0.1:30304"}, Transport: &http.Transport{}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	status := identity.Status{Origin: "Workload API at /run/agent.sock", NotAfter: now.Add(-time.Minute), Problem: "the agent\x1b does not answer"}
	d := newDocuments(&Session{Env: Env{Now: func() time.Time { return now }}}, Context{}, client.Operator{Client: c}, false, audit.Options{Unsigned: true})
	d.identity = func() identity.Status { return status }
	_, err = d.Link()
	if exit.Code(err) != exit.Denied || !strings.Contains(err.Error(), "expired at ") || !strings.Contains(err.Error(), "does not answer") || !strings.Contains(exit.Hint(err), "/run/agent.sock") {
		t.Errorf("%v, %q", err, exit.Hint(err))
	}
	status.Origin, status.Problem = "certificate file c.pem", "the certificate in c.pem has expired: it was valid until 8:00 and this machine's clock says 8:01"
	_, err = d.Link()
	if exit.Code(err) != exit.Denied || !strings.Contains(err.Error(), "expired at ") || strings.Contains(err.Error(), "clock") || !strings.Contains(exit.Hint(err), "c.pem") {
		t.Errorf("of a file: %v, %q", err, exit.Hint(err))
	}
	status.NotAfter = now.Add(time.Minute)
	if sn, err := d.Link(); err != nil || sn != "10.0.0.1:30304" {
		t.Errorf("%q, %v", sn, err)
	}
}

// TestPageHosts: what is printed is a name that the page's certificate is valid for.
func TestPageHosts(t *testing.T) {
	with := func(ip string, names ...string) *tls.Certificate {
		c := &x509.Certificate{DNSNames: names}
		if ip != "" {
			c.IPAddresses = []net.IP{net.ParseIP(ip)}
		}
		return &tls.Certificate{Leaf: c}
	}
	for _, test := range []struct {
		listen string
		cert   *tls.Certificate
		want   string
	}{
		{"127.0.0.1:30309", nil, "127.0.0.1:30309"},
		{"0.0.0.0:30309", with("", "*.a.example", "Page.a.example"), "page.a.example:30309"},
		{"[::]:30309", with("10.0.0.5"), "10.0.0.5:30309"},
		{"10.0.0.5:30309", with("10.0.0.5", "page.a.example"), "10.0.0.5:30309"},
		{"10.0.0.5:30309", with("", "*.a.example"), "10.0.0.5:30309"},
	} {
		if got := pageHosts(test.listen, test.cert); got[0] != test.want {
			t.Errorf("%s: %q, want %q first", test.listen, got, test.want)
		}
	}
}

// TestRefusalsAreForgotten: what no page asks for any more, and what is asked for once, is not named for ever among what may not be seen.
func TestRefusalsAreForgotten(t *testing.T) {
	now := time.Now()
	d := newDocuments(&Session{Env: Env{Now: func() time.Time { return now }}, Grammar: &Grammar{}}, Context{SNs: []string{"h"}}, client.Operator{}, false, audit.Options{Unsigned: true})
	d.note("nodes", false, exit.New(exit.Denied, "ask", "no right"))
	d.note("logs/sl-1", true, exit.New(exit.Denied, "ask", "no right"))
	if got := d.missing(); len(got) != 1 || got[0].Document != "nodes" || got[0].Remedy != "ask" {
		t.Errorf("refused: %v", got)
	}
	for i := range 100 {
		d.note(fmt.Sprint("contract/", i), false, exit.New(exit.Denied, "ask", "no right"))
	}
	if got := d.missing(); len(got) != maxRefused {
		t.Errorf("%d are refused", len(got))
	}
	d.note("nodes", false, nil)
	if got := d.missing(); len(got) != maxRefused-1 {
		t.Errorf("%d are refused", len(got))
	}
	if now = now.Add(2 * refusedFor); len(d.missing()) != 0 {
		t.Errorf("later: %v", d.missing())
	}
}

// TestAnotherSwarmIsNone: where each SN is of another swarm the page is stale, as where none answers; who is refused by this one is told so.
func TestAnotherSwarmIsNone(t *testing.T) {
	for reason, want := range map[string]int{client.ReasonWrongSwarm: exit.Unreachable, client.ReasonTokenRefused: exit.Denied} {
		err := documentError(fmt.Errorf("list nodes: %w", &client.Error{Reason: reason, Code: connect.CodePermissionDenied, Message: "no", Remedy: "do this"}))
		if exit.Code(err) != want || exit.IsLost(err) != (want == exit.Unreachable) || exit.Hint(err) != "do this" {
			t.Errorf("%s: exit code %d, %v (%s)", reason, exit.Code(err), err, exit.Hint(err))
		}
	}
	if documentError(nil) != nil {
		t.Error("no error became one")
	}
}

// ownIdentity is an identity that says how often it was closed.
type ownIdentity struct {
	identity.Provider
	closed int
}

func (o *ownIdentity) Status() identity.Status { return identity.Status{Origin: "here"} }
func (o *ownIdentity) Close() error            { o.closed++; return nil }

// TestDocumentsAreClosed: what was opened for them is closed once, and nothing is left open where the identity can't be had.
func TestDocumentsAreClosed(t *testing.T) {
	own, closed, failed := &ownIdentity{}, 0, error(nil)
	s := &Session{
		Connect: func(context.Context, Context) (client.Operator, func(), error) {
			return client.Operator{}, func() { closed++ }, nil
		},
		Identify: func(context.Context, Context) (identity.Provider, identity.Domains, error) {
			return own, identity.Domains{}, failed
		},
	}
	docs, done, err := openDocuments(t.Context(), s, Context{SNs: []string{"10.0.0.1:30304"}}, false, audit.Options{Unsigned: true})
	if err != nil || docs.identity().Origin != "here" {
		t.Fatal(err)
	}
	if done(); own.closed != 1 || closed != 1 {
		t.Errorf("closed %d and %d times, want once", own.closed, closed)
	}
	failed = exit.New(exit.Denied, "", "there is no identity")
	if _, _, err := openDocuments(t.Context(), s, Context{SNs: []string{"10.0.0.1:30304"}}, false, audit.Options{Unsigned: true}); exit.Code(err) != exit.Denied || closed != 2 {
		t.Errorf("without an identity: %v, closed %d times", err, closed)
	}
}

// TestModelsAreGivenOutOnLoopback alone: they are fetched in the name of whoever has started the dashboard.
func TestModelsAreGivenOutOnLoopback(t *testing.T) {
	for at, want := range map[string]bool{"127.0.0.1:1": true, "127.9.8.7:1": true, "[::1]:1": true, "[::ffff:127.0.0.1]:1": true, "0.0.0.0:1": false, "[::]:1": false, "10.0.0.1:1": false} {
		addr, err := net.ResolveTCPAddr("tcp", at)
		if err != nil || givesModelsAt(addr) != want {
			t.Errorf("%s: %t, %v", at, !want, err)
		}
	}
}
