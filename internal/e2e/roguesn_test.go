package e2e_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/e2e/e2etest"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/p2p/p2ptest"
	"github.com/swarmd/swarmd/internal/peering"
	"github.com/swarmd/swarmd/merge"
)

// TestSLGivesARogueSNNothing has an SL begin at an SN that lies about the plan: it names itself, with a node key and an SVID
// that it has, as the owner of the whole model. The SL says what is wrong, sends not a byte of its parameters, opens its session
// anew at an SN that does not lie, and trains with the others, who need it.
func TestSLGivesARogueSNNothing(t *testing.T) {
	e2etest.NeedPython(t)
	t.Parallel()
	w := newSwarm(t)
	w.namedAuthority("evil", "/swarm/sn/evil", 3)
	w.SN(1).Sees(apiMarker)
	r := startRogueSN(t, w)
	at := func(sl, sn int) *e2etest.Proc {
		return e2etest.Start(t, fmt.Sprintf("sl-%d", sl), w.Dir, nil, append(w.SLArgs(sl, "CONTRACT=lie", "MIN_PEERS=3"), "--sn-ip", w.Addr(sn))...)
	}
	honest, victim := at(2, 1), at(1, r.address)
	victim.Sees("plan of a round refused; nothing was sent", "evil: the swarm shows no registration that its own SVID has signed (SN "+w.Addr(r.address)+":30304 says so)")
	victim.Sees("the swarm did not know this session; it was opened anew")
	finish(t, honest, victim, at(3, 1))
	w.Agree(1, 2, 3)
	if n := r.stolen.Load(); n > 0 {
		t.Errorf("the rogue got %d bytes over merge streams", n)
	}
}

const rogueName = "evil"

// rogueSN is an SN's API that says what it likes to one SL, and a file server that takes what comes.
type rogueSN struct {
	swarmv1connect.UnimplementedSwarmServiceHandler
	swarmv1connect.UnimplementedNodeServiceHandler
	swarmv1connect.UnimplementedSessionServiceHandler

	address int // of the swarm's addresses
	swarmID string
	sns     []*swarmv1.Node // of the true swarm
	host    *p2p.Host
	own     *swarmv1.Participant
	api     *http.Server
	stolen  atomic.Int64 // bytes that came over merge streams

	// mu guards what follows.
	mu      sync.Mutex
	victim  *swarmv1.Node
	open    *swarmv1.OpenSessionRequest
	seq     uint64        // that the victim is ready with
	changed chan struct{} // closed and replaced when the victim is ready
}

func startRogueSN(t *testing.T, w *swarm) *rogueSN {
	t.Helper()
	src, domains := w.sourceOf("evil"), ownDomain(t)
	honest, err := w.clientAs(w.sourceOf("sl-2"), nil).GetSwarm(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := &rogueSN{address: 99, swarmID: honest.GetSwarmId(), sns: honest.GetSns(), changed: make(chan struct{})}
	r.host = p2ptest.Start(t, p2p.Config{
		Key: p2ptest.NewKey(t), Source: src, Domains: domains, ListenAddrs: []string{w.Addr(r.address) + ":0"},
		SwarmID: func() string { return r.swarmID }, Log: slog.New(slog.DiscardHandler),
	})
	r.host.Handle(peering.Protocol, p2p.Policy{Roles: []identity.Role{identity.RoleSL}}, func(_ context.Context, s *p2p.Stream) {
		for buf := make([]byte, 4096); ; {
			n, err := s.Read(buf)
			r.stolen.Add(int64(n))
			if err != nil {
				return
			}
		}
	})
	at := p2ptest.AddrOf(t, r.host)
	r.own = &swarmv1.Participant{
		Session: strings.Repeat("e", 32), Node: rogueName, PeerId: r.host.ID().String(), SpiffeId: src.ID().String(),
		Host: at.Host, FsPort: uint32(at.Port), Weight: 1, Seq: 1,
	}
	mux := http.NewServeMux()
	mux.Handle(swarmv1connect.NewSwarmServiceHandler(r))
	mux.Handle(swarmv1connect.NewNodeServiceHandler(r))
	mux.Handle(swarmv1connect.NewSessionServiceHandler(r))
	r.api = &http.Server{
		TLSConfig: identity.ServerTLS(src, domains, identity.RoleSL), ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: e2etest.Timeout,
		Handler: http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
			rw.Header().Set("Swarm-Id", r.swarmID)
			mux.ServeHTTP(rw, req)
		}),
	}
	l, err := net.Listen("tcp", net.JoinHostPort(w.Addr(r.address), apiPort))
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = r.api.ServeTLS(l, "", "")
	}()
	t.Cleanup(func() {
		_ = r.api.Close()
		<-served
	})
	return r
}

