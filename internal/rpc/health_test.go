package rpc_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/rpc"
)

func TestIsUpSaysWhyNot(t *testing.T) {
	s := newSwarm(t)
	p := s.as("/swarm/swci")
	ask := func() (*http.Response, string) {
		res, err := p.http.Get(p.url() + "/is_up")
		if err != nil {
			t.Fatal(err)
		}
		body := must(io.ReadAll(res.Body))(t)
		_ = res.Body.Close()
		return res, string(body)
	}
	res, body := ask()
	if res.StatusCode != http.StatusOK || body != "OK" || res.Header.Get(rpc.HeaderHealthyUntil) != "2027-01-15T08:00:00Z" {
		t.Errorf("healthy: %s %q %v", res.Status, body, res.Header)
	}
	s.health.Store(&swarmv1.NodeHealth{Name: "sn-0", Reason: "no raft leader has heard of it for 2 minutes"})
	res, body = ask()
	if res.StatusCode != http.StatusServiceUnavailable || body != "unhealthy: no raft leader has heard of it for 2 minutes\n" || res.Header.Get(rpc.HeaderHealthyUntil) != "" {
		t.Errorf("unhealthy: %s %q %v", res.Status, body, res.Header)
	}
}

// healths asks as swarmctl does; the nodes by name.
func (s *swarm) healths() map[string]*swarmv1.NodeHealth {
	s.t.Helper()
	p := s.as("/swarm/swci")
	res, err := swarmv1connect.NewSwarmServiceClient(p.http, p.url()).GetHealth(s.t.Context(), with(p, &swarmv1.GetHealthRequest{}))
	if err != nil {
		s.t.Fatal(err)
	}
	out := map[string]*swarmv1.NodeHealth{}
	for _, n := range res.Msg.GetNodes() {
		out[n.GetName()] = n
	}
	if len(out) != len(res.Msg.GetNodes()) {
		s.t.Errorf("a node is told twice: %v", res.Msg)
	}
	return out
}

func (p *peer) report(t *testing.T, h *swarmv1.NodeHealth) error {
	t.Helper()
	_, err := p.sessions().Report(t.Context(), with(p, &swarmv1.ReportRequest{Health: h}))
	return err
}

// wellNode is what a healthy node reports.
func wellNode() *swarmv1.NodeHealth {
	now := time.Now()
	return &swarmv1.NodeHealth{
		Healthy: true, Source: "files", SvidNotBeforeUnixMs: now.Add(-time.Minute).UnixMilli(), SvidNotAfterUnixMs: now.Add(time.Hour).UnixMilli(),
	}
}

func TestGetHealth(t *testing.T) {
	s := newSwarm(t)
	p := s.as("/swarm/sl")
	p.register(t, "sl-0", nodeKey(t))
	q := s.as("/swarm/sl")
	q.register(t, "sl-1", nodeKey(t))

	got := s.healths()
	if len(got) != 3 || !got["sn-0"].GetHealthy() || got["sl-0"].GetHealthy() || !strings.Contains(got["sl-0"].GetReason(), "has not heard of it") {
		t.Errorf("before the first report: %v", got)
	}
	h := wellNode()
	h.Name, h.SpiffeId, h.LeaderSeenUnixMs = "sl-1", "spiffe://evil.example/swarm/sn", 42 // not for it to say
	if err := p.report(t, h); err != nil {
		t.Fatal(err)
	}
	x := s.healths()["sl-0"]
	if !x.GetHealthy() || x.GetUntilUnixMs() == 0 || x.GetLeaderSeenUnixMs() < time.Now().Add(-time.Minute).UnixMilli() || x.GetSpiffeId() != "spiffe://hospital.example/swarm/sl" || x.GetRole() != "sl" {
		t.Errorf("healthy: %v", x)
	}
	if x := s.healths()["sl-1"]; x.GetHealthy() {
		t.Errorf("a node speaks for another: %v", x)
	}

	h = wellNode()
	h.Healthy, h.Reason, h.Warnings = false, "line\none\x1b[31m"+strings.Repeat("x", 600), append(make([]string, 20), "far away")
	h.Warnings[0] = "certificate expires in 10 minutes\r"
	if err := p.report(t, h); err != nil {
		t.Fatal(err)
	}
	x = s.healths()["sl-0"]
	if x.GetHealthy() || len(x.GetReason()) > 512 || strings.ContainsAny(x.GetReason(), "\n\x1b") || !strings.HasPrefix(x.GetReason(), "line one") || len(x.GetWarnings()) != 8 || strings.Contains(x.GetWarnings()[0], "\r") {
		t.Errorf("a node's own words: %v", x)
	}
	if err := p.report(t, &swarmv1.NodeHealth{Reason: strings.Repeat("x", 17<<10)}); reason(err) != "BAD_REQUEST" {
		t.Errorf("an endless reason is taken: %v", err)
	}
	if err := p.report(t, nil); err != nil {
		t.Fatal(err)
	}
	if x := s.healths()["sl-0"]; x.GetHealthy() || !strings.Contains(x.GetReason(), "does not report its health") {
		t.Errorf("no health: %v", x)
	}
}

