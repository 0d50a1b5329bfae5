package planner_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/planner/reports"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
)

func TestManyRoundsToTheFinalOne(t *testing.T) {
	inSwarm(t, 3, func(s *swarm) {
		for _, p := range s.peers {
			p.closeAt = 20
		}
		s.enrol(s.peers...)
		s.run(2 * time.Minute)
		c := s.contract()
		if !c.Over || c.Committed.Round != 21 || !c.Committed.Final || c.Phase() != state.PhaseCompleted {
			t.Fatalf("over %t, committed %+v", c.Over, c.Committed)
		}
		if plans := len(commands[state.PlanRound](s)); plans != 21 {
			t.Errorf("%d plans for 21 rounds", plans)
		}
		status := s.current().Status(contractName)
		if len(status.Recent) != 21 || !status.Leading || status.Waiting.Kind != planner.WaitCompleted || len(status.Waiting.Snapshot.Peers) != 3 {
			t.Errorf("status: %d recent rounds, leading %t, %s", len(status.Recent), status.Leading, status.Waiting)
		}
	})
}

// TestLastCloseComesWhileTheLeaderLooks has the last peer close, and report it, at each moment at which the leader looks at
// the state: the round that follows is the final one, whatever it had seen by then.
func TestLastCloseComesWhileTheLeaderLooks(t *testing.T) {
	for at := 1; at <= 8; at++ {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			inSwarm(t, 2, func(s *swarm) {
				report := func(p *peer, ready *round.Ready, done *round.Done) {
					s.current().Record(reports.Report{Session: p.session, Contract: contractName, Run: 1, Node: p.node, Ready: ready, Done: done})
				}
				merge := func() {
					s.run(time.Second)
					for _, p := range s.peers {
						digest := fmt.Sprintf("%064x", s.contract().Round()+1)
						report(p, nil, &round.Done{Round: s.contract().Round() + 1, Attempt: 1, ModelDigest: digest, ShardDigests: []string{digest}})
					}
					s.run(time.Second)
				}
				leave := func(p *peer) {
					base := s.contract().Committed
					s.do(state.CloseSession{Session: p.session, Contract: contractName, Run: 1, Seq: 1})
					report(p, &round.Ready{Seq: 2, BaseRound: base.Round, BaseDigest: base.Digest, Weight: 1}, nil)
				}
				s.run(100 * time.Millisecond) // The leader knows that it leads.
				for _, p := range s.peers {
					s.do(p.open)
					report(p, &round.Ready{Seq: 1, Weight: 1}, nil)
				}
				merge()
				leave(s.peers[0])
				s.run(time.Second)
				looks := 0
				s.log.onLook(func() {
					if looks++; looks == at {
						s.log.onLook(nil)
						leave(s.peers[1])
					}
				})
				s.run(time.Second)
				merge()
				if c := s.contract(); !c.Over || c.Round() != 2 {
					t.Errorf("over %t after round %d, want the end with round 2", c.Over, c.Round())
				}
			})
		})
	}
}

func TestDeadPeerIsLeftOutAtOnce(t *testing.T) {
	tests := []struct {
		name   string
		during bool
	}{{"before", false}, {"during", true}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inSwarm(t, 3, func(s *swarm) {
				for _, p := range s.peers {
					p.open.Terms.MinPeers = 2
				}
				victim := s.peers[1]
				s.enrol(s.peers...)
				s.run(12 * time.Second) // Past the time in which a new leader declares nobody dead.
				if tt.during {
					victim.merge = time.Hour
					for s.contract().Plan == nil {
						s.run(50 * time.Millisecond)
					}
				}
				victim.dead.Store(true)
				s.run(20 * time.Second)
				dead := commands[state.SetLive](s)
				if len(dead) != 1 || dead[0].Node != victim.node || dead[0].Live {
					t.Fatalf("liveness changes: %+v", dead)
				}
				plans := commands[state.PlanRound](s)
				if got := nodes(plans[len(plans)-1].Participants); got != "sl-0 sl-2" {
					t.Errorf("planned %s", got)
				}
				attempts := 0
				for _, p := range plans {
					if p.Attempt > 1 {
						attempts++
					}
				}
				if want := map[bool]int{true: 1}[tt.during]; attempts != want {
					t.Errorf("%d repeated attempts, want %d", attempts, want)
				}
				round := s.contract().Round()
				victim.merge = 300 * time.Millisecond
				victim.dead.Store(false)
				s.run(15 * time.Second)
				plans = commands[state.PlanRound](s)
				if got := nodes(plans[len(plans)-1].Participants); got != "sl-0 sl-1 sl-2" || s.contract().Round() <= round {
					t.Errorf("after its return: planned %s, round %d", got, s.contract().Round())
				}
			})
		})
	}
}

