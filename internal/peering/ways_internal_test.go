package peering

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/p2p"
	"github.com/swarmd/swarmd/internal/p2p/p2ptest"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/rpc/rpctest"
	"github.com/swarmd/swarmd/internal/trust"
)

// fleeting is a network whose connections stand no longer than it takes to make them.
type fleeting struct {
	p2p.Network
	mu    sync.Mutex
	dials map[string][]time.Time // by host
}

func (f *fleeting) Reach(p2p.Addr, func(p2p.Peer) error) p2p.Reach { return p2p.Reach{} }

func (f *fleeting) Link(_ context.Context, to p2p.Addr, _ func(p2p.Peer) error) error {
	f.mu.Lock()
	f.dials[to.Host] = append(f.dials[to.Host], time.Now())
	f.mu.Unlock()
	time.Sleep(10 * time.Millisecond) // a handshake
	return nil
}

func (f *fleeting) of(host string) []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dials[host]
}

// steady is a view that does not change.
type steady struct{ v *round.View }

func (s steady) View() *round.View { return s.v }

func (s steady) AwaitView(ctx context.Context, _ func(*round.View) bool) (*round.View, error) {
	<-ctx.Done()
	return s.v, ctx.Err()
}

func newPeerID(t *testing.T) string {
	t.Helper()
	id, err := identity.PeerID(p2ptest.NewKey(t))
	if err != nil {
		t.Fatal(err)
	}
	return id.String()
}

// TestAPeerThatHangsUpIsDialledAtAPace: also where each connection succeeds, and is gone at once.
func TestAPeerThatHangsUpIsDialledAtAPace(t *testing.T) {
	me, peer := newPeerID(t), newPeerID(t)
	synctest.Test(t, func(t *testing.T) {
		net := &fleeting{dials: map[string][]time.Time{}}
		w := &Ways{Links: Links{Host: net}, Self: "sl-0", Log: slog.New(slog.DiscardHandler)}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			_ = w.Run(ctx, steady{&round.View{Name: "c", Sessions: []*round.Session{
				{ID: "a", Node: "sl-0", PeerID: me, Host: "a.example", FSPort: 16000, Live: true, State: "open"},
				{ID: "b", Node: "sl-1", PeerID: peer, Host: "b.example", FSPort: 16000, Live: true, State: "open"},
			}}})
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		dials := net.of("b.example")
		if n := len(dials); n < 6 || n > 12 {
			t.Fatalf("%d connections within a minute", n)
		}
		for i := range dials[1:] {
			if pause := dials[i+1].Sub(dials[i]); pause < time.Second {
				t.Errorf("a pause of %s after connection %d", pause, i)
			}
		}
	})
}

// TestNobodyIsDialledOnAnSNsWordAlone: a session whose node has signed no registration is not, one that has is once that was seen.
func TestNobodyIsDialledOnAnSNsWordAlone(t *testing.T) {
	ids := []string{newPeerID(t), newPeerID(t), newPeerID(t)}
	synctest.Test(t, func(t *testing.T) {
		authority, err := rpctest.NewAuthority("a.example")
		if err != nil {
			t.Fatal(err)
		}
		domains, err := authority.Domains()
		if err != nil {
			t.Fatal(err)
		}
		source, err := authority.Issue("/swarm/sl/sl-1", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		proof := signedBy(t, source, "sl-1", ids[1])
		guard := trust.New(trust.Config{
			Source: source, Domains: domains, SwarmID: func() string { return "5eed" }, Log: slog.New(slog.DiscardHandler),
			Ask: func(context.Context, []string) ([]*trust.Proof, error) { return []*trust.Proof{proof}, nil },
		})
		v := &round.View{Name: "c", Sessions: []*round.Session{
			{ID: "a", Node: "sl-0", PeerID: ids[0], Host: "a.example", FSPort: 16000, Live: true, State: "open"},
			{ID: "b", Node: "sl-1", PeerID: ids[1], SPIFFEID: "spiffe://a.example/swarm/sl/sl-1", Host: "b.example", FSPort: 16000, Live: true, State: "open", Proof: "d"},
			{ID: "c", Node: "sl-2", PeerID: ids[2], SPIFFEID: "spiffe://a.example/swarm/sl/sl-2", Host: "169.254.169.254", FSPort: 80, Live: true, State: "open", Proof: "e"},
		}}
		net := &fleeting{dials: map[string][]time.Time{}}
		w := &Ways{Links: Links{Host: net, Guard: guard}, Self: "sl-0", Log: slog.New(slog.DiscardHandler)}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = w.Run(ctx, steady{v}) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := net.of("b.example"); len(got) > 0 {
			t.Errorf("dialled %d times before anything was seen that it signed", len(got))
		}
		guard.Learn(t.Context(), v.Sessions[1:]) // as the engine does
		learned := time.Now()
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := net.of("b.example"); len(got) == 0 || got[0].Sub(learned) > 2*time.Second {
			t.Errorf("dialled at %v, learned at %s", got, learned)
		}
		if got := net.of("169.254.169.254"); len(got) > 0 {
			t.Errorf("a made-up peer was dialled %d times", len(got))
		}
	})
}
