package nodetest_test

import (
	"context"
	"math"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/node/nodetest"
)

// rogueAPI is what an SN tells the SLs that ask it: that it has registered them and opened their sessions, of which the swarm hears
// nothing.
type rogueAPI struct {
	swarmv1connect.UnimplementedSessionServiceHandler

	lie func(v *swarmv1.ContractView) // what else it says of the contract

	mu      sync.Mutex // guards what follows
	node    *swarmv1.Node
	open    *swarmv1.OpenSessionRequest
	ready   uint64
	changed chan struct{}
}

// before stands in front of the SN's true API.
func (r *rogueAPI) before(genuine http.Handler) http.Handler {
	mux := http.NewServeMux()
	register := connect.NewUnaryHandler(swarmv1connect.NodeServiceRegisterProcedure, r.register)
	mux.Handle(swarmv1connect.NodeServiceRegisterProcedure, register)
	mux.Handle(swarmv1connect.NewSessionServiceHandler(r))
	mux.Handle("/", genuine)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Swarm-Id", nodetest.SwarmID)
		mux.ServeHTTP(w, req)
	})
}

func (r *rogueAPI) register(_ context.Context, req *connect.Request[swarmv1.RegisterRequest]) (*connect.Response[swarmv1.RegisterResponse], error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.node = req.Msg.GetNode()
	sns := []*swarmv1.Node{{Name: "sn-1", Host: "sn-1", ApiPort: 30304}, {Name: "sn-2", Host: "sn-2", ApiPort: 30304}, {Name: "sn-0", Host: "sn-0", ApiPort: 30304}}
	return connect.NewResponse(&swarmv1.RegisterResponse{SwarmId: nodetest.SwarmID, Token: make([]byte, 32), Sns: sns}), nil
}

func (r *rogueAPI) OpenSession(_ context.Context, req *connect.Request[swarmv1.OpenSessionRequest]) (*connect.Response[swarmv1.OpenSessionResponse], error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = req.Msg
	return connect.NewResponse(&swarmv1.OpenSessionResponse{Contract: r.viewLocked()}), nil
}

func (r *rogueAPI) Report(_ context.Context, req *connect.Request[swarmv1.ReportRequest]) (*connect.Response[swarmv1.ReportResponse], error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range req.Msg.GetSessions() {
		if s.GetReady().GetSeq() > r.ready {
			r.ready = s.GetReady().GetSeq()
			close(r.changed)
			r.changed = make(chan struct{})
		}
	}
	return connect.NewResponse(&swarmv1.ReportResponse{Leader: "sn-1"}), nil
}

func (r *rogueAPI) WatchContract(ctx context.Context, _ *connect.Request[swarmv1.WatchContractRequest], stream *connect.ServerStream[swarmv1.ContractView]) error {
	for {
		r.mu.Lock()
		v, changed := r.viewLocked(), r.changed
		r.mu.Unlock()
		if err := stream.Send(v); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-time.After(15 * time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (r *rogueAPI) viewLocked() *swarmv1.ContractView {
	v := &swarmv1.ContractView{Name: nodetest.Contract, Run: 1, Index: 10 + r.ready, Phase: "training"}
	if r.open != nil {
		v.Terms = &swarmv1.Terms{LayoutDigest: r.open.GetTerms().GetLayoutDigest(), Method: "mean", MinPeers: 2}
		v.Sessions = []*swarmv1.Session{{
			Id: r.open.GetSession(), Node: r.node.GetName(), PeerId: r.node.GetPeerId(), Live: true, State: "open", Run: 1, Weight: 1,
			SpiffeId: "spiffe://swarm.test/swarm/sl/sl-1",
		}}
		r.lie(v)
	}
	return v
}

// TestASessionAtARogueSNAlone: an SL registers and opens its session at an SN that keeps both to itself. The swarm gets it all the same, and
// everybody trains to the end.
func TestASessionAtARogueSNAlone(t *testing.T) {
	for name, lie := range map[string]func(r *rogueAPI, v *swarmv1.ContractView){
		"that plans with itself": func(r *rogueAPI, v *swarmv1.ContractView) {
			evil := &swarmv1.Session{Id: "evil", Node: "evil", PeerId: "evil", SpiffeId: "spiffe://swarm.test/swarm/sn/sn-1", Live: true, State: "open", Run: 1}
			v.Sessions = append(v.Sessions, evil)
			if r.ready > 0 {
				me := v.GetSessions()[0]
				v.Plan = &swarmv1.Plan{Run: 1, Round: 1, Attempt: 1, Method: "mean", Participants: []*swarmv1.Participant{
					{Session: me.GetId(), Node: me.GetNode(), PeerId: me.GetPeerId(), SpiffeId: me.GetSpiffeId(), Weight: 1, Seq: r.ready},
					{Session: "evil", Node: "evil", PeerId: "evil", SpiffeId: evil.GetSpiffeId(), Weight: 1, Seq: 1, ShardLeaves: 2},
				}}
			}
		},
		"that says nothing":    func(*rogueAPI, *swarmv1.ContractView) {},
		"that tells of a run":  func(_ *rogueAPI, v *swarmv1.ContractView) { v.Run, v.Index, v.Sessions[0].Run = 7, math.MaxUint64, 7 },
		"that tells of rounds": func(_ *rogueAPI, v *swarmv1.ContractView) { v.Committed = &swarmv1.CommittedRound{Round: 50} },
		"that has it closed":   func(_ *rogueAPI, v *swarmv1.ContractView) { v.Sessions[0].State = "closed" },
	} {
		for _, alone := range []bool{false, true} {
			if alone && name != "that says nothing" && name != "that plans with itself" {
				continue // the contract that nobody knows is the same
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := &rogueAPI{changed: make(chan struct{})}
					r.lie = func(v *swarmv1.ContractView) { lie(r, v) }
					cfg := nodetest.Config{SNs: 3, SLs: 3, Steps: 3, API: map[string]func(http.Handler) http.Handler{"sn-1": r.before}}
					if alone { // nobody else tells the swarm of the contract
						cfg.MinPeers, cfg.Late = 1, []string{"sl-0", "sl-2"}
					}
					s := nodetest.New(t, cfg)
					began := time.Now()
					s.Wait()
					if took := time.Since(began); took > time.Minute {
						t.Errorf("it took %s", took)
					}
					if err := s.Run("sl-1").Err(); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}
