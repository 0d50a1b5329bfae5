package consensus_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/ledgerfile"
	"github.com/swarmd/swarmd/consensus/state"
)

// recoveryOf is what an operator would sign for a server that is left.
func recoveryOf(name string, r *consensus.Remains) state.RecoverSwarm {
	out := ledger.Recovery{
		SwarmID: "swarm1", Epoch: r.State.Epoch() + 1, Node: name, PeerID: "id" + name, LastIndex: r.LastIndex, By: "spiffe://a.example/swarm/swci",
		AskedMS: 1, Signature: []byte("signed"),
	}
	if n := len(r.State.Recoveries); n > 0 {
		out.Previous = r.State.Recoveries[n-1].Digest()
	}
	return state.RecoverSwarm{Recovery: out}
}

// refound founds the group anew from a server that is stopped.
func (s *swarm) refound(name string) state.RecoverSwarm {
	s.t.Helper()
	stores := *s.stores[name]
	remains, err := consensus.ReadRemains(stores, testLog())
	if err != nil {
		s.t.Fatal(err)
	}
	c := recoveryOf(name, remains)
	if err := remains.Refound(name, address(name), stores.Ledger, c); err != nil {
		s.t.Fatal(err)
	}
	return c
}

// TestRecoveredFromAServerThatLagged: of three servers two are gone for good, and the third has missed the last commands. It goes on
// without those, alone, then with new servers, one of them under the name of a lost one.
func TestRecoveredFromAServerThatLagged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.form("a", "b", "c")
		s.propose("a", "sl-0")
		s.converged("a", "b", "c")
		s.net.Cut("idc")
		s.leader("a", "b")
		s.propose("a", "sl-1")
		for _, name := range []string{"a", "b", "c"} {
			s.stop(name)
		}
		s.net.Heal("idc")

		c := s.refound("c")
		if c.Recovery.Epoch != 2 {
			t.Errorf("epoch %d", c.Recovery.Epoch)
		}
		sv := s.start("c")
		if err := sv.Join(s.within(30*time.Second), nil, joinRequest("c")); err != nil {
			t.Fatal(err)
		}
		view := sv.View()
		if view.Nodes["sl-0"] == nil || view.Nodes["sl-1"] != nil || view.Nodes["a"] != nil || view.Epoch() != 2 || !sv.IsLeader() {
			t.Errorf("nodes %v, epoch %d", view.Nodes, view.Epoch())
		}
		if _, _, err := view.Apply(recoveryOf("a", &consensus.Remains{State: state.New()})); err == nil {
			t.Error("one epoch is taken twice")
		}
		s.join("d", "c")
		cfg, req := s.newDisk("b")
		if err := s.startWith(cfg).Join(s.within(30*time.Second), []string{address("c")}, req); err != nil {
			t.Fatal(err)
		}
		s.propose("d", "sl-2")
		s.converged("b", "c", "d")

		// The old one comes back as it was: it leads nobody, and nobody hears of it.
		s.start("a")
		time.Sleep(time.Minute)
		if s.servers["a"].IsLeader() || s.servers["a"].View().Epoch() != 1 {
			t.Error("a server of the old group leads, or is taken in as it was")
		}
		s.propose("b", "sl-3")

		// Two of the three are lost again, and the last epoch goes on in the next.
		for _, name := range []string{"a", "b", "c", "d"} {
			s.stop(name)
		}
		s.refound("d")
		again := s.start("d")
		if err := again.Join(s.within(30*time.Second), nil, joinRequest("d")); err != nil {
			t.Fatal(err)
		}
		if view := again.View(); view.Epoch() != 3 || len(view.Recoveries) != 2 || view.Nodes["sl-3"] == nil || view.Nodes["c"] != nil {
			t.Errorf("epoch %d, nodes %v", view.Epoch(), view.Nodes)
		}
	})
}

// TestRecoveriesOfTwoSurvivorsDiffer: each names its own server, so whoever knows one tells the other from it.
func TestRecoveriesOfTwoSurvivorsDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.form("a", "b", "c")
		for _, name := range []string{"a", "b", "c"} {
			s.stop(name)
		}
		a, b := s.refound("a"), s.refound("b")
		if a.Recovery.Epoch != b.Recovery.Epoch || a.Recovery.Digest() == b.Recovery.Digest() {
			t.Errorf("epochs %d and %d, digests %s and %s", a.Recovery.Epoch, b.Recovery.Epoch, a.Recovery.Digest(), b.Recovery.Digest())
		}
		if again := s.refoundAgain("a", a); again != nil {
			t.Errorf("the same again: %v", again)
		}
		remains, err := consensus.ReadRemains(*s.stores["c"], testLog())
		if err != nil {
			t.Fatal(err)
		}
		wrong := recoveryOf("c", remains)
		wrong.Recovery.Had = ledger.Witness{Length: 1, Hash: ledger.None}
		if err := remains.Refound("c", address("c"), ledgerfile.NewInmem(), wrong); err == nil {
			t.Error("a recovery that was signed for another ledger is taken")
		}
		delete(s.stores, "d")
		s.config("d")
		if _, err := consensus.ReadRemains(*s.stores["d"], testLog()); !errors.Is(err, consensus.ErrNoRemains) {
			t.Errorf("empty stores: %v", err)
		}
	})
}

// refoundAgain is refound with the same recovery, as after a crash.
func (s *swarm) refoundAgain(name string, c state.RecoverSwarm) error {
	s.t.Helper()
	remains, err := consensus.ReadRemains(*s.stores[name], testLog())
	if err != nil {
		return err
	}
	return remains.Refound(name, address(name), s.stores[name].Ledger, c)
}
