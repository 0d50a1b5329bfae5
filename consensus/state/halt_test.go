package state_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
)

// TestHaltsAreRecorded, with their order, each that changed something once.
func TestHaltsAreRecorded(t *testing.T) {
	pause, resume := anOrder("PauseContract"), anOrder("ResumeContract")
	_, lines, kinds := chained(t, append(trained(),
		state.PauseContract{Contract: "study", AtMS: 20, Order: pause},
		state.PauseContract{Contract: "study", AtMS: 21, Order: pause},
		state.ResumeContract{HaltOrder: state.HaltOrder{Contract: "study", AtMS: 22, Order: resume}},
		state.ResumeContract{HaltOrder: state.HaltOrder{Contract: "study", AtMS: 23, Order: resume}},
	)...)
	n := len(kinds)
	if d := cmp.Diff([]string{"bundle", "pause", "resume"}, kinds[n-3:]); d != "" {
		t.Fatalf("records differ (-want +got):\n%s", d)
	}
	want := []ledger.Body{ledger.Pause{Contract: "study", Run: 2, Order: pause}, ledger.Resume{Contract: "study", Run: 2, Order: resume}}
	for i, line := range lines[n-2:] {
		if _, body, err := ledger.Parse(line); err != nil || !cmp.Equal(body, want[i]) {
			t.Errorf("recorded %+v, %v, want %+v", body, err, want[i])
		}
	}
}

// TestEndIsRecordedBeforeTheEnd: the order, then the final round, then that training is over.
func TestEndIsRecordedBeforeTheEnd(t *testing.T) {
	commands := trained()[:11] // until its round is committed
	end := anOrder("EndContract")
	_, lines, kinds := chained(t, append(commands,
		state.EndContract{Contract: "study", Run: 1, AtMS: 20, Order: end},
		state.FinishContract{Contract: "study", Run: 1, Round: 1, Reason: "nobody came", AtMS: 21},
	)...)
	n := len(kinds)
	if d := cmp.Diff([]string{"round", "end", "over"}, kinds[n-3:]); d != "" {
		t.Fatalf("records differ (-want +got):\n%s", d)
	}
	if _, body, err := ledger.Parse(lines[n-2]); err != nil || !cmp.Equal(body, ledger.Body(ledger.End{Contract: "study", Run: 1, Order: end})) {
		t.Errorf("recorded %+v, %v", body, err)
	}
}

// TestPausedContractDoesNotExpire: the pause would go with it, and who comes next would train.
func TestPausedContractDoesNotExpire(t *testing.T) {
	s := applied(t, "register sl-0; open 1 contract=study node=sl-0; end 1 contract=study; pause contract=study")
	if c := s.Contracts["study"]; c.Unused(1 << 50) {
		t.Error("it goes by itself")
	}
	if _, _, err := s.Apply(state.ExpireContract{Contract: "study", Run: 1, AtMS: 1 << 50}); state.ReasonOf(err) != state.ReasonStalePlan {
		t.Errorf("it went: %v", err)
	}
}

// TestHaltedContractIsTheOperators: orders stand in the ledger, where an audit takes none for a contract that goes by itself.
func TestHaltedContractIsTheOperators(t *testing.T) {
	s := applied(t, "register sl-0; open 1 contract=study node=sl-0; pause contract=study; resume contract=study; end 1 contract=study")
	if c := s.Contracts["study"]; c.MadeBy != "" || c.Unused(1<<50) {
		t.Errorf("it goes by itself, as that of %q", c.MadeBy)
	}
}

// TestAPauseIsNoPartOfTheUsualTime between rounds, in any order of pauses and commits; logs of before count as they did.
func TestAPauseIsNoPartOfTheUsualTime(t *testing.T) {
	for _, tt := range []struct {
		name string
		does string // c: a commit, p: a pause of an hour, o: one that is resumed as in a log of before; ten seconds lie before each
		want int64
	}{
		{"one commit, a pause, another", "cpc", 0},
		{"more pauses than rounds", "cpcccpppcpc", 10_000},
		{"pauses before the first commit", "ppccc", 10_000},
		{"more than are kept", "cccpcpcpcpcpcpcpcpcpcpcpcpcpcpcpc", 0},
		{"a log of before", "coc", 3_620_000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, at := applied(t, enrolled), int64(0)
			for _, does := range tt.does {
				at += 10_000
				if does == 'c' {
					s = mustApply(t, s, parseCommand(t, s, "plan with=1,2", at))
					s = mustApply(t, s, parseCommand(t, s, "commit", at))
					continue
				}
				s = mustApply(t, s, state.PauseContract{Contract: state.DefaultContract, AtMS: at})
				at += time.Hour.Milliseconds()
				s = mustApply(t, s, state.ResumeContract{HaltOrder: state.HaltOrder{Contract: state.DefaultContract, AtMS: at}, KeepPace: does == 'p'})
			}
			if got := s.Contracts[state.DefaultContract].MedianIntervalMS(); got != tt.want {
				t.Errorf("the usual time is %d ms, want %d", got, tt.want)
			}
			if err := state.Check(s); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestNoHaltNoBytes: a swarm that was never halted writes the snapshots that it wrote before there were halts.
func TestNoHaltNoBytes(t *testing.T) {
	plain := applied(t, "register sl-0; create contract=study; open 1 contract=study node=sl-0")
	again := applied(t, "register sl-0; create contract=study; open 1 contract=study node=sl-0; pause contract=study; resume contract=study")
	if d := cmp.Diff(encode(t, plain), encode(t, again)); d != "" {
		t.Errorf("a pause that is over leaves something:\n%s", d)
	}
}
