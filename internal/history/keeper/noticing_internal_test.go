package keeper

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/swarmd/swarmd/consensus/planner"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/internal/events"
)

// TestWhatIsToldEnds: that a contract no longer waits is told once, also where it has waited for something else meanwhile, and by an SN that leads since then.
func TestWhatIsToldEnds(t *testing.T) { synctest.Test(t, whatIsToldEnds) }

func whatIsToldEnds(t *testing.T) {
	n := &noticing{store: events.Open("", "sn-1", slog.New(slog.DiscardHandler)), waits: map[string]hindrance{}}
	c := &state.Contract{Name: "c", Run: 1}
	waits := func(kind planner.Kind, long time.Duration) {
		for range long / look {
			n.hinder(c, planner.Waiting{Kind: kind})
			time.Sleep(look)
		}
	}
	told := func(want ...events.Kind) {
		t.Helper()
		list, _, _ := n.store.Newest(9)
		var got []events.Kind
		for _, e := range slices.Backward(list) {
			got = append(got, e.Kind)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("told are %v, want %v", got, want)
		}
	}
	waits(planner.WaitPeers, time.Minute)
	waits(planner.WaitWeight, 10*time.Second)
	told(events.Waits)
	waits(planner.WaitTraining, time.Minute)
	told(events.Waits, events.GoesOn)
	waits(planner.WaitPeers, time.Minute)
	waits(planner.WaitWeight, time.Minute)
	told(events.Waits, events.GoesOn, events.Waits, events.Waits)
	clear(n.waits) // another SN leads
	n.inherit()
	waits(planner.WaitTraining, 20*time.Second) // it does not know yet
	told(events.Waits, events.GoesOn, events.Waits, events.Waits)
	waits(planner.WaitTraining, time.Minute)
	told(events.Waits, events.GoesOn, events.Waits, events.Waits, events.GoesOn)
	n.inherit()
	if len(n.waits) > 0 {
		t.Errorf("it waits for %v", n.waits)
	}
}
