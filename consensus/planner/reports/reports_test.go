package reports_test

import (
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/planner/reports"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/round"
)

// TestAnOlderReportSaysNothing: one that was overtaken, or that is repeated by who passed it on, does not undo a newer one.
func TestAnOlderReportSaysNothing(t *testing.T) {
	rs := reports.New()
	c := &state.Contract{Name: "c", Run: 1, Sessions: map[string]*state.Session{"s": {ID: "s"}}}
	say := func(number, seq uint64, counts bool) {
		t.Helper()
		got := rs.Record(reports.Report{Session: "s", Contract: "c", Run: 1, Node: "n", Number: number, Ready: &round.Ready{Seq: seq}}, time.Now())
		if got != counts {
			t.Errorf("report %d counts: %t", number, got)
		}
	}
	say(2, 8, true)
	say(1, 7, false)
	if got := rs.Of(c)["s"]; got.Number != 2 || got.Ready.Seq != 8 {
		t.Errorf("an older report counts: %+v", got)
	}
	say(2, 8, true) // as heartbeats do
	say(3, 9, true)
	if got := rs.Of(c)["s"]; got.Number != 3 || got.Ready.Seq != 9 {
		t.Errorf("a newer one does not: %+v", got)
	}
}
