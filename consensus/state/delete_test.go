package state_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
)

// TestDeletedContractLeavesNothing but the number of its run: neither bytes, nor what it counted against its nodes.
func TestDeletedContractLeavesNothing(t *testing.T) {
	before := applied(t, "register sl-0; register sl-1")
	full := applied(t, "register sl-0; register sl-1; open 1 contract=study node=sl-0; open 2 contract=study node=sl-1; "+
		"plan contract=study with=1,2 allotted=true; skip contract=study of=1,2; plan contract=study with=1,2 allotted=true; commit contract=study; "+
		"end 2 contract=study")
	if full.UseOf("sl-0").Contracts != 1 || full.UseOf("sl-1").Ended != 1 {
		t.Fatalf("they use %+v and %+v", full.UseOf("sl-0"), full.UseOf("sl-1"))
	}
	next := mustApply(t, full, state.DeleteContract{Contract: "study", Run: 1, Force: true})
	checkWhole(t, next, 1<<20)
	if next.UseOf("sl-0") != (state.Use{}) || next.UseOf("sl-1") != (state.Use{}) {
		t.Errorf("its nodes still use %+v and %+v", next.UseOf("sl-0"), next.UseOf("sl-1"))
	}
	if want := before.Size() + len(`,"run_floor":1`); next.Size() != want {
		t.Errorf("the state has %d bytes, want %d", next.Size(), want)
	}
}

// TestOpenSessionsAreNamed when they stand in the way of a deletion, in one line however many there are.
func TestOpenSessionsAreNamed(t *testing.T) {
	script := "register sl-0"
	for _, n := range strings.Split("sl-1 sl-2 sl-3 sl-4 sl-5 sl-6 sl-7 sl-8", " ") {
		script += "; register " + n + "; open " + n[3:] + " contract=study min=9 node=" + n
	}
	s := applied(t, script)
	_, _, err := s.Apply(state.DeleteContract{Contract: "study"})
	if state.ReasonOf(err) != state.ReasonOpenSessions || err.Error() != "contract study has 8 open sessions, of sl-1, sl-2, sl-3, sl-4, sl-5, sl-6, sl-7, sl-8" {
		t.Error(err)
	}
	s = mustApply(t, s, parseCommand(t, s, "open 9 contract=study min=9 node=sl-0", 1))
	_, _, err = s.Apply(state.DeleteContract{Contract: "study"})
	if state.ReasonOf(err) != state.ReasonOpenSessions || err.Error() != "contract study has 9 open sessions, of sl-0, sl-1, sl-2, sl-3, sl-4, sl-5, sl-6, others" {
		t.Error(err)
	}
}

// TestDeletionsAreRecorded, those by hand with their order, and those of unused contracts without.
func TestDeletionsAreRecorded(t *testing.T) {
	order := anOrder("DeleteContract")
	order.Request = []byte(`{"contract":"study"}`)
	own := state.OpenSession{Session: hexOf("7", 32), Contract: "other", Node: "sl-0", Terms: terms("a", 2), SyncFrequency: 10, Weight: 7, AtMS: 20}
	again := own
	again.Session = hexOf("8", 32)
	commands := append(trained(),
		own,
		state.DeleteContract{Contract: "study", Run: 2, AtMS: 21, Order: order},
		state.DeleteContract{Contract: "study", Run: 2, AtMS: 22, Order: order}, // asked again
		state.EndSession{Session: own.Session, Contract: "other", Run: 1, Reason: "finished", AtMS: 23},
		state.ExpireContract{Contract: "other", Run: 1, AtMS: 23 + state.UnusedMS},
		again,
		state.EndSession{Session: again.Session, Contract: "other", Run: 3, Reason: "finished", AtMS: 24 + state.UnusedMS},
		state.ExpireContract{Contract: "other", AtMS: 24 + 2*state.UnusedMS}, // of before the run was kept
	)
	s, lines, kinds := chained(t, commands...)
	n := len(kinds)
	if d := cmp.Diff([]string{"bundle", "deleted", "deleted"}, kinds[n-3:]); d != "" {
		t.Fatalf("records differ (-want +got):\n%s", d)
	}
	want := []ledger.Body{ledger.Deleted{Contract: "study", Run: 2, Order: order}, ledger.Deleted{Contract: "other", Run: 1, Expired: true}}
	for i, line := range lines[n-2:] {
		if _, body, err := ledger.Parse(line); err != nil || !cmp.Equal(body, want[i]) {
			t.Errorf("recorded %+v, %v, want %+v", body, err, want[i])
		}
	}
	if s.RunFloor != 2 {
		t.Errorf("runs begin behind %d", s.RunFloor)
	}
}

// TestLedgerOfASwarmThatDeleted: a ledger that begins once contracts are gone says that it does not show all.
func TestLedgerOfASwarmThatDeleted(t *testing.T) {
	_, lines, _ := chained(t,
		state.InitSwarm{SwarmID: "swarm-1"}, state.CreateContract{Contract: "study"}, state.DeleteContract{Contract: "study"},
		state.BundleOf("a.example", [][]byte{{1}}, 1),
	)
	if _, body, err := ledger.Parse(lines[0]); err != nil || !cmp.Equal(body, ledger.Body(ledger.Swarm{SwarmID: "swarm-1", Late: true})) {
		t.Errorf("it begins with %+v, %v", body, err)
	}
}
