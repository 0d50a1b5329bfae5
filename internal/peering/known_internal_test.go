package peering

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/p2p/p2ptest"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/rpc/rpctest"
	"github.com/swarmd/swarmd/internal/trust"
)

// TestTargetsThatANodeKnowsItself: of what a leader says nothing counts that this node does not know from its SN and from what SLs have signed.
func TestTargetsThatANodeKnowsItself(t *testing.T) {
	authority, err := rpctest.NewAuthority("a.example")
	if err != nil {
		t.Fatal(err)
	}
	domains, err := authority.Domains()
	if err != nil {
		t.Fatal(err)
	}
	ids, proofs := map[string]string{}, map[string]*trust.Proof{}
	for _, name := range []string{"peer", "listed", "banned", "unsigned", "made-up", "another"} {
		id, err := identity.PeerID(p2ptest.NewKey(t))
		if err != nil {
			t.Fatal(err)
		}
		ids[name] = id.String()
		source, err := authority.Issue("/swarm/sl/"+name, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		proofs[name] = signedBy(t, source, name, id.String())
	}
	delete(proofs, "unsigned")
	proofs["made-up"] = proofs["another"] // as a rogue SN may show it
	me, err := authority.Issue("/swarm/sl/me", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	sl := func(name string) *swarmv1.Node {
		return &swarmv1.Node{Name: name, Role: "sl", PeerId: ids[name], SpiffeId: "spiffe://a.example/swarm/sl/" + name, Host: "10.0.0.7", FsPort: 30305, Banned: name == "banned"}
	}
	session := &round.Session{Node: "peer", PeerID: ids["peer"], SPIFFEID: "spiffe://a.example/swarm/sl/peer", Host: "10.0.0.8", FSPort: 30305, Live: true, State: "open", Proof: "d"}
	listed := 0
	known := Known{
		SNs:  func() []string { return []string{"10.0.0.1:30304"} },
		View: func() *round.View { return &round.View{Sessions: []*round.Session{session}} },
		ListNodes: func(ctx context.Context) (*swarmv1.ListNodesResponse, error) {
			if _, limited := ctx.Deadline(); !limited {
				return nil, errors.New("a call without an end")
			}
			listed++
			return &swarmv1.ListNodesResponse{Nodes: []*swarmv1.Node{
				{Name: "sn-2", Role: "sn", Host: "10.0.0.2", ApiPort: 30304},
				{Name: "sn-3", Role: "sn", ApiService: "proxy.example:443"},
				sl("listed"), sl("banned"), sl("unsigned"), sl("made-up"),
				{Name: "sly", Role: "sl", Host: "10.0.0.9", ApiPort: 22},
			}}, nil
		},
		Guard: trust.New(trust.Config{
			Source: me, Domains: domains, SwarmID: func() string { return "5eed" }, Log: slog.New(slog.DiscardHandler),
			Ask: func(_ context.Context, names []string) (out []*trust.Proof, _ error) {
				for _, n := range names {
					if p := proofs[n]; p != nil {
						shown := *p
						shown.Name = n
						out = append(out, &shown)
					}
				}
				return out, nil
			},
		}),
	}
	api := func(host string, port uint32) *swarmv1.ProbeTarget {
		return &swarmv1.ProbeTarget{Role: "sn", Api: true, Host: host, Port: port, PeerId: ids["another"]}
	}
	at := func(name, host string, port uint32) *swarmv1.ProbeTarget {
		return &swarmv1.ProbeTarget{Role: "sl", PeerId: ids[name], Host: host, Port: port}
	}
	known.Guard.Learn(t.Context(), []*round.Session{session}) // as the engine does
	if got := known.Targets(t.Context(), []*swarmv1.ProbeTarget{api("10.0.0.1", 30304), at("peer", "10.0.0.8", 30305)}); !cmp.Equal(got, []bool{true, true}) || listed > 0 {
		t.Errorf("its SN and its contract's peers: %v, asked %d times", got, listed)
	}
	for _, x := range []struct {
		what   string
		target *swarmv1.ProbeTarget
		want   bool
	}{
		{"a peer of its contract", at("peer", "10.0.0.8", 30305), true},
		{"that peer at another address", at("peer", "169.254.169.254", 80), false},
		{"that peer at another port", at("peer", "10.0.0.8", 22), false},
		{"somebody else at its address", at("another", "10.0.0.8", 30305), false},
		{"an SL without a session", at("listed", "10.0.0.7", 30305), true},
		{"that SL at another address", at("listed", "10.0.0.8", 30305), false},
		{"one that is banned", at("banned", "10.0.0.7", 30305), false},
		{"one that has signed nothing", at("unsigned", "10.0.0.7", 30305), false},
		{"one with another's signature", at("made-up", "10.0.0.7", 30305), false},
		{"an SN that it has heard of since", api("10.0.0.2", 30304), true},
		{"an SN behind a proxy", api("proxy.example", 443), true},
		{"an SN's host at another port", api("10.0.0.2", 22), false},
		{"an API of no SN", api("10.0.0.9", 22), false},
		{"a peer's port as an API", api("10.0.0.8", 30305), false},
	} {
		if got := known.Targets(t.Context(), []*swarmv1.ProbeTarget{x.target}); len(got) != 1 || got[0] != x.want {
			t.Errorf("%s: %v", x.what, got)
		}
	}
	known.ListNodes = func(context.Context) (*swarmv1.ListNodesResponse, error) { return nil, errors.New("no SN answers") }
	if got := known.Targets(t.Context(), []*swarmv1.ProbeTarget{api("10.0.0.1", 30304), at("listed", "10.0.0.7", 30305)}); !cmp.Equal(got, []bool{true, false}) {
		t.Errorf("without an answer: %v", got)
	}
}
