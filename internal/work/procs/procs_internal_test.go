package procs

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"testing"
)

// TestWhoIsKilled holds that it counts as done if the process itself could be killed, whatever becomes of those that it has started, and only then; and
// that it is over when there is no time left.
func TestWhoIsKilled(t *testing.T) {
	by := map[int][]int{7: {8, 9}, 9: {10}, 11: {12}}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		ctx  context.Context
		may  []int
		want bool
		all  []int
	}{
		{t.Context(), []int{7, 8, 9, 10}, true, []int{7, 8, 9, 10}},
		{t.Context(), []int{7}, true, []int{7, 8, 9, 10}},
		{t.Context(), []int{8, 9, 10}, false, []int{7, 8, 9, 10}}, // as one that has become another user's
		{over, []int{7}, true, []int{7}},
	} {
		var all []int
		got := killAll(tt.ctx, 7, by, func(pid int) bool {
			all = append(all, pid)
			return slices.Contains(tt.may, pid)
		})
		if got != tt.want || !slices.Equal(all, tt.all) {
			t.Errorf("killed %v, %v, want %v", all, got, tt)
		}
	}
}

// TestASignalThatWasSent is told from one to nobody, and to one that is not meant.
func TestASignalThatWasSent(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	by, err := started(t.Context())
	if err != nil || !slices.Contains(by[os.Getpid()], pid) {
		t.Errorf("%d is not among %v, %v", pid, by[os.Getpid()], err)
	}
	if kill(pid, func(int) bool { return false }) {
		t.Error("one that is not meant was killed")
	}
	if !kill(pid, func(int) bool { return true }) {
		t.Error("it was not killed")
	}
	if err := cmd.Wait(); err == nil {
		t.Error("it ended by itself")
	}
	if kill(pid, func(int) bool { return true }) {
		t.Error("one that has gone was killed")
	}
}