func TestBelowMinPeersItBlocksAndSaysSo(t *testing.T) {
	inSwarm(t, 3, func(s *swarm) {
		s.enrol(s.peers[:2]...)
		s.run(time.Minute)
		if got, want := s.current().Status(contractName).Waiting.String(), "waiting for 1 more peer: have sl-0, sl-1; need 3 (minPeers)"; got != want {
			t.Errorf("waiting: %q, want %q", got, want)
		}
		s.enrol(s.peers[2])
		s.run(15 * time.Second)
		s.peers[0].dead.Store(true)
		s.run(20 * time.Second)
		round := s.contract().Round()
		s.run(5 * time.Minute)
		if got := s.current().Status(contractName).Waiting.String(); !strings.Contains(got, "need 3 (minPeers); lost: sl-0") || s.contract().Round() != round {
			t.Errorf("round %d after %d, waiting: %q", s.contract().Round(), round, got)
		}
		s.peers[0].dead.Store(false)
		s.run(10 * time.Second)
		if s.contract().Round() <= round {
			t.Error("did not go on when the peer came back")
		}
	})
}

func TestExpectedPeersAreWaitedForInTheFirstRound(t *testing.T) {
	for _, late := range []time.Duration{10 * time.Second, time.Minute} {
		t.Run(late.String(), func(t *testing.T) {
			inSwarm(t, 3, func(s *swarm) {
				for _, p := range s.peers {
					p.open.Terms.MinPeers, p.open.ExpectedPeers = 2, 3
				}
				s.enrol(s.peers[:2]...)
				s.run(9 * time.Second)
				if got, want := s.current().Status(contractName).Waiting.String(), "waiting for 1 more expected peer: have sl-0, sl-1; expect 3; starts without it at "; !strings.HasPrefix(got, want) {
					t.Errorf("waiting: %q", got)
				}
				s.run(late - 9*time.Second)
				s.enrol(s.peers[2])
				s.run(time.Second)
				first := commands[state.PlanRound](s)[0]
				want := "sl-0 sl-1"
				if late < 30*time.Second {
					want = "sl-0 sl-1 sl-2"
				}
				if got := nodes(first.Participants); got != want {
					t.Errorf("first round: %s, want %s", got, want)
				}
			})
		})
	}
}

// More than expected: who comes after the first round is out of step with the others, and in step from the next round on.
func TestOneMoreThanExpectedIsWaitedFor(t *testing.T) {
	inSwarm(t, 4, func(s *swarm) {
		for _, p := range s.peers {
			p.open.Terms.MinPeers, p.open.ExpectedPeers = 2, 3
		}
		s.enrol(s.peers[:3]...)
		s.run(10 * time.Second)
		s.enrol(s.peers[3])
		round := s.contract().Round()
		s.run(20 * time.Second)
		for _, c := range commands[state.PlanRound](s) {
			if c.Round > round+2 && len(c.Participants) != 4 {
				t.Errorf("round %d: %s, want all four", c.Round, nodes(c.Participants))
			}
		}
		if got := s.contract().Round(); got < round+6 {
			t.Errorf("round %d, want at least %d", got, round+6)
		}
	})
}

// It may be slow: a round of the three takes 2.3 s, and half of that longer with the fourth, never the quorum wait.
func TestSlowOneMoreThanExpectedHoldsNobodyForLong(t *testing.T) {
	inSwarm(t, 4, func(s *swarm) {
		for _, p := range s.peers {
			p.open.Terms.MinPeers, p.open.ExpectedPeers = 2, 3
		}
		s.peers[3].train = 20 * time.Second
		s.enrol(s.peers...)
		s.run(10 * time.Minute)
		if got := s.contract().Round(); got < 150 {
			t.Errorf("round %d after ten minutes, want at least 150", got)
		}
	})
}

func TestSlowPeerIsHeardEveryFifthRound(t *testing.T) {
	inSwarm(t, 3, func(s *swarm) {
		for _, p := range s.peers {
			p.open.Terms.MinPeers = 2
		}
		s.peers[2].train = 20 * time.Second
		s.enrol(s.peers...)
		s.run(10 * time.Minute)
		for _, c := range commands[state.PlanRound](s) {
			if c.Round > 5 && c.Round%5 == 0 && len(c.Participants) != 3 {
				t.Errorf("round %d without the slow peer", c.Round)
			}
		}
		if round := s.contract().Round(); round < 60 {
			t.Errorf("the slow peer held the others back: %d rounds in ten minutes", round)
		}
	})
}

