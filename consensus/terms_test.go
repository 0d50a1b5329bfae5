package consensus_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/swarmd/swarmd/consensus"
	"github.com/swarmd/swarmd/consensus/raftnet"
)

// term returns the term that a server has stored.
func (s *swarm) term(name string) uint64 {
	s.t.Helper()
	term, err := s.stores[name].Stable.GetUint64([]byte("CurrentTerm"))
	if err != nil {
		s.t.Fatal(err)
	}
	return term
}

// TestTermsInSteps: a member lifts the term of one of two honest ones again and again. The other one must find a way to
// it, once both have been started again too.
func TestTermsInSteps(t *testing.T) {
	for _, speaks := range []bool{false, true} {
		t.Run(map[bool]string{false: "gone", true: "still speaking"}[speaks], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSwarm(t)
				s.form(three...)
				bad := others(three, s.leader(three...).name)[0]
				honest := others(three, bad)
				s.stop(bad)
				trans, _ := s.rogue(consensus.Peer{PeerID: "id" + bad, Role: "sn"}, bad)
				header := raft.RPCHeader{ProtocolVersion: 3, ID: []byte(bad), Addr: []byte(address(bad))}
				lift := func() {
					for range 4 {
						for _, kind := range []string{"heartbeat", "append", "vote and leadership transfer"} {
							_ = attacks[kind](trans, header, address(honest[0]), s.term(honest[0])+1<<20)
						}
					}
				}
				lift()
				if s.term(honest[0]) < 1<<22 {
					t.Errorf("the term is %d: the rogue lifted nothing", s.term(honest[0]))
				}
				stop := make(chan struct{})
				defer close(stop)
				if speaks {
					go func() {
						for {
							select {
							case <-stop:
								return
							case <-time.After(30 * time.Second):
								lift()
							}
						}
					}()
				}
				s.restart(honest...)
				s.leader(honest...)
				s.propose(honest[1], "sl-0")
				s.converged(honest...)
			})
		})
	}
}

// TestTermsAtTheCeiling: the highest terms that are believed, in each message and in answers, leave room for those of elections.
func TestTermsAtTheCeiling(t *testing.T) {
	ceiling := func() uint64 { return raftnet.Ceiling(time.Now()) }
	for name, send := range attacks {
		if name == "snapshot" {
			continue // who takes a state of three bytes has lost its own
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSwarm(t)
				s.form(three...)
				bad := others(three, s.leader(three...).name)[0]
				honest := others(three, bad)
				s.stop(bad)
				s.answers(bad, ceiling)
				trans, _ := s.rogue(consensus.Peer{PeerID: "id" + bad, Role: "sn"}, bad)
				header := raft.RPCHeader{ProtocolVersion: 3, ID: []byte(bad), Addr: []byte(address(bad))}
				for range 100 {
					_ = send(trans, header, address(honest[0]), ceiling())
					_ = send(trans, header, address(honest[0]), ceiling()+1)
					time.Sleep(time.Second)
				}
				if term, most := s.term(honest[0]), ceiling(); term < most-1<<20 || term > most {
					t.Errorf("the term is %d, of at most %d", term, most)
				}
				s.net.Cut("id" + bad)
				s.leader(honest...)
				s.propose(honest[0], "sl-0")
				s.restart(honest...)
				s.leader(honest...)
				s.propose(honest[1], "sl-1")
				s.converged(honest...)
			})
		})
	}
}

// TestCeiling: it rises faster than servers elect, and is none where a clock says nothing.
func TestCeiling(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if a, b := raftnet.Ceiling(now), raftnet.Ceiling(now.Add(time.Second)); b != a+1000 || a < 1<<40 || a > 1<<42 {
		t.Errorf("at %s it is %d, a second later %d", now, a, b)
	}
	for _, at := range []time.Time{{}, time.Unix(0, 0), time.Unix(-1<<40, 0)} {
		if c := raftnet.Ceiling(at); c != 1<<20 {
			t.Errorf("at %s it is %d", at, c)
		}
	}
}
