package work_test

import (
	"strings"
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
	for state, want := range map[task.State]string{task.Started: "exited 1  asks to stop", task.Prepared: "stopped"} { // with an end that the swarm takes
		inLab(t, func(l *lab) {
			code := int32(1)
			if state == task.Prepared {
				code = 0
			}
			l.left(work.Status{State: task.Exited, Code: code, Asks: task.AskStop})
			l.shows(1, task.HostedMember{State: state, Start: true, Stop: state == task.Prepared}, stops)
			l.beat(5 * time.Second)
			if n := len(l.said); n == 0 || !strings.HasPrefix(l.said[0], want) || strings.Contains(l.said[n-1], "asks") != (state == task.Started) {
				t.Errorf("of one that the swarm knows as %s: %q, want %q", state, l.said, want)
			}
		})
	}
}

// TestWhatIsSaidOfAnEnd: a member that its swarm has ended is told with what its executor says of its end, as far as its host's owner lets that go; one
// that has ended before stays as it was told.
func TestWhatIsSaidOfAnEnd(t *testing.T) {
	for _, tt := range []struct {
		silent, exits bool
		want          string
	}{
		{false, false, "stopped -1 wrong key | not copied cleaned"},
		{true, false, "stopped -1 not copied cleaned"},
		{false, true, "exited 3  cleaned"},
	} {
		inLab(t, func(l *lab) {
			l.guard.silent = tt.silent
			l.world.fail("clean", &work.Parting{Code: -1, Text: "not copied", Said: "wrong key"})
			l.shows(1, task.HostedMember{State: task.Prepared, Start: true})
			l.beat(5 * time.Second)
			if tt.exits {
				l.world.set(label(1), work.Status{State: task.Exited, Code: 3})
				l.beat(5 * time.Second)
			}
			l.shows(1, task.HostedMember{State: task.Started, Stop: true}, func(h *task.Hosted) { h.Phase = task.Ending })
			l.beat(5 * time.Second)
			if n := len(l.said); n == 0 || l.said[n-1] != tt.want {
				t.Errorf("reported %q, want %q", l.said, tt.want)
			}
		})
	}
}
