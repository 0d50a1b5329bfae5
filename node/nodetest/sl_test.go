package nodetest_test

import (
	"strings"
	"testing"

	"github.com/swarmd/swarmd/node/nodetest"
)

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
