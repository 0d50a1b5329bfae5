package client_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	p2pcrypto "github.com/libp2p/go-libp2p/core/crypto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/assign"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/rpc"
	"github.com/swarmd/swarmd/internal/rpc/rpctest"
)

const swarmID = "5eed"

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// swarm is one core behind as many API servers as the test wants.
type swarm struct {
	t         *testing.T
	authority *rpctest.Authority
	core      *rpctest.Core
	lead      *rpctest.Lead
	hosts     hosts
}

// hosts remembers what hosts of tasks say.
type hosts struct {
	mu  sync.Mutex
	all []assign.HostReport
}

// Record implements rpc.Hosts.
func (h *hosts) Record(r assign.HostReport) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, r)
}

func newSwarm(t *testing.T, id string) *swarm {
	t.Helper()
	return &swarm{
		t: t, authority: must(rpctest.NewAuthority("hospital.example"))(t),
		core: must(rpctest.NewCore(id, "sn-0"))(t), lead: &rpctest.Lead{},
	}
}

// sn is a running API server.
type sn struct {
	addr string
	kill func() // ends it and waits
}

// start runs an SN. It is registered in the state, so that clients learn of it.
func (s *swarm) start(name string) *sn {
	s.t.Helper()
	srv := must(rpc.New(rpc.Config{
		Name: name, Core: s.core.On(name), Lead: s.lead, Hosts: &s.hosts, Caller: rpc.TLSCaller(nil), Source: s.source("/swarm/sn"), Log: slog.New(slog.DiscardHandler),
		Quorum: s.core.Quorum,
		Health: func() *swarmv1.NodeHealth { return &swarmv1.NodeHealth{Name: name, Role: naming.RoleSN, Healthy: true} },
	}))(s.t)
	s.core.Serve(name, srv.Between())
	s.core.Vet(srv.Vet)
	ln := must(net.Listen("tcp", "127.0.0.1:0"))(s.t)
	out := &sn{addr: ln.Addr().String()}
	port := ln.Addr().(*net.TCPAddr).AddrPort().Port()
	must(s.core.Propose(s.t.Context(), state.RegisterNode{
		Node: state.Node{Name: name, Role: naming.RoleSN, PeerID: name, Host: "127.0.0.1", APIPort: port}, TokenHash: strings.Repeat("0", 64),
	}))(s.t)
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan error, 1)
	go func() {
		done <- srv.Serve(ctx, ln, rpc.TLSConfig(s.source("/swarm/sn"), must(s.authority.Domains())(s.t)))
	}()
	out.kill = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Error(err)
		}
	})
	s.t.Cleanup(out.kill)
	return out
}

func (s *swarm) source(path string) *rpctest.Source {
	return must(s.authority.Issue(path, time.Hour))(s.t)
}

// waits collects what OnWait says.
type waits struct {
	mu   sync.Mutex
	said []string
	ch   chan string
}

func (w *waits) add(msg string) {
	w.mu.Lock()
	w.said = append(w.said, msg)
	w.mu.Unlock()
	select {
	case w.ch <- msg:
	default:
	}
}

