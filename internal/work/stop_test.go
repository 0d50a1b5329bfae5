package work_test

import (
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/work"
)

// TestAHostAsksForTheEndOfAJob as long as its member runs, also when it was restarted; and of no job of which its operator has not said that it may.
func TestAHostAsksForTheEndOfAJob(t *testing.T) {
	stops := func(h *task.Hosted) { h.Stops = true }
	runs := work.Status{State: task.Ready, Asks: task.AskStop}
	inLab(t, func(l *lab) {
		l.shows(1, task.HostedMember{State: task.Placed}, stops)
		l.beat(5 * time.Second)
		l.shows(1, task.HostedMember{State: task.Prepared, Start: true}, stops)
		l.beat(5 * time.Second)
		l.world.set(label(1), runs)
		l.beat(5 * time.Second)
		l.world.set(label(1), work.Status{State: task.Ready}) // what was seen once stands
		l.beat(5 * time.Second)
		l.shows(1, task.HostedMember{State: task.Ready, Stop: true}, stops)
		l.beat(5 * time.Second)
		l.wantSaid("prepared", "started", "ready asks to stop", "stopped cleaned")
	})
	inLab(t, func(l *lab) {
		l.left(runs)
		l.shows(1, task.HostedMember{State: task.Ready, Start: true}, stops)
		l.beat(5 * time.Second)
		l.wantSaid("ready asks to stop")
	})
	inLab(t, func(l *lab) {
		l.left(runs)
		l.shows(1, task.HostedMember{State: task.Ready, Start: true})
		l.beat(5 * time.Second)
		l.wantSaid("ready")
	})
}
