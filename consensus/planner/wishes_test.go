package planner_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/planner/explain"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
)

// greedy has one of three peers ask for all that it may.
func greedy(s *swarm) {
	for _, p := range s.peers {
		p.open.Terms.MinPeers = 2
	}
	o := &s.peers[2].open
	o.QuorumWaitMS, o.StallGraceMS, o.ExpectedPeers, o.SyncFrequency = state.MaxWaitMS, state.MaxWaitMS, state.MaxMinPeers, 1
}

// firstRound lets time pass, half an hour at most, and returns when the first round was committed.
func (s *swarm) firstRound() time.Duration {
	s.t.Helper()
	for range 30 {
		s.run(time.Minute)
		if c := s.contract().Committed; c != nil {
			return time.UnixMilli(c.CommittedMS).Sub(s.start)
		}
	}
	s.t.Fatal("no round in half an hour")
	return 0
}

// TestOnePeersWishesStopNobody: who asks for a week and never gets ready delays the first round by ten times the quorum wait of
// the SN at most, and one whose links fail is left out after ten times its stall grace.
func TestOnePeersWishesStopNobody(t *testing.T) {
	t.Run("quorum wait", func(t *testing.T) {
		inSwarm(t, 3, func(s *swarm) {
			greedy(s)
			s.do(s.peers[2].open) // It never says that it is ready.
			s.enrol(s.peers[:2]...)
			s.run(time.Second)
			lines := strings.Join(explain.Lines(s.current().Status(contractName).Waiting, time.Now()), "\n")
			if want := "longer waits are asked for than count, quorum wait 5 min and stall grace 10 min"; !strings.Contains(lines, want) || !strings.Contains(lines, "more: sl-2") {
				t.Errorf("%s\nwant %q of sl-2", lines, want)
			}
			if took := s.firstRound(); took < 4*time.Minute || took > 6*time.Minute {
				t.Errorf("the first round was committed after %s, want five minutes", took)
			}
		})
	})
	t.Run("stall grace", func(t *testing.T) {
		inSwarm(t, 3, func(s *swarm) {
			greedy(s)
			s.exchange = func(p *peer, plan *state.Plan) *round.Failed {
				if p.node != "sl-2" && plan.Participant(s.peers[2].session) != nil && p.node == plan.Participants[0].Node {
					return &round.Failed{Blamed: "sl-2", Reason: "no byte for 10 s"}
				}
				return nil
			}
			s.enrol(s.peers...)
			if took := s.firstRound(); took < 14*time.Minute || took > 16*time.Minute { // Five of them it waits for more peers.
				t.Errorf("the first round was committed after %s, want fifteen minutes", took)
			}
		})
	})
}

// TestARuleIsHeldWhole: what the contract's rules say has no such bound, and says nothing of wishes.
func TestARuleIsHeldWhole(t *testing.T) {
	const hour = 3_600_000
	b := newTableOf(t, state.Rules{QuorumWaitMS: hour, StallGraceMS: hour}, 3, func(i int, o *state.OpenSession) {
		o.QuorumWaitMS, o.StallGraceMS = state.MaxWaitMS, state.MaxWaitMS
	})
	b.ready(1, 0, 1)
	w := b.follow()
	if w.Until.Sub(b.now) != time.Hour || len(w.Snapshot.Curbed) > 0 {
		t.Errorf("waits %s, and %v are told to ask for too much", w.Until.Sub(b.now), w.Snapshot.Curbed)
	}
}

// TestOnePeersIntervalIsNotEverybodys: the start interval is the smallest that is asked for, but no tenth of what most ask for.
func TestOnePeersIntervalIsNotEverybodys(t *testing.T) {
	for _, tt := range []struct {
		asked []uint32
		want  uint32
	}{
		{[]uint32{200, 200, 1}, 20},
		{[]uint32{200, 200, 1_000_000_000}, 200},
		{[]uint32{200, 1_000_000_000}, 200},
		{[]uint32{200, 100, 50}, 50},
		{[]uint32{5, 1, 1}, 1},
		{[]uint32{7}, 7},
	} {
		b := newTableOf(t, state.Rules{}, len(tt.asked), func(i int, o *state.OpenSession) {
			o.SyncFrequency, o.Terms.MinPeers = tt.asked[i], uint32(len(tt.asked))
		})
		var all []int
		for i := range tt.asked {
			all = append(all, i)
		}
		b.round(all...)
		if got := b.contract().Committed.NextInterval; got != tt.want {
			t.Errorf("%v: %d batches, want %d", tt.asked, got, tt.want)
		}
	}
}

// TestOneWeightUnderARuleOfShare: where a rule demands a share of the enrolled weight, who enrolled with 90 can't bring 1 and still
// stand for 90, nor can who enrolled with 1 bring 100. Without the rule each sync's weight counts.
func TestOneWeightUnderARuleOfShare(t *testing.T) {
	for _, tt := range []struct {
		share uint32
		want  []uint32
	}{{900_000, []uint32{90, 1, 0}}, {0, []uint32{1, 100, 0}}} {
		b := newTableOf(t, state.Rules{MinWeightSharePPM: tt.share}, 3, func(i int, o *state.OpenSession) { o.Weight = []uint32{90, 1, 2}[i] })
		for i, w := range []uint32{1, 100, 0} {
			b.ready(w, i)
		}
		b.follow()
		plan := b.contract().Plan
		if plan == nil {
			t.Fatalf("share %d: no plan", tt.share)
		}
		var got []uint32
		for _, p := range plan.Participants {
			got = append(got, p.Weight)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("share %d: weights %v, want %v", tt.share, got, tt.want)
		}
	}
}
