package task_test

import (
	"errors"
	"testing"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/task"
)

// joining is a request that has a host join assignment 7.
func joining(id, host string) task.Request {
	q := asked(id, task.DefaultTaskrunner, 1)
	q.Joins, q.Hosts = "7", []string{host}
	return q
}

func join(id, host string) step { return assigning(joining(id, host)) }

// TestAHostJoinsATaskrunner: it runs beside the taskrunner's assignment, which keeps its verdict, and the taskrunner is busy until both are over.
func TestAHostJoinsATaskrunner(t *testing.T) {
	b := after(t, running(t), join("8", "h-2"), place("8", 0, "peers", "h-2"), all("8", task.Prepared, false), do("8", task.Pass), all("8", task.Started, false))
	if a := b.AssignmentOf(task.DefaultTaskrunner); a.ID != "7" || len(task.Joined(b, "7")) != 1 {
		t.Fatalf("the taskrunner has %s, and %d join it", a.ID, len(task.Joined(b, "7")))
	}
	b = after(t, b, all("7", task.Exited, true), judged("7", task.Succeeded), do("7", task.Close))
	if _, err := assign("9", task.DefaultTaskrunner, 1)(b); cause(err) != task.Busy {
		t.Errorf("what joined it runs, and it takes another: %v", err)
	}
	if got := task.StatusOf(b, task.DefaultTaskrunner); got != "RUNNING" {
		t.Errorf("what joined it runs, and it is %s", got)
	}
	if _, err := join("9", "h-3")(b); cause(err) != task.Stale {
		t.Errorf("it is over, and is joined: %v", err)
	}
	b = after(t, b, all("8", task.Exited, true), judged("8", task.Succeeded), do("8", task.Close), assign("9", task.DefaultTaskrunner, 1))
	if b.AssignmentOf(task.DefaultTaskrunner).ID != "9" {
		t.Error("it does not take another")
	}
	if _, err := assigning(func() task.Request { q := joining("10", "h-3"); q.Joins = "9"; return q }())(b); cause(err) != task.Stale {
		t.Errorf("it waits for hosts itself, and is joined: %v", err)
	}
}

// TestAResetEndsWhatJoined, and the taskrunner is idle once all of it is over, in any order.
func TestAResetEndsWhatJoined(t *testing.T) {
	reset := func(b *task.Board) (*task.Board, error) {
		return b.ResetTaskrunner(task.DefaultTaskrunner, "enough", 20)
	}
	for name, steps := range map[string][]step{
		"last":                    {reset, all("7", task.Stopped, true), do("7", task.Close), do("8", task.Close)},
		"first":                   {reset, do("8", task.Close), all("7", task.Stopped, true), do("7", task.Close)},
		"alone":                   {all("7", task.Exited, true), judged("7", task.Succeeded), do("7", task.Close), reset, do("8", task.Close)},
		"while it is cleaned up":  {all("7", task.Exited, false), judged("7", task.Succeeded), reset, all("7", task.Exited, true), do("7", task.Close), do("8", task.Close)},
		"twice, and what it left": {all("7", task.Exited, false), judged("7", task.Failed), reset, reset, all("7", task.Exited, true), do("8", task.Close), do("7", task.Close)},
	} {
		b := after(t, running(t), join("8", "h-2"))
		for i, s := range steps {
			if b.AssignmentOf(task.DefaultTaskrunner) == nil {
				t.Errorf("%s: idle before step %d", name, i)
			}
			b = after(t, b, s)
		}
		if a := b.Assignments["8"]; a.Verdict != task.Cancelled || a.Reason != "enough" || b.AssignmentOf(task.DefaultTaskrunner) != nil {
			t.Errorf("%s: %s (%s), and the taskrunner has %+v", name, a.Verdict, a.Reason, b.AssignmentOf(task.DefaultTaskrunner))
		}
	}
}

