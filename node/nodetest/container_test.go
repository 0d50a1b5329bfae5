package nodetest_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/swarmd/swarmd/node/nodetest"
)

// TestDaemonCrashesAndItsProgramLivesOn: no round is lost on a program whose daemon returns, and it runs once.
func TestDaemonCrashesAndItsProgramLivesOn(t *testing.T) {
	for name, moment := range map[string]func(s *nodetest.Swarm) bool{
		"before the first round": func(s *nodetest.Swarm) bool { return s.SLs.Reported("sl-2").GetReady() != nil },
		"while it trains":        func(s *nodetest.Swarm) bool { return s.Round() == 3 && s.SLs.Reported("sl-2").GetReady() == nil },
		"during the exchange":    func(s *nodetest.Swarm) bool { return s.Planned(4) },
		"after Done": func(s *nodetest.Swarm) bool {
			return s.Planned(4) && s.SLs.Reported("sl-2").GetDone().GetRound() == 4
		},
		"after the commit": func(s *nodetest.Swarm) bool { return s.Round() == 4 },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := nodetest.Config{SNs: 3, SLs: 3, MinPeers: 2, Steps: 10, Elements: 30_000, Containers: true}
			history(t, cfg, func(t *testing.T, s *nodetest.Swarm) {
				enrolled(s, 3)
				slowly(s, 50*time.Millisecond)
				for _, sn := range []string{"sn-0", "sn-1", "sn-2"} {
					s.Network.Slow("sl-0", sn, 200*time.Millisecond) // its Done comes late
				}
				s.Until(name, func() bool { return moment(s) })
				s.Crash("sl-2")
				time.Sleep(2 * time.Second)
				s.Restart("sl-2")
				agree(t, s, three...)
				if n := len(s.SLs.Runs("sl-2")); n != 1 {
					t.Errorf("the program of sl-2 ran %d times, want once", n)
				}
			})
		})
	}
}

// TestRandomFaultsInContainers is TestRandomFaults with programs that outlive their daemons.
func TestRandomFaultsInContainers(t *testing.T) {
	first, last := chosen(t, seeds/2)
	for seed := first; seed <= last; seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			cfg := nodetest.Config{SNs: 3, SLs: 3, MinPeers: 2, Steps: 15, Elements: 30_000, Containers: true}
			history(t, cfg, func(t *testing.T, s *nodetest.Swarm) { faults(t, s, rand.New(rand.NewPCG(seed, 2))) })
		})
	}
}
