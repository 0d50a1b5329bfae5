package peering

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/embedded"
	"github.com/swarmd/swarmd/identity/pattern"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/p2p/p2ptest"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session"
	"github.com/swarmd/swarmd/internal/session/models"
	"github.com/swarmd/swarmd/internal/trust"
	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange"
)

// slotsInMemory are weight files of a session.
type slotsInMemory [3]buffer

func (s *slotsInMemory) Local() models.Slot     { return s[0] }
func (s *slotsInMemory) LocalName() string      { return "local" }
func (s *slotsInMemory) Merging() models.Slot   { return s[1] }
func (s *slotsInMemory) Committed() models.Slot { return s[2] }
func (s *slotsInMemory) Merged(string)          {}
func (s *slotsInMemory) Commit() string         { s[1], s[2] = s[2], s[1]; return "merged" }
func (s *slotsInMemory) Close() error           { return nil }

// rogueView is an SN that an SL watches, and that says what it likes: as soon as the SL is ready it plans a round of it and an
// accomplice.
type rogueView struct {
	me, evil *round.Session
	leaves   uint64
	proof    *trust.Proof // what it shows as the accomplice's registration

	mu     sync.Mutex // guards what follows
	report *round.Report
	told   chan struct{} // capacity 1: there is a report
	plans  chan *round.View
}

func (r *rogueView) view(id string, index uint64) *round.View {
	me := *r.me // the engine keeps what it was shown
	me.ID = id
	return &round.View{Name: "c", Run: 1, Index: index, Sessions: []*round.Session{&me, r.evil}}
}

func (r *rogueView) Open(_ context.Context, req *round.Open) (*round.View, error) {
	return r.view(req.Session, 1), nil
}

func (r *rogueView) Close(context.Context, round.Close) (*round.View, error) {
	return nil, errors.New("no")
}
func (r *rogueView) End(context.Context, round.End) error            { return nil }
func (r *rogueView) Waiting(context.Context, string) (string, error) { return "", nil }
func (r *rogueView) Report(_ context.Context, said *round.Report) (round.Answer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if said.Session != "" {
		r.report = said
		select {
		case r.told <- struct{}{}:
		default:
		}
	}
	return round.Answer{}, nil
}

func (r *rogueView) Watch(ctx context.Context, _ string, fn func(*round.View)) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case v := <-r.plans:
			fn(v)
		}
	}
}

// until waits for a report.
func (r *rogueView) until(t *testing.T, what string, ok func(*round.Report) bool) *round.Report {
	t.Helper()
	for {
		r.mu.Lock()
		report := r.report
		r.mu.Unlock()
		if report != nil && ok(report) {
			return report
		}
		select {
		case <-r.told:
		case <-t.Context().Done():
			t.Fatal("waited for " + what)
		}
	}
}

func (r *rogueView) plan(id string) *round.View {
	v := r.view(id, 2)
	v.Plan = &round.Plan{Run: 1, Round: 1, Attempt: 1, Method: "mean", Participants: []*round.Participant{
		{Session: id, Node: r.me.Node, PeerID: r.me.PeerID, SPIFFEID: r.me.SPIFFEID, Host: r.me.Host, FSPort: r.me.FSPort, Weight: 1, Seq: 1, Shards: []state.LeafRun{{Leaves: r.leaves / 2}}},
		{
			Session: r.evil.ID, Node: r.evil.Node, PeerID: r.evil.PeerID, SPIFFEID: r.evil.SPIFFEID, Host: r.evil.Host, FSPort: r.evil.FSPort,
			Weight: 1, Seq: 1, Shards: []state.LeafRun{{First: r.leaves / 2, Leaves: r.leaves - r.leaves/2}},
		},
	}}
	return v
}

