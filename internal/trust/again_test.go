package trust_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/rpc/rpctest"
	"github.com/swarmd/swarmd/internal/trust"
)

func TestAWrongRegistrationIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		peer := peerID(t)
		m := session("b", "spiffe://a.example/swarm/sl/b", peer, "d1") // the true digest, as every SN shows it
		g := w.guard()
		w.proofs["b"] = &trust.Proof{Name: "b", Chain: [][]byte{{1}}, Signature: []byte{2}} // a rogue SN, once
		g.Learn(t.Context(), []*round.Session{m})
		if g.Peer(m) == nil {
			t.Error("it is accepted")
		}
		w.signs(w.issue("/swarm/sl/b"), swarmID, "b", peer) // honest SN from now on
		for range 3 {
			time.Sleep(6 * time.Minute)
			g.Learn(t.Context(), []*round.Session{m})
		}
		if err := g.Peer(m); err != nil {
			t.Errorf("an honest SN has shown the true one since: %v", err)
		}
	})
}

func TestAGapInTheBundleEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		peer := peerID(t)
		m := session("b", "spiffe://a.example/swarm/sl/b", peer, "d1")
		g := w.guard()
		w.signs(w.issue("/swarm/sl/b"), swarmID, "b", peer)
		td := spiffeid.RequireTrustDomainFromString("a.example")
		b, _ := w.source.Get(td)
		g.Learn(t.Context(), []*round.Session{m})
		if err := g.Peer(m); err != nil {
			t.Fatal(err)
		}
		time.Sleep(31 * time.Second)
		w.source.Remove(td) // the bundle lags a CA rotation, a federation refresh fails
		if g.Peer(m) == nil {
			t.Error("it is accepted")
		}
		time.Sleep(time.Second)
		w.source.Add(b)
		for range 3 {
			time.Sleep(6 * time.Minute)
			g.Learn(t.Context(), []*round.Session{m})
		}
		if err := g.Peer(m); err != nil {
			t.Errorf("an honest SN has shown the true one since: %v", err)
		}
	})
}

// TestAnEndedSVIDIsItsOwnersMatter: a peer that has not renewed its SVID is refused, and the SN that plans it is not left for that.
func TestAnEndedSVIDIsItsOwnersMatter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		doubts := 0
		w.doubt = func() string { doubts++; return "sn:1" }
		me, b := session("me", "spiffe://a.example/swarm/sl/me", peerID(t), "d"), session("b", "spiffe://a.example/swarm/sl/b", peerID(t), "d")
		w.signs(w.issue("/swarm/sl/b"), swarmID, "b", b.PeerID)
		part := func(m *round.Session, first uint64) *round.Participant {
			return &round.Participant{Session: m.ID, Node: m.Node, PeerID: m.PeerID, SPIFFEID: m.SPIFFEID, Weight: 1, Shards: []state.LeafRun{{First: first, Leaves: 2}}}
		}
		v := &round.View{Run: 1, Sessions: []*round.Session{me, b}, Plan: &round.Plan{
			Run: 1, Round: 1, Attempt: 1, Participants: []*round.Participant{part(me, 0), part(b, 2)},
		}}
		offer := trust.Offer{Weight: 1, Leaves: 4}
		g, later := w.guard(), w.guard() // the second one has never seen it good
		g.Learn(t.Context(), v.Sessions)
		if err := g.Plan(v, offer); err != nil {
			t.Fatal(err)
		}
		time.Sleep(13 * time.Hour)
		later.Learn(t.Context(), v.Sessions)
		for _, g := range []*trust.Guard{g, later} {
			if err := g.Plan(v, offer); !errors.Is(err, trust.ErrEnded) {
				t.Errorf("after its SVID had ended: %v", err)
			}
			if got := g.Refused(v.Sessions, "me"); len(got) != 1 || got[0] != "b" {
				t.Errorf("refuses %v", got)
			}
		}
		if doubts > 0 {
			t.Errorf("an SN was left %d times", doubts)
		}
		b.PeerID, v.Plan.Participants[1].PeerID = peerID(t), "another"
		if err := g.Plan(v, offer); err == nil || doubts != 1 {
			t.Errorf("%d doubts in a plan that contradicts itself: %v", doubts, err)
		}
	})
}

// TestACertificateOfYesterdayIsNoExcuse: an SN that shows what was never good is doubted, however old it says that it is.
func TestACertificateOfYesterdayIsNoExcuse(t *testing.T) {
	foreign, err := rpctest.NewAuthority("a.example") // the name is right, the key is not
	if err != nil {
		t.Fatal(err)
	}
	b := session("b", "spiffe://a.example/swarm/sl/b", peerID(t), "d")
	for _, tt := range []struct {
		name string
		show func(w *world)
		want bool // that it has ended
	}{
		{"its own", func(w *world) { w.signs(w.issue("/swarm/sl/b"), swarmID, "b", b.PeerID) }, true},
		{"of nobody that is trusted", func(w *world) {
			other := &world{t: w.t, authority: foreign, proofs: w.proofs}
			other.signs(other.issue("/swarm/sl/b"), swarmID, "b", b.PeerID)
		}, false},
		{"of another node", func(w *world) { w.signs(w.issue("/swarm/sl/c"), swarmID, "b", b.PeerID) }, false},
		{"of another role", func(w *world) { w.signs(w.issue("/swarm/sn/b"), swarmID, "b", b.PeerID) }, false},
		{"for another key", func(w *world) { w.signs(w.issue("/swarm/sl/b"), swarmID, "b", peerID(w.t)) }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				tt.show(w)
				time.Sleep(13 * time.Hour)
				g := w.guard()
				g.Learn(t.Context(), []*round.Session{b})
				if err := g.Peer(b); err == nil || errors.Is(err, trust.ErrEnded) != tt.want {
					t.Errorf("%v, want that its SVID has ended: %t", err, tt.want)
				}
			})
		})
	}
}

// TestAnotherKeyUnderANameTakesNothing: what an SN makes up under a node's name neither takes the node's proof away nor has this node ask
// without end.
func TestAnotherKeyUnderANameTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := session("b", "spiffe://a.example/swarm/sl/b", peerID(t), "d")
		made := session("b", "spiffe://a.example/swarm/sl/b", peerID(t), "d")
		w.signs(w.issue("/swarm/sl/b"), swarmID, "b", b.PeerID)
		g := w.guard()
		for _, all := range [][]*round.Session{{b, made}, {made, b}} {
			g.Learn(t.Context(), all)
			if left := g.Unknown(all); len(left) > 0 {
				t.Errorf("still to be asked for: %v", left)
			}
			if err := g.Peer(b); err != nil {
				t.Error(err)
			}
			if err := g.Peer(made); err == nil || errors.Is(err, trust.ErrUnknown) {
				t.Errorf("made up: %v", err)
			}
		}
	})
}