func (s *swarm) client(path string, w *waits, sns ...string) *client.Client {
	s.t.Helper()
	cfg := client.Config{
		SNs: sns, Source: s.source(path), Domains: must(s.authority.Domains())(s.t), Log: slog.New(slog.DiscardHandler),
	}
	if w != nil {
		w.ch = make(chan string, 100)
		cfg.OnWait = w.add
	}
	c := must(client.New(cfg))(s.t)
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

func registration(t *testing.T, name string) client.Registration {
	t.Helper()
	key, _, err := p2pcrypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return client.Registration{Node: client.NodeInfo{Name: name, Role: "sl", Host: "127.0.0.1", FSPort: 30305, Runtime: "process"}, Key: key}
}

func freePort(t *testing.T) string {
	t.Helper()
	ln := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer func() { _ = ln.Close() }()
	return ln.Addr().String()
}

func TestConstantsAreTheServers(t *testing.T) {
	for _, p := range [][2]string{
		{client.HeaderSwarmID, rpc.HeaderSwarmID},
		{client.HeaderNode, rpc.HeaderNode},
		{client.HeaderToken, rpc.HeaderToken},
		{client.ExporterLabel, rpc.ExporterLabel},
	} {
		if p[0] != p[1] {
			t.Errorf("client has %q, server %q", p[0], p[1])
		}
	}
	if client.ExporterBytes != rpc.ExporterBytes {
		t.Error("exporter lengths differ")
	}
	known := strings.Join(rpc.Reasons(), " ") + " " + client.ReasonUnreachable
	for _, r := range client.OwnReasons() {
		if !strings.Contains(known, r) {
			t.Errorf("the client knows a reason %q that servers don't give", r)
		}
	}
}

func TestLearnsSwarmAndSNs(t *testing.T) {
	s := newSwarm(t, swarmID)
	a, b := s.start("sn-0"), s.start("sn-1")
	c := s.client("/swarm/swci", nil, a.addr)
	list, err := c.ListNodes(t.Context())
	if nodes := list.GetNodes(); err != nil || len(nodes) != 2 || !nodes[0].GetLeader() {
		t.Fatalf("nodes: %v %v", nodes, err)
	}
	if c.PinnedSwarmID() != swarmID {
		t.Errorf("pinned %q", c.PinnedSwarmID())
	}
	if got := strings.Join(c.SNs(), " "); got != a.addr+" "+b.addr {
		t.Errorf("knows %s", got)
	}
}

func TestMovesToAnotherSNWhenOneDies(t *testing.T) {
	s := newSwarm(t, swarmID)
	a, b := s.start("sn-0"), s.start("sn-1")
	c := s.client("/swarm/sl", nil, a.addr)
	if err := c.Register(t.Context(), registration(t, "sl-0")); err != nil {
		t.Fatal(err)
	}
	a.kill()
	if _, err := c.Report(t.Context(), &swarmv1.ReportRequest{}); err != nil {
		t.Fatal(err)
	}
	if got := c.SNs()[0]; got != b.addr {
		t.Errorf("speaks to %s, want %s", got, b.addr)
	}
}

func TestSaysWhyItWaits(t *testing.T) {
	s := newSwarm(t, swarmID)
	addr := freePort(t)
	w := &waits{}
	c := s.client("/swarm/swci", w, addr)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := c.ListNodes(ctx)
	if client.Reason(err) != client.ReasonUnreachable || !errors.Is(err, context.DeadlineExceeded) || client.Remedy(err) == "" {
		t.Errorf("got %v, reason %q", err, client.Reason(err))
	}
	if want := "cannot reach SN " + addr + ": connection refused"; err == nil || err.Error() != want {
		t.Errorf("error: %v, want %s", err, want)
	}
	if want := "cannot reach SN " + addr + ": connection refused; trying again"; len(w.said) != 1 || w.said[0] != want {
		t.Errorf("said %q, want %q once", w.said, want)
	}
}

func TestCanceledIsNotDressedUp(t *testing.T) {
	s := newSwarm(t, swarmID)
	c := s.client("/swarm/swci", nil, freePort(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.ListNodes(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestWaitsForALeader(t *testing.T) {
	s := newSwarm(t, swarmID)
	a := s.start("sn-0")
	w := &waits{}
	c := s.client("/swarm/sl", w, a.addr)
	if err := c.Register(t.Context(), registration(t, "sl-0")); err != nil {
		t.Fatal(err)
	}
	s.core.SetLeader("")
	done := make(chan error, 1)
	go func() {
		_, err := c.Report(t.Context(), &swarmv1.ReportRequest{})
		done <- err
	}()
	if msg := <-w.ch; !strings.Contains(msg, "no leader") {
		t.Errorf("said %q", msg)
	}
	s.core.SetLeader("sn-0")
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestRegistersAgainWhenTheTokenIsRefused(t *testing.T) {
	s := newSwarm(t, swarmID)
	a := s.start("sn-0")
	c := s.client("/swarm/sl", nil, a.addr)
	reg := registration(t, "sl-0")
	if err := c.Register(t.Context(), reg); err != nil {
		t.Fatal(err)
	}
	first := s.core.View().Nodes["sl-0"].TokenHashes[0]
	// An operator forgets the node: its token is void.
	must(s.core.Propose(t.Context(), state.SetLive{Node: "sl-0"}))(t)
	must(s.core.Propose(t.Context(), state.ForgetNode{Node: "sl-0"}))(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := c.Report(t.Context(), &swarmv1.ReportRequest{}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	n := s.core.View().Nodes["sl-0"]
	if n == nil || len(n.TokenHashes) != 1 || n.TokenHashes[0] == first {
		t.Errorf("registered %+v: want once, with a new token", n)
	}
}

func TestNameOfAnotherIsRefusedForGood(t *testing.T) {
	s := newSwarm(t, swarmID)
	a := s.start("sn-0")
	c, d := s.client("/swarm/sl", nil, a.addr), s.client("/swarm/sl", nil, a.addr)
	if err := c.Register(t.Context(), registration(t, "sl-0")); err != nil {
		t.Fatal(err)
	}
	err := d.Register(t.Context(), registration(t, "sl-0"))
	if client.Reason(err) != "NAME_TAKEN" || !strings.Contains(client.Remedy(err), "--name") {
		t.Errorf("got %v, remedy %q", err, client.Remedy(err))
	}
	if _, err := d.Report(t.Context(), &swarmv1.ReportRequest{}); client.Reason(err) != client.ReasonTokenRefused {
		t.Errorf("an unregistered client reported: %v", err)
	}
}

func TestAnotherSwarmIsRefusedByName(t *testing.T) {
	s := newSwarm(t, swarmID)
	a := s.start("sn-0")
	c := must(client.New(client.Config{
		SNs: []string{a.addr}, SwarmID: "0ther", Source: s.source("/swarm/swci"), Domains: must(s.authority.Domains())(t),
		Log: slog.New(slog.DiscardHandler),
	}))(t)
	defer func() { _ = c.Close() }()
	for _, call := range []func() error{
		func() error { _, err := c.ListNodes(t.Context()); return err },
		func() error { _, err := c.GetSwarm(t.Context()); return err },
	} {
		err := call()
		if client.Reason(err) != client.ReasonWrongSwarm || !strings.Contains(err.Error(), "0ther") || !strings.Contains(err.Error(), swarmID) {
			t.Errorf("got %v", err)
		}
	}
}

// liar answers as an SN of another swarm would that does not look at the header.
type liar struct{ next http.RoundTripper }

func (l liar) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := l.next.RoundTrip(r)
	if err == nil {
		res.Header.Set(client.HeaderSwarmID, "0ther")
	}
	return res, err
}

// memory serves requests without any network.
type memory struct{ handler http.Handler }

func (m memory) RoundTrip(r *http.Request) (*http.Response, error) {
	return rpctest.RoundTrip(m.handler, r)
}

func TestAnswersOfAnotherSwarmAreRefused(t *testing.T) {
	core := must(rpctest.NewCore(swarmID, "sn-0"))(t)
	srv := must(rpc.New(rpc.Config{
		Name: "sn-0", Core: core, Lead: &rpctest.Lead{}, Log: slog.New(slog.DiscardHandler),
		Caller: rpctest.CallerAs("spiffe://x/swarm/swci"),
	}))(t)
	direct := memory{srv.Handler()}
	c := must(client.New(client.Config{SNs: []string{"sn-0:1"}, Transport: direct, Log: slog.New(slog.DiscardHandler)}))(t)
	if _, err := c.ListContracts(t.Context()); err != nil {
		t.Fatalf("in memory: %v", err)
	}
	c = must(client.New(client.Config{SNs: []string{"sn-0:1"}, SwarmID: swarmID, Transport: liar{direct}, Log: slog.New(slog.DiscardHandler)}))(t)
	if _, err := c.ListContracts(t.Context()); client.Reason(err) != client.ReasonWrongSwarm {
		t.Errorf("got %v", err)
	}
}

func TestServerMustBeAnSN(t *testing.T) {
	s := newSwarm(t, swarmID)
	a := s.start("sn-0")
	foreign := must(rpctest.NewAuthority("other.example"))(t)
	c := must(client.New(client.Config{
		SNs: []string{a.addr}, Source: must(foreign.Issue("/swarm/swci", time.Hour, s.authority))(t),
		Domains: must(foreign.Domains())(t), Log: slog.New(slog.DiscardHandler),
	}))(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := c.ListNodes(ctx); err == nil || !strings.Contains(err.Error(), "trust domain") {
		t.Errorf("an SN of a trust domain that is not accepted: %v", err)
	}
}

func TestUsesARotatedSVID(t *testing.T) {
	s := newSwarm(t, swarmID)
	a := s.start("sn-0")
	source := must(s.authority.Issue("/swarm/swci", 2*time.Second))(t)
	c := must(client.New(client.Config{
		SNs: []string{a.addr}, Source: source, Domains: must(s.authority.Domains())(t), Log: slog.New(slog.DiscardHandler), OnWait: func(m string) { t.Log(m) },
	}))(t)
	defer func() { _ = c.Close() }()
	if _, err := c.ListNodes(t.Context()); err != nil {
		t.Fatal(err)
	}
	old := must(source.GetX509SVID())(t).Certificates[0].NotAfter
	if err := source.Rotate(time.Hour); err != nil {
		t.Fatal(err)
	}
	<-time.After(time.Until(old) + 10*time.Millisecond)
	if _, err := c.ListNodes(t.Context()); err != nil {
		t.Errorf("after the rotation: %v", err)
	}
}
