package consensus_test

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestStatusTellsOfRaft: who leads, what is committed, how large the log is, and how long a command took; and that a server whose others are
// gone has no leader.
func TestStatusTellsOfRaft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwarm(t)
		var took []time.Duration
		s.committed = func(d time.Duration) { took = append(took, d) }
		s.form("a", "b", "c")
		before := len(took)
		s.propose("a", "sl-0")
		if len(took) != before+1 || took[before] < 0 {
			t.Errorf("%d commands were timed, then %d", before, len(took))
		}
		s.until("all to have applied it", func() bool { return s.servers["b"].Index() == s.servers["a"].Index() })
		a, b := s.servers["a"].Status(), s.servers["b"].Status()
		if !a.Leads || b.Leads || !a.HasLeader || !b.HasLeader || a.Term == 0 || a.Term != b.Term || a.Voters != 3 || a.Servers != 3 {
			t.Errorf("a says %+v, b says %+v", a, b)
		}
		entries, size := logBytes(t, s.stores["a"].Log)
		if a.LogEntries != entries || a.LogBytes < size || a.Committed < a.Applied || a.Applied != s.servers["a"].Index() {
			t.Errorf("%+v of a log with %d entries and %d bytes of commands", a, entries, size)
		}
		s.stop("b")
		s.stop("c")
		s.until("a to have no leader", func() bool { st := s.servers["a"].Status(); return !st.HasLeader && !st.Leads })
	})
}
