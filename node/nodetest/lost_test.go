package nodetest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/node/nodetest"
)

// TestLostModel: the peers that merged the last models lose their memory, as in a power cut. Training goes back to what the
// third one holds, in a round of its own that nobody merged, and ends well; without any it begins anew. The checks at the end
// hold every later round to its base.
func TestLostModel(t *testing.T) {
	for name, all := range map[string]bool{"one holds an older one": false, "nobody holds any": true} {
		t.Run(name, func(t *testing.T) {
			cfg := nodetest.Config{SNs: 3, SLs: 3, MinPeers: 2, Steps: 6, QuorumWait: 5 * time.Second}
			history(t, cfg, func(t *testing.T, s *nodetest.Swarm) {
				s.Until("a round of all", func() bool { return s.Round() >= 2 })
				s.Network.Stop("sl-2")
				before := s.Round()
				s.Until("rounds without sl-2", func() bool { return s.Round() >= before+2 })
				lost := s.Round()
				gone := []string{"sl-0", "sl-1"}
				if all {
					gone = append(gone, "sl-2")
				}
				s.Crash(gone...) // Before sl-2 wakes, who would fetch the newest model from them.
				s.Network.Continue("sl-2")
				for _, n := range gone {
					s.Restart(n)
				}
				s.Until("the wait to be explained", func() bool { return strings.Contains(s.Waiting(), "no node that is alive holds the model of round") })
				s.Until("the model to be given up", func() bool { return s.View(nodetest.Contract).Lost != nil })
				c := s.View(nodetest.Contract)
				if c.Lost.Round < lost || c.Round() <= c.Lost.Round || (c.Lost.ResumedRound == 0) != all {
					t.Errorf("%+v, and round %d is committed", c.Lost, c.Round())
				}
				agree(t, s, "sl-0", "sl-1", "sl-2")
			})
		})
	}
}
