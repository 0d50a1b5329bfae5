package trust_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/pattern"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/rpc/rpctest"
	"github.com/swarmd/swarmd/internal/trust"
)

const swarmID = "0123456789abcdef0123456789abcdef"

// world is an SN that shows what the test gives it, and SVIDs.
type world struct {
	t         *testing.T
	authority *rpctest.Authority
	source    *rpctest.Source
	proofs    map[string]*trust.Proof // by node name
	asked     []string
	err       error
	doubt     func() string
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, proofs: map[string]*trust.Proof{}, doubt: func() string { return "sn:1" }}
	var err error
	if w.authority, err = rpctest.NewAuthority("a.example"); err != nil {
		t.Fatal(err)
	}
	w.source = w.issue("/swarm/sl/me")
	return w
}

func (w *world) issue(path string) *rpctest.Source {
	w.t.Helper()
	s, err := w.authority.Issue(path, 12*time.Hour)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) guard(allow ...string) *trust.Guard {
	w.t.Helper()
	domains, err := w.authority.Domains("b.example")
	if err != nil {
		w.t.Fatal(err)
	}
	list, err := pattern.ParseList(allow)
	if err != nil {
		w.t.Fatal(err)
	}
	return trust.New(trust.Config{
		Source: w.source, Domains: domains, SwarmID: func() string { return swarmID }, Allow: list, Log: slog.New(slog.DiscardHandler),
		Ask: func(_ context.Context, names []string) (out []*trust.Proof, _ error) {
			w.asked = append(w.asked, names...)
			for _, n := range names {
				if p := w.proofs[n]; p != nil {
					out = append(out, p)
				}
			}
			return out, w.err
		},
		Doubt: func() string { return w.doubt() },
	})
}

func peerID(t *testing.T) string {
	t.Helper()
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	id, err := identity.PeerID(key)
	if err != nil {
		t.Fatal(err)
	}
	return id.String()
}

// signs makes the SN show a proof that this SVID has signed.
func (w *world) signs(by *rpctest.Source, swarm, name, peer string) {
	w.t.Helper()
	svid, err := by.GetX509SVID()
	if err != nil {
		w.t.Fatal(err)
	}
	sig, err := identity.SignWithSVID(svid, identity.OwnershipMessage(swarm, name, peer))
	if err != nil {
		w.t.Fatal(err)
	}
	w.proofs[name] = &trust.Proof{Name: name, Chain: identity.RawChain(svid), Signature: sig}
}

func session(name, id, peer, proof string) *round.Session {
	return &round.Session{ID: "s-" + name, Node: name, SPIFFEID: id, PeerID: peer, Proof: proof, State: "open", Run: 1}
}

// TestOnlyProvenPeers: a node counts only if an SVID that this node accepts by itself has signed for all that a view says of it.
func TestOnlyProvenPeers(t *testing.T) {
	const id = "spiffe://a.example/swarm/sl/b"
	peer, other := peerID(t), peerID(t)
	foreign, err := rpctest.NewAuthority("a.example") // the name is right, the key is not
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		shows func(w *world, m *round.Session)
		want  string
	}{
		{"proven", func(w *world, _ *round.Session) { w.signs(w.issue("/swarm/sl/b"), swarmID, "b", peer) }, ""},
		{"of a shared entry", func(w *world, m *round.Session) {
			m.SPIFFEID = "spiffe://a.example/swarm/sl"
			w.signs(w.issue("/swarm/sl"), swarmID, "b", peer)
		}, ""},
		{"made up by an SN", func(w *world, m *round.Session) {
			m.SPIFFEID = "spiffe://a.example/swarm/sn/evil"
			w.signs(w.issue("/swarm/sn/evil"), swarmID, "b", peer)
		}, "role sn"},
		{"another's SPIFFE ID", func(w *world, _ *round.Session) { w.signs(w.issue("/swarm/sl/c"), swarmID, "b", peer) }, "was signed by spiffe://a.example/swarm/sl/c"},
		{"another's node key", func(w *world, m *round.Session) {
			w.signs(w.issue("/swarm/sl/b"), swarmID, "b", peer)
			m.PeerID = other
		}, "has not signed for node key " + other},
		{"another name", func(w *world, m *round.Session) {
			m.Node = "c"
			w.signs(w.issue("/swarm/sl/b"), swarmID, "c", peer)
		}, "another name"},
		{"another swarm", func(w *world, _ *round.Session) { w.signs(w.issue("/swarm/sl/b"), "other", "b", peer) }, "has not signed"},
		{"an authority that is not known", func(w *world, _ *round.Session) {
			s, err := foreign.Issue("/swarm/sl/b", time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			w.signs(s, swarmID, "b", peer)
		}, "not signed by an SVID that this node accepts"},
		{"nothing", func(*world, *round.Session) {}, "the SN gives no registration"},
		{"no digest", func(_ *world, m *round.Session) { m.Proof = "" }, "the swarm shows no registration"},
		{"an SN that knows no proofs", func(w *world, _ *round.Session) { w.err = errors.New("unimplemented") }, "can't be checked: unimplemented"},
		{"an unparsable chain", func(w *world, _ *round.Session) {
			w.proofs["b"] = &trust.Proof{Name: "b", Chain: [][]byte{{1}}, Signature: []byte{2}}
		}, "not signed by an SVID"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			m := session("b", id, peer, "d1")
			tt.shows(w, m)
			g := w.guard()
			if err := g.Peer(m); m.Proof != "" && !errors.Is(err, trust.ErrUnknown) {
				t.Errorf("before anything was asked: %v", err)
			}
			g.Learn(t.Context(), []*round.Session{m})
			err := g.Peer(m)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if got := g.Refused([]*round.Session{m}, "me"); (len(got) > 0) != (tt.want != "") {
				t.Errorf("refuses %v", got)
			}
			g.Learn(t.Context(), []*round.Session{m})
			if len(w.asked) > 1 {
				t.Errorf("asked for %v: what is known is not asked for again", w.asked)
			}
		})
	}
}