func TestHealthGoesStale(t *testing.T) {
	s := newSwarm(t)
	p := s.as("/swarm/sl")
	p.register(t, "sl-0", nodeKey(t))
	if err := p.report(t, wellNode()); err != nil {
		t.Fatal(err)
	}
	s.later.Store(int64(2 * time.Minute))
	if x := s.healths()["sl-0"]; x.GetHealthy() || x.GetUntilUnixMs() != 0 || !strings.Contains(x.GetReason(), "for 2 minutes") {
		t.Errorf("a node that fell silent: %v", x)
	}
	must(s.core.Propose(t.Context(), state.SetLive{Node: "sl-0", Live: false, AtMS: 5}))(t)
	if x := s.healths()["sl-0"]; x.GetHealthy() || !strings.Contains(x.GetReason(), "swarmctl forget node sl-0") {
		t.Errorf("a node that is dead: %v", x)
	}
	s.later.Store(int64(45 * time.Minute)) // of a life of an hour
	if err := p.report(t, wellNodeAt(s, -45*time.Minute)); err != nil {
		t.Fatal(err)
	}
	if x := s.healths()["sl-0"]; x.GetHealthy() || !strings.Contains(x.GetReason(), "not renewed on schedule") {
		t.Errorf("a node whose clock stands still: %v", x)
	}
	id := s.core.View().Nodes["sl-0"].PeerID
	must(s.core.Propose(t.Context(), state.BanNode{PeerID: id, By: "spiffe://hospital.example/swarm/swci", AtMS: 4}))(t)
	if x := s.healths()["sl-0"]; x.GetHealthy() || !strings.Contains(x.GetReason(), "swarmctl unban node sl-0") {
		t.Errorf("a node that is banned: %v", x)
	}
	s.core.SetLeader("")
	if x := s.healths()["sl-0"]; x.GetHealthy() || !strings.Contains(x.GetReason(), "no leader") {
		t.Errorf("without a leader: %v", x)
	}
}

// wellNodeAt is a report whose certificate began so long before the SN's present time and lives an hour.
func wellNodeAt(s *swarm, began time.Duration) *swarmv1.NodeHealth {
	begin := time.Now().Add(time.Duration(s.later.Load())).Add(began)
	return &swarmv1.NodeHealth{Healthy: true, SvidNotBeforeUnixMs: begin.UnixMilli(), SvidNotAfterUnixMs: begin.Add(time.Hour).UnixMilli()}
}