// TestWhomARogueSNPlans: an SL that hears of the swarm by a rogue SN only, over real connections. The SN's accomplice is a genuine SL with
// an SVID; what keeps parameters from it is the owner's list, and that its registration must be its own.
func TestWhomARogueSNPlans(t *testing.T) {
	swarm := p2ptest.New(t, func(c *embedded.Config) {
		c.Paths = map[string][]string{"me": {"/swarm/sl/me"}, "evil": {"/swarm/sl/evil"}, "liar": {"/swarm/sn/liar"}}
	})
	layout, err := merge.NewLayout([]merge.Tensor{{Name: "w", DType: merge.Float32, Shape: []int64{1 << 18}}})
	if err != nil {
		t.Fatal(err)
	}
	const evil = "spiffe://swarm.learning/swarm/sl/evil"
	for _, tt := range []struct {
		name   string
		allow  string // --allow-peer
		signer string // whose SVID signs for the accomplice's node key
		want   string // why nothing is sent; empty: it is
	}{
		{"an accomplice that the owner's list names", evil, "evil", ""},
		{"an accomplice that no list keeps away", "", "evil", ""},
		{"an accomplice that the owner's list does not name", "spiffe://swarm.learning/swarm/sl/friend", "evil", "--allow-peer"},
		{"a registration that the SN has signed itself", "", "liar", "role sn"},
		{"a registration of another node", "", "me", "signed by spiffe://swarm.learning/swarm/sl/me"},
		{"no registration", "", "", "gives no registration"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			accomplice := newAccomplice(t, swarm)
			cfg := swarm.Config(identity.RoleSL, "5eed")
			cfg.Source = swarm.Source("me", "me")
			host := p2ptest.Start(t, cfg)
			at, own := p2ptest.AddrOf(t, accomplice.host), p2ptest.AddrOf(t, host)
			sn := &rogueView{
				me:     &round.Session{Node: "me", PeerID: host.ID().String(), SPIFFEID: "spiffe://swarm.learning/swarm/sl/me", Host: own.Host, FSPort: uint32(own.Port), State: "open", Live: true, Run: 1},
				evil:   &round.Session{ID: "evil", Node: "evil", PeerID: accomplice.host.ID().String(), SPIFFEID: evil, Host: at.Host, FSPort: uint32(at.Port), State: "open", Live: true, Run: 1, Proof: "d"},
				leaves: uint64(layout.Leaves()), told: make(chan struct{}, 1), plans: make(chan *round.View, 1),
			}
			if tt.signer != "" {
				sn.proof = signedBy(t, swarm.Source(tt.signer, tt.signer), "evil", sn.evil.PeerID)
			}
			var allow pattern.List
			if tt.allow != "" {
				if allow, err = pattern.ParseList([]string{tt.allow}); err != nil {
					t.Fatal(err)
				}
			}
			guard := trust.New(trust.Config{
				Source: cfg.Source, Domains: swarm.Domains, SwarmID: cfg.SwarmID, Allow: allow, Log: slog.New(slog.DiscardHandler),
				Ask: func(context.Context, []string) (out []*trust.Proof, _ error) {
					if sn.proof != nil {
						out = append(out, sn.proof)
					}
					return out, nil
				},
			})
			hub := exchange.NewHub(HubConfig(cfg.Key))
			t.Cleanup(hub.Close)
			x := &Exchanger{Hub: hub, Network: Links{host.Network(), guard}, Key: cfg.Key, Peer: "me"}
			engine := session.New(session.Config{
				Peer: "me", Control: sn, Explainer: sn, Exchange: x, Trust: guard, Log: slog.New(slog.DiscardHandler),
				NewSlots: func(n int64) (models.Slots, error) {
					return &slotsInMemory{make(buffer, n), make(buffer, n), make(buffer, n)}, nil
				},
			})
			Serve(Links{host.Network(), guard}, hub, engine, nil, slog.New(slog.DiscardHandler))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			ran := make(chan error, 1)
			go func() { ran <- engine.Run(ctx) }()
			t.Cleanup(func() { cancel(); <-ran })
			<-engine.Running()
			opened, err := engine.Open(ctx, round.Open{Contract: "c", Terms: round.Terms{MinPeers: 1, Method: "mean"}, SyncFrequency: 1, CheckinMode: "snapshot", Weight: 1}, layout)
			if err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = engine.Sync(ctx, opened.Session, 1, 1) }()
			ready := sn.until(t, "readiness", func(r *round.Report) bool {
				return r.Ready != nil && (len(r.Ready.Refuses) > 0) == (tt.want != "")
			})
			plan := sn.plan(opened.Session)
			accomplice.join(ctx, plan.Plan, layout)
			sn.plans <- plan
			report := sn.until(t, "the attempt's end", func(r *round.Report) bool { return r.Done != nil || r.Failed != nil })
			if tt.want == "" {
				if report.Done == nil || x.Hub.SentBytes() < uint64(layout.Bytes())/2 {
					t.Errorf("%d bytes sent, %v", x.Hub.SentBytes(), report.Failed)
				}
				return
			}
			if f := report.Failed; x.Hub.SentBytes() > 0 || f.Code != round.CodeRefused || !strings.Contains(f.Reason, tt.want) || f.Blamed != "" {
				t.Errorf("%d bytes sent, report %v", x.Hub.SentBytes(), report)
			}
			if got := ready.Ready.Refuses; len(got) != 1 || got[0] != "evil" {
				t.Errorf("the leader is told that it refuses %v", got)
			}
		})
	}
}

// accomplice is an SL that takes part in whatever a rogue SN plans.
type accomplice struct {
	host *p2p.Host
	hub  *exchange.Hub
	key  crypto.PrivKey
	t    *testing.T
}

func newAccomplice(t *testing.T, swarm *p2ptest.Swarm) *accomplice {
	t.Helper()
	cfg := swarm.Config(identity.RoleSL, "5eed")
	cfg.Source = swarm.Source("evil", "evil")
	a := &accomplice{host: p2ptest.Start(t, cfg), hub: exchange.NewHub(HubConfig(cfg.Key)), key: cfg.Key, t: t}
	t.Cleanup(a.hub.Close)
	a.host.Handle(Protocol, p2p.Policy{Roles: []identity.Role{identity.RoleSL}}, func(ctx context.Context, s *p2p.Stream) {
		_ = a.hub.Serve(ctx, s, s.Peer().ID.String())
	})
	return a
}

// join takes its part in the plan.
func (a *accomplice) join(ctx context.Context, plan *round.Plan, layout *merge.Layout) {
	x := &Exchanger{Hub: a.hub, Network: Links{Host: a.host.Network()}, Key: a.key, Peer: "evil"}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = x.Merge(ctx, session.Job{
			Contract: "c", Plan: plan, Self: 1, Layout: layout, Source: make(buffer, layout.Bytes()), Merging: make(buffer, layout.Bytes()),
		})
	}()
	a.t.Cleanup(func() { cancel(); <-ended })
}

// signedBy is what an SVID signs for a node key.
func signedBy(t *testing.T, source identity.Source, name, peerID string) *trust.Proof {
	t.Helper()
	svid, err := source.GetX509SVID()
	if err != nil {
		t.Fatal(err)
	}
	sig, err := identity.SignWithSVID(svid, identity.OwnershipMessage("5eed", name, peerID))
	if err != nil {
		t.Fatal(err)
	}
	return &trust.Proof{Name: name, Chain: identity.RawChain(svid), Signature: sig}
}
