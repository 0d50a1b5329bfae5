package planner_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
)

// TestChaos has peers die and return, exchanges fail and leaders change at random; when the trouble ends the swarm must
// come to its final model, and the leader must never have proposed what Apply refuses again and again.
func TestChaos(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inSwarm(t, 5, func(s *swarm) {
				rng := rand.New(rand.NewPCG(seed, 7))
				var mu sync.Mutex // The peers share the generator.
				trouble := true
				s.exchange = func(p *peer, plan *state.Plan) *round.Failed {
					mu.Lock()
					defer mu.Unlock()
					if !trouble || (plan.Attempt+plan.Round+seed)%3 != 0 || rng.IntN(3) == 0 {
						return nil
					}
					return &round.Failed{Blamed: plan.Participants[rng.IntN(len(plan.Participants))].Node, Reason: "trouble"}
				}
				for i, p := range s.peers {
					p.open.Terms.MinPeers = 3
					p.closeAt = uint64(10 + 5*i)
					p.train = time.Duration(1+i) * time.Second
				}
				s.enrol(s.peers...)
				for range 40 {
					mu.Lock()
					p, what, pause := s.peers[rng.IntN(5)], rng.IntN(10), time.Duration(rng.IntN(8000))*time.Millisecond
					mu.Unlock()
					if what == 0 {
						s.newLeader()
					}
					p.dead.Store(what < 5)
					s.run(pause)
				}
				mu.Lock()
				trouble = false
				mu.Unlock()
				for _, p := range s.peers {
					p.dead.Store(false)
				}
				s.run(10 * time.Minute)
				c := s.contract()
				if !c.Over {
					t.Errorf("round %d, waiting: %s", c.Round(), s.current().Status(contractName).Waiting)
				}
				s.log.mu.Lock()
				defer s.log.mu.Unlock()
				if s.log.refused > 5 {
					t.Errorf("%d proposals were refused", s.log.refused)
				}
			})
		})
	}
}
