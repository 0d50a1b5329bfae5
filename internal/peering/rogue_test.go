package peering

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/embedded"
	"github.com/swarmd/swarmd/internal/fetch"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/p2p/p2ptest"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session"
	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange"
)

// buffer is a weight file in memory.
type buffer []byte

func (b buffer) ReadAt(p []byte, off int64) (int, error)  { return copy(p, b[off:]), nil }
func (b buffer) WriteAt(p []byte, off int64) (int, error) { return copy(b[off:], p), nil }

// rogueSN is an SN that takes part in a merge and serves models, as if it were an SL: what its own code would refuse.
type rogueSN struct {
	host *p2p.Host
	hub  *exchange.Hub
	sent atomic.Int64 // bytes of a made-up model that it gave out
}

func newRogueSN(t *testing.T, swarm *p2ptest.Swarm) *rogueSN {
	t.Helper()
	cfg := swarm.Config(identity.RoleSN, "5eed")
	cfg.Source = swarm.Source("evil", "evil")
	r := &rogueSN{host: p2ptest.Start(t, cfg), hub: exchange.NewHub(HubConfig(cfg.Key))}
	t.Cleanup(r.hub.Close)
	policy := p2p.Policy{Roles: []identity.Role{identity.RoleSL}}
	r.host.Handle(Protocol, policy, func(ctx context.Context, s *p2p.Stream) {
		_ = r.hub.Serve(ctx, s, s.Peer().ID.String())
	})
	open := func(context.Context, p2p.Peer, fetch.Request) (io.ReadCloser, int64, error) {
		const size = 1 << 20
		return io.NopCloser(io.TeeReader(io.LimitReader(zeros{}, size), &counter{&r.sent})), size, nil
	}
	r.host.Handle(fetch.Protocol, policy, func(ctx context.Context, s *p2p.Stream) { _ = fetch.Answer(ctx, s, open) })
	return r
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

type counter struct{ n *atomic.Int64 }

func (c *counter) Write(p []byte) (int, error) { c.n.Add(int64(len(p))); return len(p), nil }

// TestNoModelGoesToARogueSN: an SL that follows a rogue SN's view sends it nothing, and takes no model from it. The plan names
// the SN itself, with its own node key and the SPIFFE ID that it proves, as the owner of all; the committed model is its own.
func TestNoModelGoesToARogueSN(t *testing.T) {
	swarm := p2ptest.New(t, func(c *embedded.Config) { c.Paths = map[string][]string{"evil": {"/swarm/sn/evil"}} })
	rogue := newRogueSN(t, swarm)
	cfg := swarm.Config(identity.RoleSL, "5eed")
	host := p2ptest.Start(t, cfg)
	hub := exchange.NewHub(HubConfig(cfg.Key))
	t.Cleanup(hub.Close)
	Serve(Links{Host: host.Network()}, hub, session.New(session.Config{Peer: "sl-0", Log: slog.New(slog.DiscardHandler)}), nil, slog.New(slog.DiscardHandler))
	x := &Exchanger{Hub: hub, Network: Links{Host: host.Network()}, Key: cfg.Key, Peer: "sl-0"}

	layout, err := merge.NewLayout([]merge.Tensor{{Name: "w", DType: merge.Float32, Shape: []int64{1 << 18}}})
	if err != nil {
		t.Fatal(err)
	}
	at := p2ptest.AddrOf(t, rogue.host)
	plan := &round.Plan{Run: 1, Round: 1, Attempt: 1, Method: "mean", Participants: []*round.Participant{
		{Node: "sl-0", Session: "a", PeerID: host.ID().String(), SPIFFEID: "spiffe://swarm.learning/swarm/sl", Weight: 1},
		{
			Node: "evil", Session: "b", PeerID: rogue.host.ID().String(), SPIFFEID: "spiffe://swarm.learning/swarm/sn/evil",
			Host: at.Host, FSPort: uint32(at.Port), Shards: []state.LeafRun{{Leaves: uint64(layout.Leaves())}},
		},
	}}
	attempt := exchange.Attempt{Contract: "c", Run: 1, Round: 1, Number: 1, Self: 1, Layout: layout, Method: "mean"}
	for i, m := range plan.Participants {
		attempt.Participants = append(attempt.Participants, exchange.Participant{
			Node: m.PeerID, Session: m.Session, Weight: m.Weight, Shard: merge.Shard{Leaves: i * layout.Leaves()},
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		stolen := make(buffer, layout.Bytes())
		_, _ = rogue.hub.Run(ctx, attempt, exchange.Slots{Name: "1", Local: stolen, Merged: stolen}, func(context.Context, int, bool) (exchange.Stream, error) {
			return nil, io.EOF // it owns everything: nothing is sent on streams that it opens
		})
	}()
	done, failed := x.Merge(t.Context(), session.Job{
		Contract: "c", Plan: plan, Layout: layout, Source: make(buffer, layout.Bytes()), Merging: make(buffer, layout.Bytes()),
	})
	cancel()
	<-ended
	if sent, _ := x.Traffic(); done != nil || sent > 0 || !strings.Contains(failed.Reason, "has the role sn, not sl") {
		t.Errorf("merge with a rogue SN: %d bytes of %d went to it, done %v, failed %v", sent, layout.Bytes(), done, failed)
	}

	m := plan.Participants[1]
	err = x.Fetch(t.Context(), &round.Session{
		Node: m.Node, SPIFFEID: m.SPIFFEID, PeerID: m.PeerID, Host: m.Host, FSPort: m.FSPort,
	}, round.Ref{Contract: "c", Run: 1, Model: round.Model{Round: 1}}, layout.Bytes(), make(buffer, layout.Bytes()))
	if got := rogue.sent.Load(); got > 0 || !strings.Contains(errText(err), "has the role sn, not sl") {
		t.Errorf("fetch from a rogue SN: %d bytes came, %v", got, err)
	}
}
