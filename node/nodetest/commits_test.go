package nodetest_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/node/nodetest"
)

// TestCommitsOfARound: a round of 1 KiB among four peers costs two commands, its plan and its commit, and behind each at most the
// one empty entry by which the leader tells its followers. More are writes to every SN's disk that all wait for: who needs one
// has to say so here.
func TestCommitsOfARound(t *testing.T) {
	cfg := nodetest.Config{SNs: 3, SLs: 4, Steps: 25, Elements: 256}
	history(t, cfg, func(t *testing.T, s *nodetest.Swarm) {
		s.Until("rounds", func() bool { return s.Round() >= 22 })
		var commands []string
		empty := 0
		entries := s.Log.Entries()
		for _, what := range entries[slices.Index(entries, "commit_round")+1:] {
			if what == "LogBarrier" {
				empty++
				continue
			}
			if commands = append(commands, what); len(commands) > 40 {
				break
			}
		}
		if d := cmp.Diff(slices.Repeat([]string{"plan_round", "commit_round"}, 20), commands[:40]); d != "" || empty > 41 {
			t.Errorf("the log of 20 rounds has %d empty entries, and as commands: %s", empty, d)
		}
	})
}