func (r *rogueSN) GetSwarm(context.Context, *connect.Request[swarmv1.GetSwarmRequest]) (*connect.Response[swarmv1.GetSwarmResponse], error) {
	return connect.NewResponse(&swarmv1.GetSwarmResponse{SwarmId: r.swarmID, Sns: r.sns, Leader: rogueName}), nil
}

func (r *rogueSN) Challenge(context.Context, *connect.Request[swarmv1.ChallengeRequest]) (*connect.Response[swarmv1.ChallengeResponse], error) {
	return connect.NewResponse(&swarmv1.ChallengeResponse{Nonce: make([]byte, 32)}), nil
}

func (r *rogueSN) Register(_ context.Context, req *connect.Request[swarmv1.RegisterRequest]) (*connect.Response[swarmv1.RegisterResponse], error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.victim = req.Msg.GetNode()
	return connect.NewResponse(&swarmv1.RegisterResponse{SwarmId: r.swarmID, Token: make([]byte, 32), Sns: r.sns}), nil
}

func (r *rogueSN) OpenSession(_ context.Context, req *connect.Request[swarmv1.OpenSessionRequest]) (*connect.Response[swarmv1.OpenSessionResponse], error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	layout, err := merge.ParseLayout(req.Msg.GetTerms().GetLayout())
	if err != nil {
		return nil, err
	}
	r.open, r.own.ShardLeaves = req.Msg, uint64(layout.Leaves())
	return connect.NewResponse(&swarmv1.OpenSessionResponse{Contract: r.viewLocked()}), nil
}

func (r *rogueSN) Report(_ context.Context, req *connect.Request[swarmv1.ReportRequest]) (*connect.Response[swarmv1.ReportResponse], error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range req.Msg.GetSessions() {
		if seq := s.GetReady().GetSeq(); seq > r.seq {
			r.seq = seq
			close(r.changed)
			r.changed = make(chan struct{})
		}
	}
	return connect.NewResponse(&swarmv1.ReportResponse{Leader: rogueName}), nil
}

func (r *rogueSN) WatchContract(ctx context.Context, _ *connect.Request[swarmv1.WatchContractRequest], stream *connect.ServerStream[swarmv1.ContractView]) error {
	tick := time.NewTicker(15 * time.Second)
	defer tick.Stop()
	for {
		r.mu.Lock()
		view, changed := r.viewLocked(), r.changed
		r.mu.Unlock()
		if err := stream.Send(view); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-tick.C: // as SNs do, so that the stream is known to live
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// viewLocked is the lie: once the victim is ready, a plan in which the rogue owns all.
func (r *rogueSN) viewLocked() *swarmv1.ContractView {
	v := &swarmv1.ContractView{Name: "lie", Run: 1, Phase: "training", Index: 10 + r.seq, ExpectedPeers: 2}
	if r.open == nil {
		return v
	}
	terms := r.open.GetTerms()
	v.Terms = &swarmv1.Terms{LayoutDigest: terms.GetLayoutDigest(), Method: "mean", MinPeers: 2, Leaves: r.own.GetShardLeaves()}
	victim := &swarmv1.Participant{
		Session: r.open.GetSession(), Node: r.victim.GetName(), PeerId: r.victim.GetPeerId(), SpiffeId: "spiffe://swarm.learning/swarm/sl/sl-1",
		Host: r.victim.GetHost(), FsPort: r.victim.GetFsPort(), Weight: 1, Seq: r.seq,
	}
	both := []*swarmv1.Participant{victim, r.own}
	for _, p := range both {
		v.Sessions = append(v.Sessions, &swarmv1.Session{
			Id: p.Session, Node: p.Node, PeerId: p.PeerId, Host: p.Host, FsPort: p.FsPort, Live: true, State: "open", CheckinMode: "snapshot",
			Weight: p.Weight, LastSeq: p.Seq, Run: 1, SpiffeId: p.SpiffeId,
		})
	}
	if r.seq > 0 {
		v.Plan = &swarmv1.Plan{Run: 1, Round: 1, Attempt: 1, Method: "mean", Participants: both}
	}
	return v
}
