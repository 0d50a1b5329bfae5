package history_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/history"
)

// strangers is a round in which another SN says that nodes took part which it has made up.
func strangers(n uint64) *history.Round {
	r := &history.Round{Round: n, Attempt: 1, Digest: "lie"}
	for i := range history.MaxPeers {
		r.Peers = append(r.Peers, history.Peer{Node: fmt.Sprintf("a-%d", i), Loss: number(9), Contributed: true})
	}
	for i := range uint64(32) {
		r.Failed = append(r.Failed, history.Failed{Attempt: i, Blamed: "a-1"})
	}
	return r
}

// TestStrangersTakeNoRoom: of a round that this SN knows by itself it keeps who took part, whatever another SN makes up, before or after.
func TestStrangersTakeNoRoom(t *testing.T) {
	for name, late := range map[string]bool{"before the ledger": false, "behind the ledger": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, _ := open(t, t.TempDir(), history.Limits{})
				on := newSN()
				on.show(committed(3, "sl-0", "zz"))
				on.view.Ledger = &ledger.Head{Length: 3}
				told := make(chan struct{})
				_, _, _ = recording(t, store, on, sources{"sn-1": func(string, history.Query) (history.Part, bool, error) {
					if late {
						<-told
					}
					honest := strangers(2)
					honest.Peers = append(honest.Peers[1:], history.Peer{Node: "sl-0", Loss: number(0.5)})
					honest.Failed[5] = history.Failed{Attempt: 1, Blamed: "sl-0"}
					return history.Part{Run: 2, Last: 3, Rounds: []*history.Round{strangers(1), honest, strangers(3)}}, true, nil
				}})
				read := func() {
					on.mu.Lock()
					for n := uint64(1); n <= 3; n++ {
						on.ledger = append(on.ledger, records(t, ledger.Round{Contract: "c", Run: 2, Round: n, Attempt: 2, Model: "m", Participants: []ledger.Participant{{Node: "sl-0", Weight: 3}, {Node: "zz", Weight: 3}}})...)
					}
					on.mu.Unlock()
				}
				if late {
					read()
				}
				time.Sleep(10 * time.Second)
				if late {
					close(told)
				} else {
					read()
				}
				time.Sleep(10 * time.Second)
				for n := uint64(1); n <= 3; n++ {
					got := get(t, store, "c", 2, n)
					if got == nil || len(got.Peers) != 2 || got.Peers[1].Node != "zz" || *got.Peers[1].Weight != 3 {
						t.Fatalf("round %d: %+v", n, got)
					}
					if p := got.Peers[0]; p.Node != "sl-0" || (p.Loss != nil) != (n == 2) {
						t.Errorf("round %d: %+v", n, p)
					}
					if want := map[bool]int{true: 1}[n == 2]; len(got.Failed) != want {
						t.Errorf("round %d has failures %v", n, got.Failed)
					}
				}
			})
		})
	}
}

// TestNodesOfTheSwarmGiveRoomToo: who took part comes before all other nodes, also those that the state has.
func TestNodesOfTheSwarmGiveRoomToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := open(t, t.TempDir(), history.Limits{})
		lie := strangers(1)
		if err := store.Put("c", 2, lie); err != nil {
			t.Fatal(err)
		}
		on := newSN()
		on.show(committed(1, "sl-0", "zz"))
		on.view.Nodes = map[string]*state.Node{}
		for _, p := range lie.Peers {
			on.view.Nodes[p.Node] = &state.Node{}
		}
		_, _, _ = recording(t, store, on, sources{})
		time.Sleep(time.Second)
		got := get(t, store, "c", 2, 1)
		if len(got.Peers) != history.MaxPeers || got.Peers[len(got.Peers)-1].Node != "zz" || !got.Peers[len(got.Peers)-2].Contributed {
			t.Errorf("%+v", got)
		}
	})
}
