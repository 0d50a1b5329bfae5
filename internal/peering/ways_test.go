package peering_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/pattern"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/p2p/p2ptest"
	"github.com/swarmd/swarmd/internal/peering"
	"github.com/swarmd/swarmd/internal/reach"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/trust"
)

// roads is a p2p.Network that has no streams: which peers can be dialled, and which have dialled.
type roads struct {
	p2p.Network
	mu     sync.Mutex
	shut   bool
	linked bool
	failed *reach.Error
	answer error // of the node that is there instead of the peer
	since  time.Time
	at     time.Time
	dials  []time.Time
}

func (r *roads) Reach(p2p.Addr, func(p2p.Peer) error) p2p.Reach {
	r.mu.Lock()
	defer r.mu.Unlock()
	return p2p.Reach{Linked: r.linked, Failed: reach.Failure{Err: r.failed, Since: r.since, At: r.at}}
}

func (r *roads) Link(_ context.Context, to p2p.Addr, _ func(p2p.Peer) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dials = append(r.dials, time.Now())
	if r.answer != nil {
		return fmt.Errorf("dial %s: %w", to, r.answer)
	}
	if r.shut {
		r.at = time.Now()
		if r.failed == nil {
			r.since = r.at
		}
		r.failed = &reach.Error{HostPort: to.HostPort(), Cause: reach.CauseTimeout, Err: errors.New("no answer")}
		return r.failed
	}
	r.linked, r.failed = true, nil
	return nil
}

func (r *roads) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

// views is a contract whose sessions do not change.
type views struct{ v *round.View }

func (s views) View() *round.View { return s.v }

func (s views) AwaitView(ctx context.Context, _ func(*round.View) bool) (*round.View, error) {
	<-ctx.Done()
	return s.v, ctx.Err()
}

func peerID(t *testing.T) string {
	t.Helper()
	id, err := identity.PeerID(p2ptest.NewKey(t))
	if err != nil {
		t.Fatal(err)
	}
	return id.String()
}

// TestWays: a peer that can't be dialled is tried again and again, at most ten seconds apart, and told of; once it has dialled, or can be,
// no more is dialled.
func TestWays(t *testing.T) {
	small, large := peerID(t), peerID(t)
	if small > large {
		small, large = large, small
	}
	for _, tt := range []struct {
		name         string
		mine, theirs string
		first        time.Duration
	}{{"the first of the two", small, large, 0}, {"the second", large, small, time.Second}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := &roads{shut: true}
				w := &peering.Ways{Links: peering.Links{Host: net}, Self: "sl-0", Log: slog.New(slog.DiscardHandler)}
				v := &round.View{Name: "c", Sessions: []*round.Session{
					{ID: "a", Node: "sl-0", PeerID: tt.mine, Host: "a.example", FSPort: 16000, Live: true, State: "open"},
					{ID: "b", Node: "sl-1", PeerID: tt.theirs, Host: "b.example", FSPort: 16000, Live: true, State: "open"},
					{ID: "c", Node: "sl-2", PeerID: tt.theirs, Host: "c.example", FSPort: 16000, State: "open"}, // dead
				}}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() { _ = w.Run(ctx, views{v}) }()
				begun := time.Now()
				time.Sleep(time.Minute)
				synctest.Wait()
				var last time.Time
				net.set(func() {
					if got := net.dials[0].Sub(begun); got != tt.first {
						t.Errorf("the first try came after %s, want %s", got, tt.first)
					}
					if n := len(net.dials); n < 6 || n > 12 {
						t.Errorf("%d tries within a minute", n)
					}
					last = net.dials[len(net.dials)-1]
				})
				want := []round.Unreached{{Node: "sl-1", Address: "b.example:16000", Cause: "timeout"}}
				if d := cmp.Diff(want, w.Unreached("c")); d != "" {
					t.Error(d)
				}
				if got := w.Unreached("another"); got != nil {
					t.Errorf("of another contract %v is told", got)
				}
				told := w.Report()
				if l := told.GetLinks(); told.GetContract() != "c" || len(l) != 1 || l[0].GetNode() != "sl-1" || l[0].GetLinked() || l[0].GetAddress() != "b.example:16000" || l[0].GetCause() != "timeout" ||
					time.Duration(l[0].GetSinceSeconds())*time.Second != (time.Minute-tt.first).Truncate(time.Second) || l[0].GetLastSeconds() > 10 {
					t.Errorf("it tells %v", told)
				}
				net.set(func() { net.linked = true }) // the peer has dialled
				time.Sleep(10 * time.Second)
				if l := w.Report().GetLinks(); len(l) != 1 || !l[0].GetLinked() || l[0].GetCause() != "timeout" {
					t.Errorf("when the peer has dialled it tells %v", l)
				}
				want[0].Linked, want[0].Before = true, true
				if d := cmp.Diff(want, w.Unreached("c")); d != "" {
					t.Error(d)
				}
				net.set(func() { net.linked, net.shut = false, false }) // lost, and the port is open now
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if got := w.Unreached("c"); len(got) != 0 {
					t.Errorf("once it is reached %v is told", got)
				}
				if told := w.Report(); told.GetContract() != "c" || len(told.GetLinks()) != 0 {
					t.Errorf("once it is reached it tells %v", told)
				}
				net.set(func() {
					if at := net.dials[len(net.dials)-1]; !at.After(last) || !net.linked {
						t.Error("it was not tried again")
					}
				})
			})
		})
	}
}