// TestProofsEndWithTheirSVIDs: what was signed counts as long as the SVID lives, and a newer one takes its place.
func TestProofsEndWithTheirSVIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		peer := peerID(t)
		m := session("b", "spiffe://a.example/swarm/sl/b", peer, "d1")
		b := w.issue("/swarm/sl/b")
		g := w.guard()
		learn := func() error {
			g.Learn(t.Context(), []*round.Session{m})
			return g.Peer(m)
		}
		w.signs(b, swarmID, "b", peer)
		if err := learn(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Hour)
		if err := b.Rotate(12 * time.Hour); err != nil {
			t.Fatal(err)
		}
		m.Proof = "d2"
		if err := g.Peer(m); err != nil {
			t.Errorf("while the newer one is on its way: %v", err)
		}
		delete(w.proofs, "b")
		if err := learn(); err != nil {
			t.Errorf("an SN that does not have the newer one takes nothing away: %v", err)
		}
		w.signs(b, swarmID, "b", peer)
		time.Sleep(6 * time.Second)
		if err := learn(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(12 * time.Hour)
		if err := g.Peer(m); err == nil || errors.Is(err, trust.ErrUnknown) {
			t.Errorf("after its SVID had ended: %v", err)
		}
	})
}

// TestOnlyAllowedPeers: the owner's list comes before everything.
func TestOnlyAllowedPeers(t *testing.T) {
	w := newWorld(t)
	g := w.guard("spiffe://a.example/swarm/sl/*")
	peer := peerID(t)
	a, b := session("b", "spiffe://a.example/swarm/sl/b", peer, "d"), session("c", "spiffe://b.example/swarm/sl/c", peerID(t), "d")
	w.signs(w.issue("/swarm/sl/b"), swarmID, "b", peer)
	all := []*round.Session{a, b, session("me", "spiffe://b.example/swarm/sl/me", peerID(t), "d")}
	g.Learn(t.Context(), all)
	if err := g.Peer(a); err != nil {
		t.Error(err)
	}
	if err := g.Peer(b); err == nil || !strings.Contains(err.Error(), "--allow-peer") {
		t.Errorf("a peer that is not named: %v", err)
	}
	if got := g.Refused(all, "me"); !slices.Equal(got, []string{"c"}) {
		t.Errorf("refuses %v", got)
	}
	if slices.Contains(w.asked, "c") {
		t.Error("asked for what can't matter")
	}
}

// TestPlan: a plan must fit what the sessions and this node itself have said.
// TestWeightsOfSamples: where weights are numbers of samples others may have as many as can be, and one's own is what one told.
func TestWeightsOfSamples(t *testing.T) {
	w := newWorld(t)
	g := w.guard()
	me, b := session("me", "spiffe://a.example/swarm/sl/me", peerID(t), "d"), session("b", "spiffe://a.example/swarm/sl/b", peerID(t), "d")
	w.signs(w.issue("/swarm/sl/b"), swarmID, "b", b.PeerID)
	for _, tt := range []struct {
		own, other uint32
		cap        float64
		want       string
	}{
		{30, 300, 0, ""},
		{0, state.MaxSamples, 0, ""},
		{31, 300, 0, "the weight 31, it told 30"},
		{30, state.MaxSamples + 1, 0, "at most 1073741824"},
		{4000, 9000, 0.5, ""},
		{30, state.MaxSamples + 1, 0.5, "at most 1073741824"},
	} {
		v := &round.View{Run: 1, Rules: round.Rules{WeightCap: tt.cap}, Sessions: []*round.Session{me, b}, Plan: &round.Plan{Run: 1, Round: 1, Attempt: 2}}
		for i, m := range v.Sessions {
			v.Plan.Participants = append(v.Plan.Participants, &round.Participant{
				Session: m.ID, Node: m.Node, PeerID: m.PeerID, SPIFFEID: m.SPIFFEID, Weight: []uint32{tt.own, tt.other}[i],
				Shards: []state.LeafRun{{First: uint64(2 * i), Leaves: 2}},
			})
		}
		g.Learn(t.Context(), v.Sessions)
		err := g.Plan(v, trust.Offer{Weight: 30, Most: round.Terms{Weights: state.WeightsSamples}.MaxWeight(), Leaves: 4})
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%d and %d: got %v, want %q", tt.own, tt.other, err, tt.want)
		}
	}
}

