package rpc_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	p2pcrypto "github.com/libp2p/go-libp2p/core/crypto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/rpc"
	"github.com/swarmd/swarmd/internal/rpc/rpctest"
)

const swarmID = "5eed"

// swarm is one SN's API over TLS, on loopback.
type swarm struct {
	t         testing.TB
	authority *rpctest.Authority
	core      *rpctest.Core
	lead      *rpctest.Lead
	server    *rpc.Server
	addr      string
	health    atomic.Pointer[swarmv1.NodeHealth] // what the SN says of itself
	later     atomic.Int64                       // nanoseconds that the SN's clock is ahead
}

func newSwarm(t testing.TB) *swarm { return startSwarm(t, rpc.Config{BodyTime: time.Second}) }

// newSwarmWith has other limits, newSwarmWithLongTimeouts waits for requests as long as a real one.
func newSwarmWith(t testing.TB, l rpc.Limits) *swarm {
	return startSwarm(t, rpc.Config{BodyTime: time.Second, Limits: l})
}

func newSwarmWithLongTimeouts(t testing.TB) *swarm { return startSwarm(t, rpc.Config{}) }

// startSwarm has an SN whose configuration may be changed when it is whole.
func startSwarm(t testing.TB, cfg rpc.Config, change ...func(*rpc.Config)) *swarm {
	t.Helper()
	a := must(rpctest.NewAuthority("hospital.example"))(t)
	s := &swarm{t: t, authority: a, lead: &rpctest.Lead{}}
	if s.core, _ = cfg.Core.(*rpctest.Core); s.core == nil {
		s.core = must(rpctest.NewCore(swarmID, "sn-0"))(t)
	}
	cfg.Name, cfg.Core, cfg.Lead, cfg.Caller, cfg.Log = "sn-0", s.core.On("sn-0"), s.lead, rpc.TLSCaller(s.source("/swarm/sn")), slog.New(slog.DiscardHandler)
	cfg.Source, cfg.Quorum = s.source("/swarm/sn"), s.core.Quorum
	cfg.Health = s.health.Load
	cfg.Now = func() time.Time { return time.Now().Add(time.Duration(s.later.Load())) }
	for _, fn := range change {
		fn(&cfg)
	}
	s.server = must(rpc.New(cfg))(t)
	s.health.Store(&swarmv1.NodeHealth{Name: "sn-0", Role: "sn", Healthy: true, UntilUnixMs: 1_800_000_000_000})
	s.core.Serve("sn-0", s.server.Between())
	s.core.Vet(s.server.Vet)
	ln := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	s.addr = ln.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.server.Serve(ctx, ln, rpc.TLSConfig(s.source("/swarm/sn"), s.domains())) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func (s *swarm) domains() identity.Domains { return must(s.authority.Domains())(s.t) }

func (s *swarm) source(path string) *rpctest.Source {
	return must(s.authority.Issue(path, time.Hour))(s.t)
}

// peer is one caller on one connection.
type peer struct {
	swarm    *swarm
	source   *rpctest.Source
	http     *http.Client
	exporter []byte
	header   http.Header
}

// connect opens a connection with this SVID; nil for none.
func (s *swarm) connect(source *rpctest.Source) *peer {
	s.t.Helper()
	p := &peer{swarm: s, source: source, header: http.Header{}}
	p.header.Set(rpc.HeaderSwarmID, swarmID)
	cfg := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // a caller without identity can't verify either
	if source != nil {
		cfg = identity.ClientTLS(source, s.domains(), identity.RoleSN)
	}
	cfg.NextProtos = []string{"h2"}
	tr := &http.Transport{ForceAttemptHTTP2: true, DialTLSContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		d := tls.Dialer{Config: cfg}
		c, err := d.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		state := c.(*tls.Conn).ConnectionState()
		p.exporter, err = state.ExportKeyingMaterial(rpc.ExporterLabel, nil, rpc.ExporterBytes)
		return c, err
	}}
	p.http = &http.Client{Transport: tr}
	s.t.Cleanup(tr.CloseIdleConnections)
	return p
}

func (s *swarm) as(path string) *peer { return s.connect(s.source(path)) }

func (p *peer) url() string { return "https://" + p.swarm.addr }