// TestWaysReport: what an SL tells of the others of its contract: those that it has no connection with, whom another node answers for, and
// whom its owner shuts out. Without a session that takes part it tells of nobody.
func TestWaysReport(t *testing.T) {
	me, other := peerID(t), peerID(t)
	friends, err := pattern.ParseList([]string{"spiffe://a.example/*"})
	if err != nil {
		t.Fatal(err)
	}
	guard := func(cfg trust.Config) *trust.Guard {
		cfg.Log = slog.New(slog.DiscardHandler)
		return trust.New(cfg)
	}
	run := func(t *testing.T, net *roads, guard *trust.Guard, state string) *swarmv1.NodeLinks {
		t.Helper()
		w := &peering.Ways{Links: peering.Links{Host: net, Guard: guard}, Self: "sl-0", Log: slog.New(slog.DiscardHandler)}
		v := &round.View{Name: "c", Sessions: []*round.Session{
			{ID: "a", Node: "sl-0", PeerID: me, Host: "a.example", FSPort: 16000, Live: true, State: state},
			{ID: "b", Node: "sl-1", SPIFFEID: "spiffe://b.example/swarm/sl/sl-1", Proof: "p", PeerID: other, Host: "b.example", FSPort: 16000, Live: true, State: "open"},
		}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = w.Run(ctx, views{v}) }()
		time.Sleep(time.Minute)
		told := w.Report()
		cancel()
		<-done
		return told
	}
	for _, tt := range []struct {
		name  string
		net   *roads
		guard *trust.Guard
		state string
		want  string // node, refused, cause
	}{
		{"well", &roads{}, nil, "open", ""},
		{"another node", &roads{answer: errors.New("it has another key")}, nil, "open", "sl-1 false it has another key"},
		{"not judged yet", &roads{}, guard(trust.Config{}), "open", "sl-1 false "},
		{"shut out", &roads{}, guard(trust.Config{Allow: friends}), "open", "sl-1 true --allow-peer of this node does not name it: it is \"spiffe://b.example/swarm/sl/sl-1\""},
		{"its own session has ended", &roads{answer: errors.New("it has another key")}, nil, "ended", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				told := run(t, tt.net, tt.guard, tt.state)
				got := ""
				for _, l := range told.GetLinks() {
					got += fmt.Sprint(l.GetNode(), " ", l.GetRefused(), " ", l.GetCause())
				}
				if got != tt.want || (told.GetContract() == "c") != (tt.state == "open") {
					t.Errorf("it tells %v", told)
				}
			})
		})
	}
}
