package nodetest_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/node/nodetest"
)

// TestPortsShut: SLs that nobody can dial take part over what they dial themselves. Two of them have no way to each other: then those go on
// that do, without the time that a link which carried before is given; the ports are named, and a port that is opened is found.
func TestPortsShut(t *testing.T) {
	for _, tt := range []struct {
		name string
		shut []string
		min  int
		with []string // in the first round
		says string   // while it lasts
	}{
		{"one", []string{"sl-1"}, 3, three, ""},
		{"two of which one suffices", []string{"sl-0", "sl-1"}, 2, []string{"sl-0", "sl-2"}, "sl-1 cannot open sl-0:30305 (TCP)"},
		{"two, and all are needed", []string{"sl-0", "sl-1"}, 3, three, "sl-0 cannot open sl-1:30305 (TCP), which does not answer: open it inbound at sl-1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := nodetest.Config{SNs: 1, SLs: 3, MinPeers: tt.min, ExpectedPeers: 3, Steps: 30, Think: think, Calm: calm}
			history(t, cfg, func(t *testing.T, s *nodetest.Swarm) {
				for _, name := range tt.shut {
					s.Network.Shut(name, true)
				}
				enrolled(s, 3)
				begun := time.Now()
				if tt.says != "" {
					time.Sleep(20 * time.Second)
					if got := explanation(t, s); !strings.Contains(got, tt.says) {
						t.Errorf("it is not explained:\n%s", got)
					}
				}
				if got, blocked := s.Round(), tt.min == 3 && len(tt.shut) > 1; blocked && got > 0 {
					t.Errorf("round %d was committed", got)
				} else if !blocked {
					s.Until("the first round", func() bool { return s.Round() > 0 })
					if took := s.Log.Rounds()[0].At.Sub(begun); took > 15*time.Second {
						t.Errorf("the first round took %s", took)
					}
				}
				s.Network.Shut(tt.shut[0], false)
				s.Until("a round of all", func() bool {
					rounds := s.Log.Rounds()
					return len(rounds) > 0 && slices.Equal(names(rounds[len(rounds)-1]), three)
				})
				if first := names(s.Log.Rounds()[0]); !slices.Equal(first, tt.with) {
					t.Errorf("the first round was held by %v, want %v", first, tt.with)
				}
				agree(t, s, three...)
			})
		})
	}
}