func TestPlan(t *testing.T) {
	w := newWorld(t)
	g := w.guard()
	me, b := session("me", "spiffe://a.example/swarm/sl/me", peerID(t), "d"), session("b", "spiffe://a.example/swarm/sl/b", peerID(t), "d")
	w.signs(w.issue("/swarm/sl/b"), swarmID, "b", b.PeerID)
	part := func(m *round.Session, first, leaves uint64) *round.Participant {
		return &round.Participant{Session: m.ID, Node: m.Node, PeerID: m.PeerID, SPIFFEID: m.SPIFFEID, Weight: 3, Shards: []state.LeafRun{{First: first, Leaves: leaves}}}
	}
	for _, tt := range []struct {
		name   string
		change func(v *round.View)
		want   string
	}{
		{"good", func(*round.View) {}, ""},
		{"whose contribution counts 0", func(v *round.View) { v.Plan.Participants[0].Weight = 0 }, ""},
		{"a plan of an earlier run", func(v *round.View) { v.Run = 2 }, "the plan is of run 1, the contract is in run 2"},
		{"a plan of a later run", func(v *round.View) { v.Plan.Run = 2 }, "the plan is of run 2, the contract is in run 1"},
		{"a participant without a session", func(v *round.View) { v.Sessions = v.Sessions[:1] }, "has no session"},
		{"another's address", func(v *round.View) { v.Plan.Participants[1].PeerID = peerID(t) }, "what its session does not"},
		{"one twice", func(v *round.View) {
			v.Plan.Participants = append(v.Plan.Participants, v.Plan.Participants[1])
		}, "twice"},
		{"another weight of its own", func(v *round.View) { v.Plan.Participants[0].Weight = 4 }, "it told 3"},
		{"a weight that none can have", func(v *round.View) { v.Plan.Participants[1].Weight = 101 }, "at most 100"},
		{"a leaf twice", func(v *round.View) { v.Plan.Participants[1].Shards[0].First = 1 }, "each leaf once"},
		{"a leaf too many", func(v *round.View) { v.Plan.Participants[1].Shards[0].Leaves = 3 }, "each leaf once"},
		{"a leaf left out", func(v *round.View) { v.Plan.Participants[1].Shards[0].Leaves = 1 }, "leave leaves out"},
		{"another split in the first attempt", func(v *round.View) {
			v.Plan.Attempt, v.Plan.Participants[0].Shards[0].Leaves, v.Plan.Participants[1].Shards[0].First, v.Plan.Participants[1].Shards[0].Leaves = 1, 1, 1, 3
		}, "not the split that all can compute"},
		{"the split in the first attempt", func(v *round.View) { v.Plan.Attempt = 1 }, ""},
		{"all for one of weight 0", func(v *round.View) {
			v.Plan.Attempt, v.Plan.Participants[1].Weight = 1, 0
			v.Plan.Participants[0].Shards[0].Leaves, v.Plan.Participants[1].Shards[0].First, v.Plan.Participants[1].Shards[0].Leaves = 0, 0, 4
		}, "not the split that all can compute"},
		{"further runs", func(v *round.View) {
			v.Plan.Participants[0].Shards[0].Leaves = 1
			v.Plan.Participants[1].Shards = append(v.Plan.Participants[1].Shards, state.LeafRun{First: 1, Leaves: 1})
		}, ""},
		{"witnesses without the rule", func(v *round.View) { v.Plan.Witnesses = 2 }, "the contract's rule is 0"},
		{"none against the rule", func(v *round.View) { v.Rules = round.Rules{Witnesses: 2} }, "the contract's rule is 2"},
		{"witnesses by the rule", func(v *round.View) { v.Rules, v.Plan.Witnesses = round.Rules{Witnesses: 2}, 2 }, ""},
		{"more than can be", func(v *round.View) { v.Rules, v.Plan.Witnesses = round.Rules{Witnesses: 9}, 9 }, "9 nodes"},
		{"runs past the end of numbers", func(v *round.View) { v.Plan.Participants[1].Shards[0].Leaves = 1<<64 - 1 }, "each leaf once"},
	} {
		v := &round.View{Run: 1, Sessions: []*round.Session{me, b}, Plan: &round.Plan{
			Run: 1, Round: 1, Attempt: 2, Participants: []*round.Participant{part(me, 0, 2), part(b, 2, 2)},
		}}
		tt.change(v)
		g.Learn(t.Context(), v.Sessions)
		err := g.Plan(v, trust.Offer{Self: 0, Weight: 3, Leaves: 4})
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "SN sn:1 says so")) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
}
