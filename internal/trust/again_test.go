package trust_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
)

func TestAWrongRegistrationIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		peer := peerID(t)
		m := session("b", "spiffe://a.example/swarm/sl/b", peer, "d1") // the true digest, as every SN shows it
		g := w.guard()
		w.proofs["b"] = &swarmv1.NodeProof{Name: "b", Chain: [][]byte{{1}}, SvidSignature: []byte{2}} // a rogue SN, once
		g.Learn(t.Context(), []*swarmv1.Session{m})
		if g.Peer(m) == nil {
			t.Error("it is accepted")
		}
		w.signs(w.issue("/swarm/sl/b"), swarmID, "b", peer) // honest SN from now on
		for range 3 {
			time.Sleep(6 * time.Minute)
			g.Learn(t.Context(), []*swarmv1.Session{m})
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
		g.Learn(t.Context(), []*swarmv1.Session{m})
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
			g.Learn(t.Context(), []*swarmv1.Session{m})
		}
		if err := g.Peer(m); err != nil {
			t.Errorf("an honest SN has shown the true one since: %v", err)
		}
	})
}
