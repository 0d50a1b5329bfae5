package consensus_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
)

// TestAnOrderWhoseAnswerWasLost: the leader carries out an order whose nonce is good once, the link to the server that passed it on
// breaks, and the second try is refused. The ledger of any server tells that the very same order was carried out, and no other.
func TestAnOrderWhoseAnswerWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		var via atomic.Pointer[string]
		var vetted atomic.Int32
		s.vet = func(_ string, c state.Command) (state.Command, error) {
			if _, ok := c.(state.UnbanNode); !ok {
				return c, nil
			}
			if vetted.Add(1) > 1 {
				return nil, &state.Error{Reason: "NONCE_REFUSED", Message: "used up"}
			}
			s.net.Cut("id" + *via.Load())
			time.AfterFunc(2*time.Second, func() { s.net.Heal("id" + *via.Load()) })
			return c, nil
		}
		s.form(three...)
		leader := s.leader(three...)
		for _, c := range []state.Command{state.BundleOf("a.example", [][]byte{{1}}, 1), registerSL("sl-a")} {
			if _, err := leader.Propose(s.within(10*time.Second), c); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := leader.Propose(s.within(10*time.Second), state.BanNode{PeerID: "idsl-a", By: "x", AtMS: 1}); err != nil {
			t.Fatal(err)
		}
		follower := others(three, leader.name)[0]
		via.Store(&follower)
		head := leader.View().LedgerHead()
		order := ledger.Order{
			By: "x", Method: "UnbanNode", Request: []byte(`{"name":"sl-a"}`), Nonce: []byte("once"), Signature: []byte("signed"),
			Witnessed: ledger.Witness{Length: head.Length, Hash: head.Hash},
		}
		done := func(name string, o ledger.Order) bool {
			if err := s.servers[name].Barrier(s.within(time.Minute)); err != nil {
				t.Fatal(err)
			}
			var orders ledger.Orders
			_, found := orders.Find(&o, s.servers[name].View().LedgerHead().Length, s.servers[name].LedgerAfter)
			return found
		}
		if done(follower, order) {
			t.Error("done before it was asked for")
		}
		_, err := s.servers[follower].Propose(s.within(time.Minute), state.UnbanNode{PeerID: "idsl-a", AtMS: 1, Order: &order})
		if err == nil || vetted.Load() < 2 {
			t.Fatalf("the answer was not lost: %v, vetted %d times", err, vetted.Load())
		}
		s.stop(leader.name) // as a leader that loses its leadership for good
		for _, name := range others(three, leader.name) {
			if !done(name, order) {
				t.Errorf("%s says that it was not done", name)
			}
		}
		for what, change := range map[string]func(o *ledger.Order){
			"request":   func(o *ledger.Order) { o.Request = []byte(`{"name":"sl-b"}`) },
			"nonce":     func(o *ledger.Order) { o.Nonce = []byte("twice") },
			"signature": func(o *ledger.Order) { o.Signature = []byte("anothe") },
			"method":    func(o *ledger.Order) { o.Method = "BanNode" },
			"unsigned":  func(o *ledger.Order) { o.Signature = nil },
			"later":     func(o *ledger.Order) { o.Witnessed.Length = 1 << 63 },
		} {
			other := order
			change(&other)
			if done(follower, other) {
				t.Errorf("another %s counts as done", what)
			}
		}
	})
}
