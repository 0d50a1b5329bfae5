package nodetest_test

import (
	"testing"
	"time"

	"github.com/swarmd/swarmd/node/nodetest"
)

// TestOnceUnderANewLeader: what sl-0 left counts in one committed round, whoever leads. After the merge of 30, 60 and 90 and two steps
// of 3, 6 and 9 all have 72; sl-0 adds 6 and closes. Round 4 is the mean of 78, 78 and 81, round 5 that of 85 and 88, and the final one
// changes nothing.
func TestOnceUnderANewLeader(t *testing.T) {
	const left = 78
	for _, tt := range []struct {
		name string
		when func(s *nodetest.Swarm) bool
	}{
		{"before it has counted", func(s *nodetest.Swarm) bool { return s.Planned(4) }},
		{"when it has counted", func(s *nodetest.Swarm) bool { return s.Round() == 4 }},
		{"in the next attempt", func(s *nodetest.Swarm) bool { return s.Planned(5) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := nodetest.Config{SNs: 3, SLs: 3, Think: think, Calm: calm, CheckinDefault: "once", Program: func(i int, p *nodetest.Program) {
				if p.Mode, p.Steps = "", 4; i == 0 {
					p.Steps, p.Last = 2, left-72
				}
			}}
			history(t, cfg, func(t *testing.T, s *nodetest.Swarm) {
				slowly(s, 50*time.Millisecond)
				s.Until("the moment", func() bool { return tt.when(s) })
				s.Crash(s.Leader())
				finals(t, s, 86.5, three...)
				if got := len(s.Log.Settled()); got != 6 {
					t.Errorf("%d rounds, want 6", got)
				}
			})
		})
	}
}
