package nodetest_test

import (
	"testing"
	"time"

	"github.com/swarmd/swarmd/node/nodetest"
)

// slowly makes exchanges take a while, so that something can happen during one.
func slowly(s *nodetest.Swarm, d time.Duration) {
	s.Slow("sl-0", "sl-1", d)
	s.Slow("sl-0", "sl-2", d)
	s.Slow("sl-1", "sl-2", d)
}

func TestLeaderCrashes(t *testing.T) {
	for name, moment := range map[string]func(s *nodetest.Swarm) bool{
		"before a plan": func(s *nodetest.Swarm) bool {
			return s.Round() == 3 && s.Reported("sl-0").GetReady().GetSeq() == 4 && !s.Planned(4)
		},
		"during the exchange": func(s *nodetest.Swarm) bool { return s.Planned(4) },
		"after the commit":    func(s *nodetest.Swarm) bool { return s.Round() == 4 },
	} {
		for _, back := range []bool{false, true} {
			if back {
				name += ", and returns"
			}
			t.Run(name, func(t *testing.T) {
				cfg := nodetest.Config{SNs: 3, SLs: 3, Program: func(i int, p *nodetest.Program) {
					p.Think = time.Duration(i+1) * time.Second
				}}
				history(t, cfg, func(t *testing.T, s *nodetest.Swarm) {
					slowly(s, 50*time.Millisecond)
					s.Until("the moment", func() bool { return moment(s) })
					old := s.Leader()
					s.Crash(old)
					if back {
						s.Until("another leader", func() bool { return s.Leader() != old })
						time.Sleep(3 * time.Second)
						s.Restart(old)
					}
					plain(t, s)
				})
			})
		}
	}
}

func TestSentinelCrashesForGood(t *testing.T) {
	history(t, nodetest.Config{SNs: 3, SLs: 3}, func(t *testing.T, s *nodetest.Swarm) {
		s.Until("two rounds", func() bool { return s.Round() == 2 })
		s.Crash("sn-0")
		plain(t, s)
	})
}

func TestAllSNsRestart(t *testing.T) {
	history(t, nodetest.Config{SNs: 3, SLs: 3}, func(t *testing.T, s *nodetest.Swarm) {
		slowly(s, 50*time.Millisecond)
		s.Until("an exchange", func() bool { return s.Planned(3) })
		for _, name := range []string{"sn-0", "sn-1", "sn-2"} {
			s.Crash(name)
		}
		time.Sleep(20 * time.Second)
		for _, name := range []string{"sn-0", "sn-1", "sn-2"} {
			s.Restart(name)
		}
		plain(t, s)
	})
}

func TestSNPartition(t *testing.T) {
	history(t, nodetest.Config{SNs: 3, SLs: 3}, func(t *testing.T, s *nodetest.Swarm) {
		s.Until("two rounds", func() bool { return s.Round() == 2 })
		old := s.Leader()
		s.Isolate(old)
		s.Until("another leader", func() bool { return s.Leader() != old })
		s.Until("a round without the old leader", func() bool { return s.Round() >= 4 })
		s.Join(old)
		plain(t, s)
	})
}

func TestNoMajority(t *testing.T) {
	history(t, nodetest.Config{SNs: 3, SLs: 3}, func(t *testing.T, s *nodetest.Swarm) {
		s.Until("two rounds", func() bool { return s.Round() == 2 })
		s.Cut("sn-0", "sn-1")
		s.Cut("sn-1", "sn-2")
		s.Cut("sn-0", "sn-2")
		time.Sleep(time.Minute)
		stood := s.Round()
		time.Sleep(time.Minute)
		if got := s.Round(); got != stood {
			t.Errorf("round %d was committed without a majority", got)
		}
		s.Heal("sn-0", "sn-1")
		s.Heal("sn-1", "sn-2")
		s.Heal("sn-0", "sn-2")
		plain(t, s)
	})
}

func TestFrozenLeader(t *testing.T) {
	history(t, nodetest.Config{SNs: 3, SLs: 3}, func(t *testing.T, s *nodetest.Swarm) {
		s.Until("two rounds", func() bool { return s.Round() == 2 })
		old := s.Leader()
		s.Stop(old)
		time.Sleep(45 * time.Second)
		s.Continue(old)
		plain(t, s)
	})
}
