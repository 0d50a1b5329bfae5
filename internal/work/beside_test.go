package work_test

import (
	"testing"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/work"
)

// TestAssignmentsGoOnBesideEachOther: one that is slow to prepare, or that ends, holds no other up.
func TestAssignmentsGoOnBesideEachOther(t *testing.T) {
	inLab(t, func(l *lab) {
		one := func(id string, m task.HostedMember) task.Hosted {
			return task.Hosted{Request: task.Request{ID: id, Task: "work", Digest: l.tasks.t.Digest}, Epoch: 1, Phase: task.Running, Members: []task.HostedMember{m}}
		}
		state := func(id string) task.State {
			for _, r := range l.host.Report() {
				if r.Assignment == id {
					return r.State
				}
			}
			return ""
		}
		placed, started := task.HostedMember{Group: "g", State: task.Placed, Start: true}, task.HostedMember{Group: "g", State: task.Started, Start: true}
		l.swarm.show(one("7", placed))
		l.beat(5 * time.Second)
		l.world.mu.Lock()
		l.world.prepares = time.Minute
		l.world.mu.Unlock()
		l.swarm.show(one("7", started), one("8", placed))
		l.beat(5 * time.Second)
		if state("7") != task.Started || state("8") != task.Asked {
			t.Errorf("7 is %q, 8 is %q while it is prepared", state("7"), state("8"))
		}
		seven := label(1)
		l.world.set(seven, work.Status{State: task.Exited})
		l.beat(5 * time.Second)
		if state("7") != task.Exited || state("8") != task.Asked {
			t.Errorf("7 is %q after its end, 8 is %q", state("7"), state("8"))
		}
		l.swarm.show(one("8", placed))
		l.beat(2 * time.Minute)
		if state("8") != task.Started || l.world.size() != 1 {
			t.Errorf("8 is %q, and there is something of %d members", state("8"), l.world.size())
		}
	})
}
