package spire_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/multiformats/go-multistream"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/workloadapi"

	"github.com/swarmd/swarmd/identity/spire/spiretest"
	"github.com/swarmd/swarmd/internal/e2e/e2etest"
	"github.com/swarmd/swarmd/internal/p2p"
)

// long skips a test of minutes unless these are asked for. scripts/test, where a skip is a failure, leaves them out by name.
func long(t *testing.T) {
	t.Helper()
	if os.Getenv("SWARM_TEST_LONG") == "" {
		t.Skip("takes minutes: SWARM_TEST_LONG=1 or make test-long")
	}
}

// shown is the certificate that a node shows to whoever knocks, nil if it shows none. begin speaks before TLS.
func shown(addr string, begin func(net.Conn) error) *x509.Certificate {
	raw, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return nil
	}
	defer raw.Close()
	_ = raw.SetDeadline(time.Now().Add(5 * time.Second))
	if begin != nil && begin(raw) != nil {
		return nil
	}
	c := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"/yamux/1.0.0", "h2"}}) //nolint:gosec // only looks
	if c.Handshake() != nil {
		return nil
	}
	return c.ConnectionState().PeerCertificates[0]
}

// knock begins a connection between nodes.
func knock(c net.Conn) error { return multistream.SelectProtoOrFail(string(p2p.SecurityID), c) }

// seen collects what a node's ports show while a test goes on.
type seen struct {
	svids, authorities map[string]bool
	last               *x509.Certificate
}

// watch looks at a port twice a second until the test or the returned function ends it.
func watch(t *testing.T, addr string, begin func(net.Conn) error) (stop func() seen) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s, done := seen{svids: map[string]bool{}, authorities: map[string]bool{}}, make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			if c := shown(addr, begin); c != nil {
				s.svids[c.SerialNumber.String()], s.authorities[string(c.AuthorityKeyId)] = true, true
				s.last = c
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return func() seen { cancel(); <-done; return s }
}

// unbroken wants an SL's log to tell of no round that failed, was missed or lost its connection.
func unbroken(t *testing.T, p *e2etest.Proc) {
	t.Helper()
	for _, bad := range []string{"attempt of a round failed", "contributed=false", "stream refused", "connection closed", "SVID has expired"} {
		if i := strings.Index(p.Output(), bad); i >= 0 {
			line, _, _ := strings.Cut(p.Output()[strings.LastIndex(p.Output()[:i], "\n")+1:], "\n")
			t.Errorf("%s: %s", p.Name, line)
		}
	}
}

// authorities waits until an agent has given out a bundle with n authorities, all later than the server has them.
func authorities(t *testing.T, agent *spiretest.Agent, domain string, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), e2etest.Timeout)
	defer cancel()
	source, err := workloadapi.NewX509Source(ctx, workloadapi.WithClientOptions(workloadapi.WithAddr("unix://"+agent.Socket)))
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	for {
		b, err := source.GetX509BundleForTrustDomain(spiffeid.RequireTrustDomainFromString(domain))
		if err == nil && len(b.X509Authorities()) == n {
			return
		}
		if err := source.WaitUntilUpdated(ctx); err != nil {
			t.Fatalf("no bundle with %d authorities: %v", n, err)
		}
	}
}

