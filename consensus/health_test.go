package consensus_test

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestLeaderSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		s.form(three...)
		old := s.leader(three...)
		ago := func(name string) time.Duration { return time.Since(s.servers[name].LeaderSeen()) }
		time.Sleep(3 * time.Minute)
		for _, name := range three {
			if d := ago(name); d > 2*time.Second {
				t.Errorf("%s in an idle group: seen %s ago", name, d)
			}
		}
		s.net.Cut("id" + old.name)
		time.Sleep(2 * time.Minute)
		rest := others(three, old.name)
		s.leader(rest...)
		if d := ago(old.name); d < time.Minute {
			t.Errorf("a leader cut off for two minutes: seen %s ago", d)
		}
		for _, name := range rest {
			if d := ago(name); d > 2*time.Second {
				t.Errorf("%s, which belongs to the majority: seen %s ago", name, d)
			}
		}
		s.net.Heal("id" + old.name)
		s.leader(three...)
		if d := ago(old.name); d > 2*time.Second {
			t.Errorf("healed: seen %s ago", d)
		}
		s.net.Cut("id" + rest[0])
		s.net.Cut("id" + rest[1])
		time.Sleep(2 * time.Minute)
		for _, name := range three {
			if d := ago(name); d < time.Minute {
				t.Errorf("%s, of which none has a majority: seen %s ago", name, d)
			}
		}
	})
}
