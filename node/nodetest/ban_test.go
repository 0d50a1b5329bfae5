package nodetest_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/node/nodetest"
)

func TestBanOfAnSL(t *testing.T) {
	for name, moment := range map[string]func(s *nodetest.Swarm) bool{
		"before it is ready":  func(s *nodetest.Swarm) bool { return s.Round() == 3 && s.SLs.Reported("sl-2").GetReady() == nil },
		"during the exchange": func(s *nodetest.Swarm) bool { return s.Planned(4) },
		"after Done": func(s *nodetest.Swarm) bool {
			return s.Planned(4) && s.SLs.Reported("sl-2").GetDone().GetRound() == 4
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := nodetest.Config{SNs: 3, SLs: 3, MinPeers: 2, Steps: 60}
			history(t, cfg, func(t *testing.T, s *nodetest.Swarm) {
				enrolled(s, 3)
				slowly(s, 50*time.Millisecond)
				for _, sn := range []string{"sn-0", "sn-1", "sn-2"} {
					s.Network.Slow("sl-0", sn, 200*time.Millisecond) // its Done comes late
				}
				s.Until("the moment", func() bool { return moment(s) })
				banned := time.Now()
				if _, err := s.Operator().BanNode(t.Context(), "sl-2", "key copied"); err != nil {
					t.Fatal(err)
				}
				s.Until("round 4", func() bool { return s.Round() >= 4 })
				if took := time.Since(banned); took > 10*time.Second {
					t.Errorf("the next round came %s after the ban", took)
				}
				if with := s.View(nodetest.Contract).Committed.Participants; slices.Contains(with, "sl-2") {
					t.Errorf("round 4 was committed with %v", with)
				}
				s.Wait("sl-2")
				if err := s.Run("sl-2").Err(); err == nil || !strings.Contains(err.Error(), "banned") {
					t.Errorf("the banned node's program ended with %v", err)
				}
				s.Restart("sl-2")
				s.Wait("sl-2")
				if err := s.Run("sl-2").Err(); client.Reason(err) != "BANNED" || !strings.Contains(err.Error(), "key copied") {
					t.Errorf("registration: %v", err)
				}
				thief := s.Thief("sl-2", "/swarm/sl/sl-2") // the key as it is, elsewhere
				for _, at := range []string{"sl-0", "sl-1"} {
					for what, err := range map[string]error{"merge": thief.Merge(at), "fetch": thief.Fetch(at)} {
						if err == nil || !strings.Contains(err.Error(), "is banned") {
							t.Errorf("%s at %s: %v", what, at, err)
						}
					}
				}
				if err := thief.Register("sl-2"); client.Reason(err) != "BANNED" {
					t.Errorf("registration elsewhere: %v", err)
				}
				before := s.Round()
				s.Until("further rounds", func() bool { return s.Round() > before+1 })
				if err := s.Operator().UnbanNode(t.Context(), "sl-2"); err != nil {
					t.Fatal(err)
				}
				s.Restart("sl-2")
				s.Until("a round with all", func() bool { return len(s.View(nodetest.Contract).Committed.Participants) == 3 })
				agree(t, s, three...)
			})
		})
	}
}

func TestBanOfAnSN(t *testing.T) {
	for _, who := range []string{"leader", "follower", "the operator's own"} {
		t.Run(who, func(t *testing.T) {
			history(t, nodetest.Config{SNs: 3, SLs: 3, Steps: 40}, func(t *testing.T, s *nodetest.Swarm) {
				s.Until("two rounds", func() bool { return s.Round() == 2 })
				victim := s.Leader()
				switch who {
				case "follower":
					victim = map[string]string{"sn-0": "sn-1", "sn-1": "sn-2", "sn-2": "sn-0"}[victim]
				case "the operator's own":
					victim = "sn-0"
				}
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				if _, err := s.Operator().BanNode(ctx, victim, ""); err != nil {
					t.Fatal(err)
				}
				s.Until("it is expelled", func() bool { return !s.SNs.Member(victim) })
				at := s.Round()
				s.Until("rounds without it", func() bool { return s.Round() > at+5 })
				time.Sleep(time.Minute)
				if s.SNs.Member(victim) {
					t.Error("a banned SN is a member again")
				}
				s.Restart(victim)
				time.Sleep(time.Minute)
				if s.SNs.Member(victim) {
					t.Error("a banned SN joined again at its start")
				}
				s.Crash(victim)
				agree(t, s, three...)
			})
		})
	}
}

func TestLastSNIsNotBanned(t *testing.T) {
	history(t, nodetest.Config{SNs: 1, SLs: 1}, func(t *testing.T, s *nodetest.Swarm) {
		if _, err := s.Operator().BanNode(t.Context(), "sn-0", ""); client.Reason(err) != "LAST_SN" {
			t.Errorf("ban of the only SN: %v", err)
		}
		finals(t, s, 30+5*3, "sl-0")
	})
}

// TestStolenKeyWithAnotherSVID: the key alone opens nothing, while its owner goes on.
func TestStolenKeyWithAnotherSVID(t *testing.T) {
	history(t, nodetest.Config{SNs: 3, SLs: 3, Steps: 30}, func(t *testing.T, s *nodetest.Swarm) {
		s.Until("two rounds", func() bool { return s.Round() == 2 })
		for _, path := range []string{"/swarm/sl", "/swarm/sl/sl-2", "/swarm/sl/evil"} {
			thief := s.Thief("sl-1", path)
			for what, err := range map[string]error{"merge": thief.Merge("sl-0"), "fetch": thief.Fetch("sl-0")} {
				if err == nil || !strings.Contains(err.Error(), "sl-1 shows the SPIFFE ID spiffe://swarm.test"+path) {
					t.Errorf("%s with %s: %v", what, path, err)
				}
			}
			want := map[string]string{"/swarm/sl": "NAME_TAKEN"}[path]
			if want == "" {
				want = "NAME_MISMATCH"
			}
			if err := thief.Register("sl-1"); client.Reason(err) != want {
				t.Errorf("registration with %s: %v", path, err)
			}
		}
		agree(t, s, three...)
	})
}