// A training outlives its SVIDs three times and its CA once, and loses no round and no connection. Its ledger leads from the
// CA of its founding to who came after it.
func TestRotation(t *testing.T) {
	t.Parallel()
	server := spiretest.NewServer(t, spiretest.Options{SVIDTTL: 20 * time.Second})
	w := newSwarm(t, server)
	w.shared()
	server.CreateEntry(spiretest.Entry{ID: "/observer", Parent: "/swarm/sl-agent", Selectors: []string{spiretest.UID()}})
	sn := w.sns(1)[0]
	sls := w.sls(2, "BATCHES=600", "BATCH_SECONDS=0.1")
	api, fs := watch(t, w.Addr(1)+":30304", nil), watch(t, w.Addr(11)+":30305", knock)
	for _, p := range sls {
		p.Sees("round=5 ")
	}
	founding, copied := w.Path("founding.pem"), w.Path("ledger.jsonl")
	ctl(t, w.Dir, "get", "bundle", "--identity", w.agent("swci", "swci").Socket, "--out", founding)
	next := server.PrepareCA()
	authorities(t, w.agent("", ""), server.TrustDomain, 2)
	first := shown(w.Addr(1)+":30304", nil)
	server.ActivateCA(next)
	w.Until("SVIDs of the next CA", func() bool {
		c := shown(w.Addr(1)+":30304", nil)
		return c != nil && !bytes.Equal(c.AuthorityKeyId, first.AuthorityKeyId)
	})
	late := w.SN(2)
	late.Sees(apiMarker)

	for _, p := range sls {
		p.Ends(2 * time.Minute)
		unbroken(t, p)
	}
	if e := w.Agree(1, 2); e.Rounds != 302 {
		t.Errorf("got %d rounds, want 302", e.Rounds)
	}
	ctl(t, w.Dir, "get", "ledger", "--sn", w.Addr(2)+":30304", "--identity", w.agent("swci", "swci").Socket, "--out", copied)
	var report struct{ Rounds, Registrations, Bundles int }
	out := ctl(t, w.Dir, "verify", "ledger", copied, "--bundle", founding, "-o", "json")
	if err := json.Unmarshal([]byte(out), &report); err != nil || report.Rounds != 302 || report.Registrations < 4 || report.Bundles < 2 {
		t.Errorf("verify ledger: %v, want 302 rounds of 4 nodes under 2 bundles or more:\n%s", err, out)
	}
	for what, s := range map[string]seen{"sn-1's API": api(), "sl-1's file server": fs()} {
		if len(s.svids) < 4 || len(s.authorities) != 2 {
			t.Errorf("%s showed %d SVIDs of %d authorities, want at least 4 of 2: did anything rotate?", what, len(s.svids), len(s.authorities))
		}
	}
	late.Stop()
	sn.Stop()
}

// The same for three minutes with a CA that ends by itself, with three SNs and models whose exchange takes its time.
func TestRotationForMinutes(t *testing.T) {
	long(t)
	t.Parallel()
	server := spiretest.NewServer(t, spiretest.Options{SVIDTTL: 20 * time.Second, AgentTTL: 20 * time.Second, CATTL: 2 * time.Minute})
	w := newSwarm(t, server)
	w.shared()
	w.sns(3)
	sls := w.sls(3, "MIN_PEERS=3", "BATCHES=1600", "BATCH_SECONDS=0.1", "SIZE=1000000")
	api, fs := watch(t, w.Addr(1)+":30304", nil), watch(t, w.Addr(11)+":30305", knock)
	for _, p := range sls {
		p.Ends(10 * time.Minute)
		unbroken(t, p)
	}
	if e := w.Agree(1, 2, 3); e.Rounds != 802 {
		t.Errorf("got %d rounds, want 802", e.Rounds)
	}
	for what, s := range map[string]seen{"sn-1's API": api(), "sl-1's file server": fs()} {
		if len(s.svids) < 9 || len(s.authorities) < 2 {
			t.Errorf("%s showed %d SVIDs of %d authorities, want at least 9 of 2: did anything rotate?", what, len(s.svids), len(s.authorities))
		}
	}
}

// throttle lets a process run for a few milliseconds of each second, as a slow machine or link would, until the returned
// function is called.
func throttle(t *testing.T, p *e2etest.Proc) (release func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = p.Cmd.Process.Signal(syscall.SIGCONT) }()
		next := syscall.SIGSTOP
		for {
			_ = p.Cmd.Process.Signal(next)
			rest := 995 * time.Millisecond
			if next = syscall.SIGCONT + syscall.SIGSTOP - next; next == syscall.SIGSTOP {
				rest = 5 * time.Millisecond
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(rest):
			}
		}
	}()
	release = func() { cancel(); <-done }
	t.Cleanup(release)
	return release
}

// One exchange that takes longer than the SVIDs live with which its connections began.
func TestRotationInOneExchangeForMinutes(t *testing.T) {
	long(t)
	t.Parallel()
	const ttl = 20 * time.Second
	server := spiretest.NewServer(t, spiretest.Options{SVIDTTL: ttl})
	w := newSwarm(t, server)
	w.shared()
	w.sns(1)
	sls := w.sls(2, "BATCHES=4", "SIZE=60000000") // 240 MB
	sls[0].Sees("round=2 ")
	w.Until("exchange at sl-2", func() bool {
		s := w.Status(2)
		return s != nil && s["phase"] == "merging"
	})
	was := rounds(sls[0])
	release := throttle(t, sls[1])
	<-time.After(ttl + 15*time.Second) // the time that the exchange is to take
	if n := rounds(sls[0]); n != was {
		t.Errorf("%d exchanges ended within %s: they are too short for this test", n-was, ttl)
	}
	release()
	for _, p := range sls {
		p.Ends(2 * time.Minute)
		unbroken(t, p)
	}
	w.Agree(1, 2)
}