func with[T any](p *peer, m *T) *connect.Request[T] {
	r := connect.NewRequest(m)
	for k, v := range p.header {
		r.Header()[k] = v
	}
	return r
}

func (p *peer) nodes() swarmv1connect.NodeServiceClient {
	return swarmv1connect.NewNodeServiceClient(p.http, p.url())
}

func (p *peer) sessions() swarmv1connect.SessionServiceClient {
	return swarmv1connect.NewSessionServiceClient(p.http, p.url())
}

func (p *peer) contracts() swarmv1connect.ContractServiceClient {
	return swarmv1connect.NewContractServiceClient(p.http, p.url())
}

func nodeKey(t testing.TB) p2pcrypto.PrivKey {
	t.Helper()
	key, _, err := p2pcrypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// registration makes a valid request on this connection; tests spoil it.
func (p *peer) registration(t *testing.T, name string, role identity.Role, key p2pcrypto.PrivKey) *swarmv1.RegisterRequest {
	t.Helper()
	c, err := p.nodes().Challenge(t.Context(), with(p, &swarmv1.ChallengeRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	id := must(identity.PeerID(key))(t).String()
	nonce := c.Msg.GetNonce()
	svid := must(p.source.GetX509SVID())(t)
	return &swarmv1.RegisterRequest{
		Node:          &swarmv1.Node{Name: name, Role: string(role), PeerId: id, Host: "127.0.0.1", FsPort: 30305, Live: true, Sentinel: true},
		NodePublicKey: must(p2pcrypto.MarshalPublicKey(key.GetPublic()))(t), Nonce: nonce,
		NodeSignature: must(key.Sign(identity.RegistrationMessage(nonce, p.exporter, swarmID, name, role, id)))(t),
		SvidSignature: must(identity.SignWithSVID(svid, identity.OwnershipMessage(swarmID, name, id)))(t),
	}
}

// register makes the peer speak for a node.
func (p *peer) register(t *testing.T, name string, key p2pcrypto.PrivKey) []byte {
	t.Helper()
	res, err := p.nodes().Register(t.Context(), with(p, p.registration(t, name, identity.RoleSL, key)))
	if err != nil {
		t.Fatal(err)
	}
	p.speak(name, res.Msg.GetToken())
	return res.Msg.GetToken()
}

func (p *peer) speak(name string, token []byte) {
	p.header.Set(rpc.HeaderNode, name)
	p.header.Set(rpc.HeaderToken, base64.RawURLEncoding.EncodeToString(token))
}

// reason is the reason in an error from the wire.
func reason(err error) string { return detail(err).GetReason() }

// detail is what goes along with an error, nil for nothing.
func detail(err error) *swarmv1.ErrorReason {
	ce, ok := errors.AsType[*connect.Error](err)
	if !ok {
		return nil
	}
	for _, d := range ce.Details() {
		if v, err := d.Value(); err == nil {
			if r, ok := v.(*swarmv1.ErrorReason); ok {
				return r
			}
		}
	}
	return nil
}

func wantReason(t *testing.T, what string, err error, want string) {
	t.Helper()
	if got := reason(err); got != want {
		t.Errorf("%s: got %q (%v), want %s", what, got, err, want)
	}
}

func report(t *testing.T, p *peer) error {
	t.Helper()
	_, err := p.sessions().Report(t.Context(), with(p, &swarmv1.ReportRequest{}))
	return err
}

func TestStrangersAreRefusedInTheHandshake(t *testing.T) {
	s := newSwarm(t)
	for name, p := range map[string]*peer{
		"no certificate": s.connect(nil),
		"foreign trust domain": func() *peer {
			foreign := must(rpctest.NewAuthority("evil.example"))(t)
			return s.connect(must(foreign.Issue("/swarm/sl/sl-0", time.Hour, s.authority))(t))
		}(),
		"no swarm role": s.as("/kitchen/cook"),
	} {
		res, err := p.http.Get(p.url() + "/is_up")
		if err == nil {
			_ = res.Body.Close()
			t.Errorf("%s: let in with %s", name, res.Status)
		}
	}
}

func TestIsUp(t *testing.T) {
	s := newSwarm(t)
	for _, role := range identity.Roles() {
		res, err := s.as("/swarm/" + string(role)).http.Get("https://" + s.addr + "/is_up")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || string(body) != "OK" || res.StatusCode != http.StatusOK || res.Header.Get(rpc.HeaderSwarmID) != swarmID {
			t.Errorf("%s: %s %q %v %v", role, res.Status, body, res.Header, err)
		}
		if res.ProtoMajor != 2 {
			t.Errorf("%s was served over %s", role, res.Proto)
		}
	}
}

// TestRolesAreHeld calls every method as every role, so that each cell of the table is seen to hold.
func TestRolesAreHeld(t *testing.T) {
	s := newSwarm(t)
	for _, role := range identity.Roles() {
		p := s.as("/swarm/" + string(role))
		for procedure, rule := range rpc.AccessTable() {
			req := must(http.NewRequestWithContext(t.Context(), http.MethodPost, p.url()+procedure, strings.NewReader("{}")))(t)
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set(rpc.HeaderSwarmID, swarmID)
			if strings.HasSuffix(procedure, "/WatchContract") {
				req.Header.Set("Content-Type", "application/connect+json")
				req.Body = io.NopCloser(strings.NewReader("\x00\x00\x00\x00\x02{}"))
				req.ContentLength = 7
			}
			res, err := p.http.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(io.LimitReader(res.Body, 4096))
			_ = res.Body.Close()
			allowed := false
			for _, r := range rule.Roles {
				allowed = allowed || r == role
			}
			if denied := strings.Contains(string(body), "permission denied: role"); denied == allowed {
				t.Errorf("%s %s: allowed is %v, got %s %.200s", role, procedure, allowed, res.Status, body)
			}
			if allowed && rule.Token && !strings.Contains(string(body), "token refused") {
				t.Errorf("%s %s without a token: %s %.200s", role, procedure, res.Status, body)
			}
		}
	}
}

func TestSwarmIDIsChecked(t *testing.T) {
	var strayed []string
	s := startSwarm(t, rpc.Config{Stray: func(who identity.ID, id string) { strayed = append(strayed, who.String()+" of "+id) }})
	p := s.as("/swarm/swci")
	list := func() error {
		_, err := p.nodes().ListNodes(t.Context(), with(p, &swarmv1.ListNodesRequest{}))
		return err
	}
	if err := list(); err != nil {
		t.Fatal(err)
	}
	p.header.Set(rpc.HeaderSwarmID, "other")
	err := list()
	wantReason(t, "another swarm", err, "WRONG_SWARM")
	if err == nil || !strings.Contains(err.Error(), "other") || !strings.Contains(err.Error(), swarmID) {
		t.Errorf("the swarms are not named: %v", err)
	}
	p.header.Del(rpc.HeaderSwarmID)
	wantReason(t, "no swarm ID", list(), "SWARM_ID_MISSING")
	if got := strings.Join(strayed, ", "); !strings.HasSuffix(got, "/swarm/swci of other") || len(strayed) != 1 {
		t.Errorf("strayed: %s", got)
	}
	swarms := swarmv1connect.NewSwarmServiceClient(p.http, p.url())
	res, err := swarms.GetSwarm(t.Context(), with(p, &swarmv1.GetSwarmRequest{}))
	if err != nil || res.Msg.GetSwarmId() != swarmID || res.Msg.GetLeader() != "sn-0" || res.Msg.GetVersion() == "" || res.Header().Get(rpc.HeaderSwarmID) != swarmID {
		t.Errorf("GetSwarm without swarm ID: %v %v", res, err)
	}
}

func TestRegisterAndSpeak(t *testing.T) {
	s := newSwarm(t)
	key := nodeKey(t)
	p := s.as("/swarm/sl") // a shared entry
	p.register(t, "sl-0", key)
	n := s.core.View().Nodes["sl-0"]
	if n == nil || n.SPIFFEID != "spiffe://hospital.example/swarm/sl" || n.Sentinel {
		t.Fatalf("registered %+v", n)
	}
	if err := report(t, p); err != nil {
		t.Fatal(err)
	}
	if got := s.lead.Touched(); len(got) != 1 || got[0] != "sl-0" {
		t.Errorf("touched %v", got)
	}
	other := s.as("/swarm/sl")
	token := other.register(t, "sl-1", nodeKey(t))

	other.speak("sl-0", token)
	wantReason(t, "speaking for another node with one's own token", report(t, other), "TOKEN_REFUSED")
	other.speak("sl-9", token)
	wantReason(t, "speaking for nobody", report(t, other), "TOKEN_REFUSED")
	other.header.Set(rpc.HeaderToken, "%%%")
	wantReason(t, "malformed token", report(t, other), "TOKEN_REFUSED")

	thief := s.as("/swarm/sl/sl-1")
	thief.speak("sl-1", token)
	wantReason(t, "stolen token under another SPIFFE ID", report(t, thief), "TOKEN_REFUSED")
	swop := s.as("/swarm/swop")
	swop.speak("sl-1", token)
	wantReason(t, "stolen token under another role", report(t, swop), "TOKEN_REFUSED")
}

func TestRegistrationIsProven(t *testing.T) {
	s := newSwarm(t)
	taken := nodeKey(t)
	s.as("/swarm/sl").register(t, "taken", taken)
	type spoil func(p *peer, m *swarmv1.RegisterRequest)
	for _, c := range []struct {
		name, path, node, want string
		role                   identity.Role
		spoil                  spoil
	}{
		{"another's name", "/swarm/sl", "taken", "NAME_TAKEN", "sl", nil},
		{"a name that the SVID does not bear", "/swarm/sl/sl-7", "sl-8", "NAME_MISMATCH", "sl", nil},
		{"a role that the SVID does not bear", "/swarm/sl", "x", "ROLE_MISMATCH", "swop", nil},
		{"an SN, which must join", "/swarm/sl", "x", "ROLE_MISMATCH", "sn", nil},
		{"a bad name", "/swarm/sl", "../x", "BAD_COMMAND", "sl", nil},
		{"unknown nonce", "/swarm/sl", "x", "NONCE_REFUSED", "sl", func(_ *peer, m *swarmv1.RegisterRequest) { m.Nonce[0] ^= 1 }},
		{"no nonce", "/swarm/sl", "x", "NONCE_REFUSED", "sl", func(_ *peer, m *swarmv1.RegisterRequest) { m.Nonce = nil }},
		{"another's peer ID", "/swarm/sl", "x", "PEER_ID_MISMATCH", "sl", func(_ *peer, m *swarmv1.RegisterRequest) {
			m.Node.PeerId = must(identity.PeerID(taken))(t).String()
		}},
		{"another's node key", "/swarm/sl", "x", "SIGNATURE_REFUSED", "sl", func(_ *peer, m *swarmv1.RegisterRequest) {
			m.NodePublicKey = must(p2pcrypto.MarshalPublicKey(taken.GetPublic()))(t)
			m.Node.PeerId = must(identity.PeerID(taken))(t).String()
		}},
		{"no key", "/swarm/sl", "x", "BAD_REQUEST", "sl", func(_ *peer, m *swarmv1.RegisterRequest) { m.NodePublicKey = nil }},
		{"large key", "/swarm/sl", "x", "BAD_REQUEST", "sl", func(_ *peer, m *swarmv1.RegisterRequest) { m.NodePublicKey = make([]byte, 9999) }},
		{"port", "/swarm/sl", "x", "BAD_REQUEST", "sl", func(_ *peer, m *swarmv1.RegisterRequest) { m.Node.FsPort = 1 << 20 }},
		{"node signature", "/swarm/sl", "x", "SIGNATURE_REFUSED", "sl", func(_ *peer, m *swarmv1.RegisterRequest) { m.NodeSignature[0] ^= 1 }},
		{"SVID signature", "/swarm/sl", "x", "SIGNATURE_REFUSED", "sl", func(_ *peer, m *swarmv1.RegisterRequest) { m.SvidSignature = nil }},
		{"signature of an address", "/swarm/swop", "x", "SIGNATURE_REFUSED", "swop", func(_ *peer, m *swarmv1.RegisterRequest) { m.AddressSignature = []byte{1} }},
		{"signature of another address", "/swarm/swop", "x", "SIGNATURE_REFUSED", "swop", func(p *peer, m *swarmv1.RegisterRequest) {
			m.AddressSignature = must(identity.SignWithSVID(must(p.source.GetX509SVID())(t), identity.AddressMessage(swarmID, "x", "127.0.0.2")))(t)
		}},
		{"an SL's signature of an address", "/swarm/sl", "x", "SIGNATURE_REFUSED", "sl", func(p *peer, m *swarmv1.RegisterRequest) {
			m.AddressSignature = must(identity.SignWithSVID(must(p.source.GetX509SVID())(t), identity.AddressMessage(swarmID, "x", "127.0.0.1")))(t)
		}},
		{"a large signature of an address", "/swarm/swop", "x", "BAD_REQUEST", "swop", func(_ *peer, m *swarmv1.RegisterRequest) { m.AddressSignature = make([]byte, 9999) }},
	} {
		p := s.as(c.path)
		m := p.registration(t, c.node, c.role, nodeKey(t))
		if c.spoil != nil {
			c.spoil(p, m)
		}
		_, err := p.nodes().Register(t.Context(), with(p, m))
		wantReason(t, c.name, err, c.want)
	}
	if got := len(s.core.View().Nodes); got != 2 { // with the SN
		t.Errorf("%d nodes are registered", got)
	}
}

func TestRegistrationIsBoundToNonceAndConnection(t *testing.T) {
	s := newSwarm(t)
	key := nodeKey(t)
	source := s.source("/swarm/sl")
	p := s.connect(source)
	m := p.registration(t, "sl-0", identity.RoleSL, key)
	if _, err := p.nodes().Register(t.Context(), with(p, m)); err != nil {
		t.Fatal(err)
	}
	_, err := p.nodes().Register(t.Context(), with(p, m))
	wantReason(t, "replayed nonce", err, "NONCE_REFUSED")

	// The same signatures over another connection of the same identity: what a proxy that ends TLS could do.
	m = p.registration(t, "sl-0", identity.RoleSL, key)
	q := s.connect(source)
	_, err = q.nodes().Register(t.Context(), with(q, m))
	wantReason(t, "another connection", err, "SIGNATURE_REFUSED")

	// A fresh one by the same key is welcome, and keeps the name.
	p.register(t, "sl-0", key)
	if err := report(t, p); err != nil {
		t.Error(err)
	}
}

func TestForgetNode(t *testing.T) {
	s := newSwarm(t)
	s.as("/swarm/sl").register(t, "sl-0", nodeKey(t))
	p := s.as("/swarm/swci")
	forget := func(name string) error {
		_, err := p.nodes().ForgetNode(t.Context(), signed(p, &swarmv1.ForgetNodeRequest{Name: name}))
		return err
	}
	wantReason(t, "live", forget("sl-0"), "NODE_LIVE")
	wantReason(t, "unknown", forget("sl-9"), "NODE_UNKNOWN")
	must(s.core.Propose(t.Context(), state.SetLive{Node: "sl-0"}))(t)
	if err := forget("sl-0"); err != nil || len(s.core.View().Nodes) != 1 {
		t.Errorf("forget: %v, %d nodes left", err, len(s.core.View().Nodes))
	}
}

func TestRequestSizeIsBounded(t *testing.T) {
	s := newSwarm(t)
	p := s.as("/swarm/swci")
	_, err := p.contracts().ResetContract(t.Context(), with(p, &swarmv1.ResetContractRequest{Contract: strings.Repeat("x", rpc.MaxMessage+1)}))
	if connect.CodeOf(err) != connect.CodeResourceExhausted && connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("got %v", err)
	}
}

func TestNoLeader(t *testing.T) {
	s := newSwarm(t)
	p := s.as("/swarm/swci")
	reset := signed(p, &swarmv1.ResetContractRequest{Contract: state.DefaultContract})
	s.core.SetLeader("")
	_, err := p.contracts().ResetContract(t.Context(), reset)
	wantReason(t, "reset", err, "NO_LEADER")
	_, err = p.nodes().Challenge(t.Context(), with(p, &swarmv1.ChallengeRequest{}))
	wantReason(t, "nonce for an operator", err, "NO_LEADER")
	st, err := p.contracts().GetContractStatus(t.Context(), with(p, &swarmv1.GetContractStatusRequest{Contract: state.DefaultContract}))
	if err != nil || !strings.Contains(st.Msg.GetWaiting(), "no leader") {
		t.Errorf("status without a leader: %v %v", st, err)
	}
}
