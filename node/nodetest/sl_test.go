package nodetest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/node/nodetest"
)

// agree waits for the programs and holds that all ended well; End compares their final models.
func agree(t *testing.T, s *nodetest.Swarm, names ...string) {
	t.Helper()
	s.Wait(names...)
	for _, name := range names {
		if err := s.Run(name).Err(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPeerCrashes(t *testing.T) {
	for name, moment := range map[string]func(s *nodetest.Swarm) bool{
		"before it is ready":  func(s *nodetest.Swarm) bool { return s.Round() == 3 && s.Reported("sl-2").GetReady() == nil },
		"during the exchange": func(s *nodetest.Swarm) bool { return s.Planned(4) },
		"after Done": func(s *nodetest.Swarm) bool {
			return s.Planned(4) && s.Reported("sl-2").GetDone().GetRound() == 4
		},
	} {
		for _, back := range []bool{false, true} {
			if back {
				name += ", and returns"
			}
			t.Run(name, func(t *testing.T) {
				cfg := nodetest.Config{SNs: 3, SLs: 3, MinPeers: 2, Steps: 8}
				history(t, cfg, func(t *testing.T, s *nodetest.Swarm) {
					slowly(s, 50*time.Millisecond)
					for _, sn := range []string{"sn-0", "sn-1", "sn-2"} {
						s.Slow("sl-0", sn, 200*time.Millisecond) // its Done comes late
					}
					s.Until("the moment", func() bool { return moment(s) })
					s.Crash("sl-2")
					names := three[:2]
					if back {
						time.Sleep(time.Second)
						s.Restart("sl-2")
						names = three
					}
					agree(t, s, names...)
				})
			})
		}
	}
}

func TestProgramGivesUp(t *testing.T) {
	cfg := nodetest.Config{SNs: 1, SLs: 3, MinPeers: 2, Program: func(i int, p *nodetest.Program) {
		if i == 1 {
			p.Fail = 3
		}
	}}
	history(t, cfg, func(t *testing.T, s *nodetest.Swarm) {
		agree(t, s, "sl-0", "sl-2")
		if err := s.Run("sl-1").Err(); err == nil || !strings.Contains(err.Error(), "gave up") {
			t.Errorf("sl-1: got %v", err)
		}
	})
}

func TestLinkBetweenPeersCut(t *testing.T) {
	cfg := nodetest.Config{SNs: 3, SLs: 3, MinPeers: 2, Steps: 10}
	history(t, cfg, func(t *testing.T, s *nodetest.Swarm) {
		s.Until("two rounds", func() bool { return s.Round() == 2 })
		s.Cut("sl-0", "sl-1")
		s.Until("a round in spite of it", func() bool { return s.Round() >= 4 })
		s.Heal("sl-0", "sl-1")
		agree(t, s, three...)
		log := s.Log()
		if n := len(log[len(log)-1].Participants); n != 3 {
			t.Errorf("%d participants in the final round, want 3", n)
		}
		if n := len(log[3].Participants); n != 2 {
			t.Errorf("%d participants in round 4 over a cut link, want 2", n)
		}
	})
}

func TestLinkCutWithoutSpare(t *testing.T) {
	history(t, nodetest.Config{SNs: 3, SLs: 3}, func(t *testing.T, s *nodetest.Swarm) {
		s.Until("two rounds", func() bool { return s.Round() == 2 })
		s.Cut("sl-0", "sl-1")
		time.Sleep(3 * time.Minute)
		if s.Round() > 3 {
			t.Errorf("round %d over a cut link with three of three needed", s.Round())
		}
		if why := s.Waiting(); !strings.Contains(why, "sl-0") || !strings.Contains(why, "sl-1") {
			t.Errorf("waiting: %q; want both ends of the link named", why)
		}
		s.Heal("sl-0", "sl-1")
		plain(t, s)
	})
}

func TestBelowMinPeers(t *testing.T) {
	history(t, nodetest.Config{SNs: 3, SLs: 3}, func(t *testing.T, s *nodetest.Swarm) {
		s.Until("two rounds", func() bool { return s.Round() == 2 })
		s.Stop("sl-2")
		time.Sleep(2 * time.Minute)
		stood := s.Round()
		for _, want := range []string{"1 more peer", "need 3 (minPeers)", "lost: sl-2"} {
			if why := s.Waiting(); !strings.Contains(why, want) {
				t.Errorf("waiting: %q; want %q in it", why, want)
			}
		}
		waits := strings.Join(s.Run("sl-0").Waits(), "\n")
		if !strings.Contains(waits, "lost: sl-2") {
			t.Errorf("the waiting program was shown %q", waits)
		}
		if s.Round() != stood {
			t.Error("the swarm goes on below minPeers")
		}
		s.Continue("sl-2")
		plain(t, s)
	})
}

func TestExpiredIdentity(t *testing.T) {
	history(t, nodetest.Config{SNs: 3, SLs: 3, MinPeers: 2, Steps: 10}, func(t *testing.T, s *nodetest.Swarm) {
		s.Until("two rounds", func() bool { return s.Round() == 2 })
		s.Expire("sl-1")
		s.Until("a round without it", func() bool { return s.Round() >= 4 })
		s.Renew("sl-1")
		agree(t, s, three...)
		for _, r := range s.Log() {
			if r.Round == 4 && len(r.Participants) != 2 {
				t.Errorf("round 4 has %d participants, want 2: sl-1's identity had expired", len(r.Participants))
			}
		}
	})
}

func TestExpiredLeader(t *testing.T) {
	history(t, nodetest.Config{SNs: 3, SLs: 3}, func(t *testing.T, s *nodetest.Swarm) {
		s.Until("two rounds", func() bool { return s.Round() == 2 })
		old := s.Leader()
		s.Expire(old)
		s.Until("another leader", func() bool { return s.Leader() != old })
		s.Until("a round without it", func() bool { return s.Round() >= 4 })
		s.Renew(old)
		plain(t, s)
	})
}