func TestCutLink(t *testing.T) {
	cut := func(p *peer, plan *state.Plan) *round.Failed {
		both := plan.Participant("00000000000000000000000000000002") != nil && plan.Participant("00000000000000000000000000000003") != nil
		switch {
		case both && p.node == "sl-1":
			return &round.Failed{Blamed: "sl-2", Reason: "no byte for 10 s"}
		case both && p.node == "sl-2":
			return &round.Failed{Blamed: "sl-1", Reason: "no byte for 10 s"}
		}
		return nil
	}
	t.Run("heals", func(t *testing.T) {
		inSwarm(t, 3, func(s *swarm) {
			for _, p := range s.peers {
				p.open.Terms.MinPeers = 2
			}
			healed := s.start.Add(40 * time.Second)
			s.exchange = func(p *peer, plan *state.Plan) *round.Failed {
				if plan.Round == 2 && time.Now().Before(healed) {
					return cut(p, plan)
				}
				return nil
			}
			s.enrol(s.peers...)
			s.run(30 * time.Second)
			w := s.current().Status(contractName).Waiting
			if w.Kind != planner.WaitRetry && w.Kind != planner.WaitMerging || !strings.Contains(w.String(), "sl-1 could not go on with sl-2: no byte for 10 s") {
				t.Errorf("waiting: %s", w)
			}
			s.run(30 * time.Second)
			for _, c := range commands[state.PlanRound](s) {
				if len(c.Participants) != 3 {
					t.Errorf("round %d attempt %d: %s", c.Round, c.Attempt, nodes(c.Participants))
				}
			}
			if s.contract().Round() < 5 {
				t.Errorf("round %d", s.contract().Round())
			}
		})
	})
	t.Run("stays", func(t *testing.T) {
		inSwarm(t, 3, func(s *swarm) {
			for _, p := range s.peers {
				p.open.Terms.MinPeers = 2
			}
			s.exchange = cut
			s.enrol(s.peers...)
			s.run(50 * time.Second)
			if s.contract().Round() != 0 {
				t.Fatal("gave a peer up within the stall grace")
			}
			s.run(30 * time.Second)
			plans := commands[state.PlanRound](s)
			for _, c := range plans {
				if c.Round >= 1 && c.Round <= 4 && (c.Round > 1 || c.AtMS > s.start.Add(75*time.Second).UnixMilli()) && nodes(c.Participants) != "sl-0 sl-1" {
					t.Errorf("round %d: %s", c.Round, nodes(c.Participants))
				}
			}
			if s.contract().Round() < 4 {
				t.Errorf("round %d", s.contract().Round())
			}
		})
	})
}

func TestBlamedByTwoTwiceSitsOutThreeRounds(t *testing.T) {
	inSwarm(t, 4, func(s *swarm) {
		for _, p := range s.peers {
			p.open.Terms.MinPeers = 3
		}
		s.exchange = func(p *peer, plan *state.Plan) *round.Failed {
			if plan.Round == 2 && plan.Participant(s.peers[3].session) != nil && p.index < 2 {
				return &round.Failed{Blamed: "sl-3", Reason: "NaN in fc.weight"}
			}
			return nil
		}
		s.enrol(s.peers...)
		s.run(30 * time.Second)
		got := map[uint64]string{}
		for _, c := range commands[state.PlanRound](s) {
			got[c.Round] += fmt.Sprintf("%d ", len(c.Participants))
		}
		for round, want := range map[uint64]string{1: "4 ", 2: "4 4 3 ", 3: "3 ", 4: "3 ", 5: "3 ", 6: "4 "} {
			if got[round] != want {
				t.Errorf("round %d was planned with %s, want %s", round, got[round], want)
			}
		}
	})
}

