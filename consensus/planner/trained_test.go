package planner_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/planner/explain"
	"github.com/swarmd/swarmd/consensus/planner/reports"
	"github.com/swarmd/swarmd/consensus/planner/warning"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
)

// TestWarningsStayForTheRun: a warning outlives the report that it was found by and the session, and ends with the run.
func TestWarningsStayForTheRun(t *testing.T) {
	inSwarm(t, 2, func(s *swarm) {
		s.enrol(s.peers...)
		s.run(5 * time.Second)
		tell := func(told *round.Trained) {
			s.current().Record(reports.Report{Session: s.peers[1].session, Contract: contractName, Run: 1, Node: "sl-1", Trained: told})
		}
		warned := func() []warning.Reason {
			var all []warning.Reason
			for _, w := range s.current().Warnings(contractName) {
				all = append(all, w.Reason)
			}
			return all
		}
		tell(&round.Trained{Seq: 2, Counted: true, TotalBatches: 8, Changed: 1})
		if got := warned(); len(got) > 0 {
			t.Errorf("got %v, want nothing", got)
		}
		tell(&round.Trained{Seq: 3, Counted: true, TotalBatches: 16, Unchanged: 2, UnchangedSince: 1})
		if got := warned(); !slices.Equal(got, []warning.Reason{warning.Unchanged}) { // before the next decision too
			t.Errorf("got %v", got)
		}
		s.run(time.Second)
		tell(&round.Trained{Seq: 4, Counted: true, TotalBatches: 24, Changed: 1})
		s.do(state.EndSession{Session: s.peers[1].session, Contract: contractName, Run: 1, Reason: "finished", AtMS: time.Now().UnixMilli()})
		s.run(time.Minute) // long enough to forget what it reported
		st := s.current().Status(contractName)
		if len(st.Warnings) != 1 || !slices.Equal(warned(), []warning.Reason{warning.Unchanged}) {
			t.Errorf("got %+v", st.Warnings)
		}
		if lines := strings.Join(explain.Lines(st.Waiting, time.Now(), st.Warnings...), "\n"); !strings.Contains(lines, "\nwarning: no tensor of sl-1 has changed since round 1") {
			t.Errorf("explained as\n%s", lines)
		}
		s.do(state.ResetContract{Contract: contractName, Force: true, AtMS: time.Now().UnixMilli()})
		s.run(time.Second)
		if got := warned(); len(got) > 0 {
			t.Errorf("after a reset: %v", got)
		}
	})
}
