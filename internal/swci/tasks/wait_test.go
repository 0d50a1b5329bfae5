package tasks_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/tasks"
)

func TestBar(t *testing.T) {
	a := &swarmv1.Assignment{Phase: "waiting", Wants: "2 more hosts", Groups: []*swarmv1.TaskGroup{{Name: "a", Peers: 4, Least: 3}, {Name: "b", Peers: 2, Least: 1}}}
	for _, tt := range []struct {
		phase, wants string
		done         uint32
		columns      int
		want         string
	}{
		{"waiting", "2 more hosts", 0, 79, "[..............................] 0 of 4 peers, 1m5s, waiting: 2 more hosts"},
		{"running", "", 1, 79, "[#######.......................] 1 of 4 peers, 1m5s, running"},
		{"ending", "", 9, 79, "[##############################] 9 of 4 peers, 1m5s, ending"},
		{"running", "", 2, 40, "[#####.....] 2 of 4 peers, 1m5s, running"},
		{"running", "", 2, 30, "2 of 4 peers, 1m5s, running"},
		{"waiting", "2 more hosts", 0, 0, "0 of 4 peers, 1m5s, waiting: 2 more hosts"},
	} {
		a.Phase, a.Wants, a.CompletedPeers = tt.phase, tt.wants, tt.done
		if got := tasks.Bar(a, 65*time.Second, tt.columns); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}

// The original's client takes a task for done as soon as its state says so: nothing is left on hosts then.
func TestState(t *testing.T) {
	for _, tt := range []struct{ phase, verdict, status, want string }{
		{"waiting", "", "ASSIGNED", "ASSIGNED"},
		{"running", "", "RUNNING", "RUNNING"},
		{"ending", "succeeded", "COMPLETE", "RUNNING"},
		{"ending", "cancelled", "IDLE", "RUNNING"},
		{"over", "succeeded", "COMPLETE", "COMPLETE"},
		{"over", "failed", "ERROR", "ERROR"},
		{"over", "cancelled", "IDLE", "IDLE"},
	} {
		if got := tasks.State(&swarmv1.Assignment{Phase: tt.phase, Verdict: tt.verdict, Status: tt.status}); got != tt.want {
			t.Errorf("%s %s: got %s, want %s", tt.phase, tt.verdict, got, tt.want)
		}
	}
	if got := tasks.State(nil); got != "IDLE" {
		t.Errorf("without an assignment: %s", got)
	}
}

func TestMaxWait(t *testing.T) {
	for _, tt := range []struct {
		taskType, run, generic, old string
		want                        time.Duration
	}{
		{"RUN_SWARM", "", "", "", 2 * time.Hour},
		{"RUN_SWARM", "5", "7", "9", 5 * time.Minute},
		{"PULL_IMAGE", "5", "7", "9", 7 * time.Minute},
		{"PULL_IMAGE", "5", "", "9", 9 * time.Minute},
		{"RUN_SWARM", "0", "", "", 0},
		{"RUN_SWARM", "1h", "", "", 0},
		{"RUN_SWARM", "99999999999", "", "", 0},
	} {
		env := map[string]string{"SWCI_RUN_TASK_MAX_WAIT_TIME": tt.run, "SWCI_GENERIC_TASK_MAX_WAIT_TIME": tt.generic, "SWCI_TASK_MAX_WAIT_TIME": tt.old}
		got, err := tasks.MaxWait(tt.taskType, func(k string) string { return env[k] })
		if got != tt.want || (err != nil) != (tt.want == 0) || err != nil && exit.Code(err) != exit.Usage {
			t.Errorf("%+v: got %v, %v", tt, got, err)
		}
	}
}

// TestHostsThatJoinedStay: those that have ended are shown too, and keep nobody waiting.
func TestHostsThatJoinedStay(t *testing.T) {
	of := func(id, phase, host string, atMS int64) *swarmv1.Assignment {
		return &swarmv1.Assignment{Id: id, Phase: phase, CreatedUnixMs: atMS, CompletedPeers: 1, Members: []*swarmv1.AssignmentMember{{Node: host}}}
	}
	r := &swarmv1.GetTaskrunnerResponse{Assignment: of("7", "over", "h-0", 1), Ended: []*swarmv1.Assignment{of("10", "over", "h-3", 4), of("8", "over", "h-1", 2)}}
	hosts := func() string {
		var all []string
		for _, m := range tasks.Whole(r).GetMembers() {
			all = append(all, fmt.Sprint(m.GetIndex(), m.GetNode()))
		}
		return strings.Join(all, " ")
	}
	if got := tasks.Whole(r); !tasks.Over(got) || got.GetCompletedPeers() != 3 || hosts() != "0h-0 1h-1 2h-3" {
		t.Errorf("%s: %s, %d completed", hosts(), got.GetPhase(), got.GetCompletedPeers())
	}
	r.Ended[0].FirstIndex = 2 // as an SN says it, also if it has no room for the one between
	r.Ended[1].FirstIndex = 1
	if hosts() != "0h-0 1h-1 2h-3" {
		t.Errorf("with their indexes: %s", hosts())
	}
	r.Ended = r.Ended[:1]
	if hosts() != "0h-0 2h-3" {
		t.Errorf("with one left out: %s", hosts())
	}
	r.Ended = append(r.Ended, of("8", "over", "h-1", 2))
	r.Ended[0].FirstIndex = 0
	r.Joined = append(r.Joined, of("9", "running", "h-2", 3))
	if tasks.Over(tasks.Whole(r)) || hosts() != "0h-0 1h-1 2h-2 3h-3" {
		t.Errorf("one runs still: %s", hosts())
	}
	if len(r.GetAssignment().GetMembers()) != 1 {
		t.Error("the answer was changed")
	}
}