func TestOtherDigestIsNotCommitted(t *testing.T) {
	inSwarm(t, 3, func(s *swarm) {
		for _, p := range s.peers {
			p.open.Terms.MinPeers = 2
		}
		s.digest = func(p *peer, plan *state.Plan) string {
			if plan.Round == 2 && p.index == 2 {
				return strings.Repeat("f", 64)
			}
			return fmt.Sprintf("%064x", plan.Round)
		}
		s.enrol(s.peers...)
		s.run(20 * time.Second)
		plans := map[uint64][]state.PlanRound{}
		for _, c := range commands[state.PlanRound](s) {
			plans[c.Round] = append(plans[c.Round], c)
		}
		if len(plans[2]) != 3 || nodes(plans[2][2].Participants) != "sl-0 sl-1" {
			t.Fatalf("plans of round 2: %+v", plans[2])
		}
		if got, want := plans[2][1].Reason, "sl-2: digest differs from the others'"; got != want {
			t.Errorf("reason %q, want %q", got, want)
		}
		for _, c := range commands[state.CommitRound](s) {
			if c.Digest != fmt.Sprintf("%064x", c.Round) {
				t.Errorf("round %d has digest %s", c.Round, c.Digest)
			}
		}
	})
}

func TestNewLeaderGoesOnMidPlan(t *testing.T) {
	inSwarm(t, 3, func(s *swarm) {
		s.peers[2].merge = 3 * time.Second
		s.enrol(s.peers...)
		s.run(time.Second)
		if s.contract().Plan == nil {
			t.Fatal("no plan")
		}
		s.newLeader()
		s.run(5 * time.Second)
		if c := s.contract(); c.Round() < 1 || c.Committed.Attempt != 1 && c.Round() == 1 {
			t.Errorf("committed %+v", c.Committed)
		}
		if dead := commands[state.SetLive](s); len(dead) != 0 {
			t.Errorf("the new leader declared %+v", dead)
		}
		s.log.leader.Store(false)
		round := s.contract().Round()
		s.run(time.Minute)
		if s.contract().Round() > round+1 || s.current().Status(contractName).Leading {
			t.Error("goes on without leadership")
		}
		s.log.leader.Store(true)
		s.run(20 * time.Second)
		if s.contract().Round() <= round+1 {
			t.Error("does not go on when it leads again")
		}
		if dead := commands[state.SetLive](s); len(dead) != 0 {
			t.Errorf("declared %+v", dead)
		}
	})
}

func TestFinalRoundThatCanNotBeHeld(t *testing.T) {
	inSwarm(t, 3, func(s *swarm) {
		for _, p := range s.peers {
			p.open.Terms.MinPeers = 2
		}
		s.enrol(s.peers...)
		s.run(15 * time.Second)
		s.peers[0].dead.Store(true)
		s.peers[1].dead.Store(true)
		s.peers[2].train = time.Hour
		s.run(10 * time.Second)
		c := s.contract()
		for _, p := range s.peers[:2] {
			s.do(state.CloseSession{Session: p.session, Contract: contractName, Run: c.Run, Seq: 1})
		}
		s.run(25 * time.Second)
		if s.contract().Over {
			t.Fatal("ended before one quorum wait")
		}
		s.run(10 * time.Second)
		if c := s.contract(); !c.Over || !c.Committed.Final {
			t.Errorf("over %t, waiting: %s", c.Over, s.current().Status(contractName).Waiting)
		}
	})
}

func TestAdaptiveInterval(t *testing.T) {
	tests := []struct {
		name string
		loss func(round uint64) float64
		want []uint32
	}{
		{"falls", func(r uint64) float64 { return 100 / float64(r*r) }, []uint32{16, 16, 32, 64, 128, 256, 256, 256}},
		{"stalls", func(uint64) float64 { return 1 }, []uint32{16, 16, 16, 8, 8, 4, 4, 4, 4, 4}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inSwarm(t, 2, func(s *swarm) {
				s.loss = tt.loss
				for _, p := range s.peers {
					p.open.Adaptive = true
				}
				s.enrol(s.peers...)
				s.run(time.Minute)
				var got []uint32
				for _, c := range commands[state.CommitRound](s) {
					got = append(got, c.NextInterval)
				}
				if diff := cmp.Diff(tt.want, got[:len(tt.want)]); diff != "" {
					t.Errorf("intervals (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestLateJoinerContributesFromTheNextRound(t *testing.T) {
	inSwarm(t, 3, func(s *swarm) {
		for _, p := range s.peers {
			p.open.Terms.MinPeers = 2
		}
		s.enrol(s.peers[:2]...)
		s.run(20 * time.Second)
		round := s.contract().Round()
		s.enrol(s.peers[2])
		s.run(20 * time.Second)
		plans := commands[state.PlanRound](s)
		if got := nodes(plans[len(plans)-1].Participants); got != "sl-0 sl-1 sl-2" || s.contract().Round() <= round {
			t.Errorf("planned %s in round %d", got, s.contract().Round())
		}
	})
}