// TestAResetOfWhatHasItsVerdict holds for what the taskrunner has carried out, and not for what it carries out next.
func TestAResetOfWhatHasItsVerdict(t *testing.T) {
	reset := func(b *task.Board) (*task.Board, error) {
		return b.ResetTaskrunner(task.DefaultTaskrunner, "enough", 20)
	}
	ending := after(t, running(t), all("7", task.Exited, false), judged("7", task.Succeeded))
	b := after(t, ending, reset)
	if got := task.StatusOf(b, task.DefaultTaskrunner); got != "COMPLETE" {
		t.Errorf("it is cleaned up, and is %s", got)
	}
	if again, err := reset(b); err != nil || again != b {
		t.Errorf("a second reset changes it: %v", err)
	}
	b = after(t, b, all("7", task.Exited, true), do("7", task.Close))
	if got := task.StatusOf(b, task.DefaultTaskrunner); got != "IDLE" {
		t.Errorf("it was reset, and is %s", got)
	}
	b = after(t, b, assign("9", task.DefaultTaskrunner, 1))
	if b.Taskrunners[task.DefaultTaskrunner].Reset {
		t.Error("what it carries out next is reset too")
	}
}

// TestWhatHasJoinedIsKept: it is shown beside what it joined when both are over, the last one first.
func TestWhatHasJoinedIsKept(t *testing.T) {
	b := after(t, running(t), join("8", "h-2"), join("9", "h-3"))
	cancel := func(id string) step {
		return func(b *task.Board) (*task.Board, error) { return b.Cancel(id, "", 20) }
	}
	b = after(t, b, cancel("8"), do("8", task.Close), cancel("9"), do("9", task.Close))
	over := task.JoinedOver(b, "7")
	if len(over) != 2 || over[0].ID != "9" || over[1].ID != "8" || len(task.Joined(b, "7")) != 0 || len(task.JoinedOver(nil, "7")) != 0 {
		t.Errorf("got %+v", over)
	}
}

// TestWhoMayNotJoin.
func TestWhoMayNotJoin(t *testing.T) {
	b := after(t, running(t), join("8", "h-2"))
	for name, tt := range map[string]struct {
		change func(q *task.Request)
		want   task.Cause
	}{
		"a host of it":            {func(q *task.Request) { q.Hosts = []string{"h-1"} }, task.Busy},
		"a host that has joined":  {func(q *task.Request) { q.Hosts = []string{"h-2"} }, task.Busy},
		"none":                    {func(q *task.Request) { q.Joins = "5" }, task.Stale},
		"what joins":              {func(q *task.Request) { q.Joins = "8" }, task.Stale},
		"itself":                  {func(q *task.Request) { q.Joins = q.ID }, task.Bad},
		"any host":                {func(q *task.Request) { q.Hosts = nil }, task.Bad},
		"without a taskrunner":    {func(q *task.Request) { q.Taskrunner = "" }, task.Bad},
		"another taskrunner's":    {func(q *task.Request) { q.Taskrunner = "tr" }, task.Stale},
		"what is no ID":           {func(q *task.Request) { q.Joins = "x" }, task.Bad},
		"with another task of it": {func(q *task.Request) { q.Task = "other" }, task.Busy},
	} {
		q := joining("9", "h-3")
		tt.change(&q)
		at := after(t, b, func(b *task.Board) (*task.Board, error) { return b.CreateTaskrunner("tr", 1) }, create("other", task.Root), edit("other", 1, "Tag : 2"),
			func(b *task.Board) (*task.Board, error) { return b.FinaliseTask("other", "", 1) })
		if next, err := at.Assign(q, &ledger.Order{}, 10); cause(err) != tt.want || next.Assignments["9"] != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// judged gives an assignment a verdict.
func judged(id string, v task.Verdict) step {
	return func(b *task.Board) (*task.Board, error) {
		return b.Move([]task.Move{{Assignment: id, Epoch: b.Assignments[id].Epoch, Do: task.Judge, Verdict: v}}, keyOf, 20)
	}
}

// cause is why a step was refused; -1: it was not.
func cause(err error) task.Cause {
	r, _ := errors.AsType[*task.Refusal](err)
	if r == nil {
		return -1
	}
	return r.Cause
}
