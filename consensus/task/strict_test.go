package task_test

import (
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/task"
)

// strict is an assignment that is held to the rules of new ones.
func strict(id, taskrunner string, n uint32) step {
	return func(b *task.Board) (*task.Board, error) {
		next, err := assign(id, taskrunner, n)(b)
		next.Assignments[id].Strict = true
		return next, err
	}
}

// verdictOn has the only member exit with a code, and the leader judge in the same move.
func verdictOn(code int32, v task.Verdict) step {
	return move(task.Move{Assignment: "7", Epoch: 1, Reports: []task.Report{{Node: "h-0", State: task.Exited, Code: code}}, Do: task.Judge, Verdict: v})
}

// TestAHostIsOneMember: an assignment counts nobody twice. Those of before went by another rule, which stands for their entries.
func TestAHostIsOneMember(t *testing.T) {
	twice := place("7", 0, "peers", "h-0", "h-0")
	if _, err := twice(after(t, pull(t), strict("7", task.DefaultTaskrunner, 2))); err == nil || !strings.Contains(err.Error(), `"h-0" twice`) {
		t.Errorf("one host is two members: %v", err)
	}
	if _, err := twice(after(t, pull(t), assign("7", task.DefaultTaskrunner, 2))); err != nil {
		t.Errorf("an entry of before is refused: %v", err)
	}
}

// TestSuccessIsNoFailure: a leader that has not heard yet that enough have succeeded, or lies, can't say that it failed.
func TestSuccessIsNoFailure(t *testing.T) {
	runs := func(made step) *task.Board {
		return after(t, pull(t), made, place("7", 0, "peers", "h-0"), all("7", task.Prepared, false), do("7", task.Pass))
	}
	b := runs(strict("7", task.DefaultTaskrunner, 1))
	if next, err := verdictOn(0, task.Failed)(b); err == nil || !next.Assignments["7"].Open() {
		t.Errorf("what has succeeded has failed: %v", err)
	}
	if next := after(t, b, verdictOn(0, task.Succeeded)); next.Assignments["7"].Verdict != task.Succeeded {
		t.Error("what has succeeded has no verdict")
	}
	if next := after(t, b, verdictOn(3, task.Failed)); next.Assignments["7"].Verdict != task.Failed {
		t.Error("what has failed has no verdict")
	}
	if next := after(t, runs(assign("7", task.DefaultTaskrunner, 1)), verdictOn(0, task.Failed)); next.Assignments["7"].Verdict != task.Failed {
		t.Error("an entry of before is refused")
	}
}

// TestJoinedFailsWithItsAssignment: what has joined a taskrunner's assignment can fail with it though its host has succeeded.
func TestJoinedFailsWithItsAssignment(t *testing.T) {
	q := asked("8", task.DefaultTaskrunner, 1)
	q.Joins, q.Hosts = "7", []string{"h-1"}
	b := after(t, pull(t), strict("7", task.DefaultTaskrunner, 1), place("7", 0, "peers", "h-0"), all("7", task.Prepared, false), do("7", task.Pass), assigning(q))
	b.Assignments["8"].Strict = true
	b = after(t, b, place("8", 0, "peers", "h-1"), all("8", task.Prepared, false), do("8", task.Pass))
	fails := move(task.Move{Assignment: "8", Epoch: 1, Reports: []task.Report{{Node: "h-1", State: task.Exited}}, Do: task.Judge, Verdict: task.Failed})
	if _, err := fails(b); err == nil {
		t.Error("it fails before the one that it joined has")
	}
	if next := after(t, b, do("7", task.Judge), fails); next.Assignments["8"].Verdict != task.Failed {
		t.Error("it does not fail with the one that it joined")
	}
	if _, err := fails(after(t, b, verdictOn(0, task.Succeeded))); err == nil {
		t.Error("it fails though the one that it joined has succeeded")
	}
}