func TestStatusCarriesTheWarningsOfItsNodes(t *testing.T) {
	s := newSwarm(t)
	p := s.as("/swarm/sl")
	p.register(t, "sl-0", nodeKey(t))
	idle := s.as("/swarm/sl")
	idle.register(t, "sl-1", nodeKey(t))
	view := must(p.open(t, idA, wireTerms(layout(t, 100), 2)))(t)
	for _, x := range []*peer{p, idle} {
		h := wellNode()
		h.Warnings = []string{"certificate expires in 10 minutes"}
		if err := x.report(t, h); err != nil {
			t.Fatal(err)
		}
	}
	s.health.Store(&swarmv1.NodeHealth{Name: "sn-0", Role: "sn", Healthy: true, Warnings: []string{"certificate expires in 2 days"}})
	res := must(p.contracts().GetContractStatus(t.Context(), with(p, &swarmv1.GetContractStatusRequest{Contract: view.GetName()})))(t)
	want := "node sn-0: certificate expires in 2 days|node sl-0: certificate expires in 10 minutes"
	if got := strings.Join(res.Msg.GetWarnings(), "|"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestStatusNamesSPIFFEIDsThatNodesShare(t *testing.T) {
	s := newSwarm(t)
	var view *swarmv1.ContractView
	for i, path := range []string{"/swarm/sl", "/swarm/sl", "/swarm/sl/sl-2"} {
		p := s.as(path)
		p.register(t, fmt.Sprintf("sl-%d", i), nodeKey(t))
		view = must(p.open(t, fmt.Sprintf("%032x", i+1), wireTerms(layout(t, 100), 2)))(t)
	}
	p := s.as("/swarm/sl/sl-2")
	res := must(p.contracts().GetContractStatus(t.Context(), with(p, &swarmv1.GetContractStatusRequest{Contract: view.GetName()})))(t)
	got := strings.Join(res.Msg.GetWarnings(), "|")
	if !strings.Contains(got, "sl-0, sl-1 share the SPIFFE ID spiffe://") || !strings.HasSuffix(got, ": swarmctl invite sl/NAME") || strings.Contains(got, "sl-2") {
		t.Errorf("warnings: %q", got)
	}
}

func TestForwardedHealthIsAskedOfTheLeaderOnly(t *testing.T) {
	s := newSwarm(t)
	asked := 0
	broken := false
	between := s.server.Between()
	s.core.Serve("sn-1", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked++; broken {
			w.Header().Set("Content-Type", "application/proto")
			_, _ = w.Write([]byte{0xff})
			return
		}
		between.ServeHTTP(w, r)
	}))
	p := s.as("/swarm/sl")
	p.register(t, "sl-0", nodeKey(t))
	if err := p.report(t, wellNode()); err != nil {
		t.Fatal(err)
	}
	s.core.SetLeader("sn-1")
	if got := s.healths(); asked != 1 || !got["sl-0"].GetHealthy() || got["sn-0"] == nil || len(got) != 2 {
		t.Errorf("asked %d times: %v", asked, got)
	}
	broken = true
	if got := s.healths(); !got["sn-0"].GetHealthy() || got["sl-0"].GetHealthy() || !strings.Contains(got["sl-0"].GetReason(), "the leader does not tell") {
		t.Errorf("an answer that does not parse: %v", got)
	}
}

// TestOperatorsWatchForChanges: the first message comes at once, one behind each change, and changes that come close together are told as one.
func TestOperatorsWatchForChanges(t *testing.T) {
	s := newSwarm(t)
	p := s.as("/swarm/swci")
	stream, err := swarmv1connect.NewSwarmServiceClient(p.http, p.url()).WatchSwarm(t.Context(), with(p, &swarmv1.WatchSwarmRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	next := func() uint64 {
		t.Helper()
		if !stream.Receive() {
			t.Fatal(stream.Err())
		}
		return stream.Msg().GetIndex()
	}
	first := next()
	if now := s.core.Index(); first != now {
		t.Errorf("told of index %d, at %d", first, now)
	}
	for i := range 50 {
		must(s.core.Propose(t.Context(), state.CreateContract{Contract: fmt.Sprint("c", i)}))(t)
	}
	messages := 0
	for last := first; last < s.core.Index(); messages++ {
		last = next()
	}
	if messages > 10 {
		t.Errorf("50 changes were told in %d messages", messages)
	}
	s.server.Stop()
	if stream.Receive() {
		t.Errorf("after the stop: %v", stream.Msg())
	}
	wantReason(t, "the stop", stream.Err(), "STOPPING")
}
