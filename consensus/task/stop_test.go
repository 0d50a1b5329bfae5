package task_test

import (
	"testing"

	"github.com/swarmd/swarmd/consensus/task"
)

// asks has the host of member 0 ask something with a state of it.
func asks(what string, s task.State, signature string) step {
	return func(b *task.Board) (*task.Board, error) {
		a := b.Assignments["7"]
		return moveAt(90, task.Move{Assignment: "7", Epoch: a.Epoch, Reports: []task.Report{{Node: a.Members[0].Node, State: s, Asks: what, Signature: signature}}})(b)
	}
}

// askedWith is asks with an exit code.
func askedWith(code int32, what string, s task.State) step {
	return func(b *task.Board) (*task.Board, error) {
		a := b.Assignments["7"]
		return moveAt(95, task.Move{Assignment: "7", Epoch: a.Epoch, Reports: []task.Report{{Node: a.Members[0].Node, State: s, Code: code, Asks: what}}})(b)
	}
}

// TestAHostAsksForTheEnd: a job that can be stopped so ends with success when a host of one of its members has asked for that, and no other one does.
func TestAHostAsksForTheEnd(t *testing.T) {
	stops := task.JobTerms{Stops: true}
	b := runs(t, stops)
	refused(t, b, task.Stale, judgedBy(task.EndStopFile, 90))
	b = after(t, b, asks(task.AskStop, task.Started, "c2ln"))
	if m := b.Assignments["7"].Members[0]; m.Asks != task.AskStop || m.Signature != "c2ln" || m.State != task.Started || !task.ToStop(b.Assignments["7"]) {
		t.Errorf("%+v", m)
	}
	if next, err := asks(task.AskStop, task.Started, "b3Ro")(b); err != nil || next != b {
		t.Errorf("it is asked for twice: %v", err)
	}
	later := after(t, b, asks(task.AskStop, task.Ready, "cmVh"))
	if m := later.Assignments["7"].Members[0]; m.Asks != task.AskStop || m.Signature != "cmVh" || m.State != task.Ready {
		t.Errorf("with another state: %+v", m)
	}
	a := after(t, b, judgedBy(task.EndStopFile, 91)).Assignments["7"]
	if a.Verdict != task.Succeeded || a.End != task.EndStopFile || a.Phase != task.Ending {
		t.Errorf("%+v", a)
	}
	if err := after(t, b, judgedBy(task.EndStopFile, 91)).Check(nil); err != nil {
		t.Error(err)
	}
	for name, tt := range map[string]struct {
		b *task.Board
		s step
	}{
		"a job that can't be stopped so":  {runs(t, task.JobTerms{}), asks(task.AskStop, task.Started, "")},
		"something else":                  {runs(t, stops), asks("more", task.Ready, "")},
		"of a member that has ended":      {runs(t, stops), asks(task.AskStop, task.Exited, "")},
		"before it runs":                  {after(t, jobs(t), assigning(ofJob("7", stops)), onHosts(map[string][]string{"main": {"h-0"}, "worker": {"h-0", "h-1"}})), asks(task.AskStop, task.Asked, "")},
		"of an assignment that has ended": {after(t, runs(t, stops), judgedBy(task.EndMemberFailed, 80)), asks(task.AskStop, task.Started, "")},
	} {
		if next, err := tt.s(tt.b); err != nil || next != tt.b {
			t.Errorf("%s: it is taken: %v, %+v", name, err, next.Assignments["7"].Members[0])
		}
	}
	b = after(t, b, becomes(task.Exited, 0, 95, 0))
	if m := b.Assignments["7"].Members[0]; m.Asks != "" || m.State != task.Exited {
		t.Errorf("what it has signed of its end asks for nothing: %+v", m)
	}
}

// stopsByExits is a job with compat: oci that runs, if its entry says so with its members' exits.
func stopsByExits(t *testing.T, definition ...string) *task.Board {
	t.Helper()
	b := after(t, pull(t), func(b *task.Board) (*task.Board, error) {
		return b.CreateTask(task.Task{Name: "job", Type: task.RunJob, Prereq: task.Root, CreatedMS: 1})
	})
	for i, line := range definition {
		b = after(t, b, edit("job", uint32(i+1), line))
	}
	q := ofJob("7", task.JobTerms{Stops: true, GraceMS: 10})
	b = after(t, b, finalise("job"), assigning(q))
	task.CountExits(b, b.Assignments["7"])
	b = after(t, b, onHosts(map[string][]string{"main": {"h-0"}, "worker": {"h-0", "h-1"}}))
	return after(t, b, all("7", task.Prepared, false), do("7", task.Pass), all("7", task.Started, false))
}

// TestExitsCount of jobs whose definition has compat: oci, and of no file of theirs.
func TestExitsCount(t *testing.T) {
	for want, definition := range map[bool][]string{true: {"name: job", "compat: oci", "--- source"}, false: {"name: job", "--- source", "compat: oci"}} {
		if a := stopsByExits(t, definition...).Assignments["7"]; a.ExitsCount != want {
			t.Errorf("%q: %v", definition, a.ExitsCount)
		}
	}
	b := stopsByExits(t, "name: job", "compat: oci")
	refused(t, b, task.Stale, judgedBy(task.EndStopFile, 90))
	b = after(t, b, asks(task.AskStop, task.Started, "c2ln"))
	if a := b.Assignments["7"]; a.StoppedMS != 90 || !task.ToStop(a) || task.ToFail(a) || task.StopDone(a, 0, 99) || !task.StopDone(a, 0, 100) || task.StopFails(a) {
		t.Errorf("%+v", a)
	}
	ended := after(t, b, becomes(task.Exited, 0, 92, 0))
	if a := ended.Assignments["7"]; a.StoppedMS != 90 || !task.ToStop(a) || task.StopFails(a) {
		t.Errorf("that one has asked is forgotten: %+v", a)
	}
	if a := after(t, b, becomes(task.Exited, 1, 92, 0)).Assignments["7"]; !task.StopFails(a) {
		t.Errorf("%+v", a)
	}
	after(t, ended, judgedBy(task.EndStopFile, 93))
	b = after(t, b, asks(task.AskFail, task.Started, "b3Ro"))
	if a := b.Assignments["7"]; !task.ToFail(a) || a.Members[0].Signature != "b3Ro" {
		t.Errorf("%+v", a)
	}
	withEnd := after(t, stopsByExits(t, "name: job", "compat: oci"), asks(task.AskStop, task.Exited, "c2ln"))
	if a := withEnd.Assignments["7"]; a.Members[0].State != task.Exited || a.Members[0].Asks != task.AskStop || a.StoppedMS != 90 {
		t.Errorf("%+v", a)
	}
	failed := after(t, stopsByExits(t, "name: job", "compat: oci"), asks(task.AskFail, task.Exited, "c2ln"))
	if a := failed.Assignments["7"]; a.Members[0].Asks != task.AskFail || !task.ToFail(a) || a.StoppedMS != 0 {
		t.Errorf("that it has failed is said with the end of a member alone: %+v", a)
	}
	if next, err := askedWith(3, task.AskFail, task.Exited)(after(t, b, becomes(task.Exited, 0, 92, 0))); err != nil || next.Assignments["7"].Members[0].Asks != "" {
		t.Errorf("what is signed with another exit code is taken: %v", err)
	}
	if next, err := asks(task.AskFail, task.Started, "c2ln")(runs(t, task.JobTerms{Stops: true})); err != nil || next.Assignments["7"].Members[0].Asks != "" {
		t.Errorf("a job whose exits don't count is said to have failed: %v", err)
	}
}

// TestWhoHasAskedIsRemembered, with what it has signed, whatever its member becomes, until the assignment is over or placed anew.
func TestWhoHasAskedIsRemembered(t *testing.T) {
	b := after(t, stopsByExits(t, "name: job", "compat: oci"), asks(task.AskStop, task.Started, "c2ln"), becomes(task.Exited, 0, 92, 0))
	if a := b.Assignments["7"]; a.Asked != (task.AskedEnd{State: task.Started, Signature: "c2ln"}) || a.Members[0].Asks != "" {
		t.Errorf("%+v", a)
	}
	b = after(t, b, judgedBy(task.EndStopFile, 93), all("7", task.Stopped, true), do("7", task.Close))
	if a := b.Assignments["7"]; a.Asked != (task.AskedEnd{}) || a.Phase != task.Over {
		t.Errorf("when it is over: %+v", a)
	}
}

// TestStopDone: the grace is measured by one clock, and nobody waits for members that can't start.
func TestStopDone(t *testing.T) {
	ended := func(m ...task.State) (all []task.Member) {
		for i, s := range m {
			all = append(all, task.Member{Group: []string{"server", "main"}[i], Peers: 1, State: s})
		}
		return all
	}
	for name, tt := range map[string]struct {
		stopped, since, at int64
		passed             uint32
		members            []task.Member
		want               bool
	}{
		"in its grace":                        {100, 0, 129, 2, ended(task.Ready, task.Ready), false},
		"after it":                            {100, 0, 130, 2, ended(task.Ready, task.Ready), true},
		"a new leader, with a clock ahead":    {100, 1000, 1029, 2, ended(task.Ready, task.Ready), false},
		"a new leader, and its grace is over": {100, 1000, 1030, 2, ended(task.Ready, task.Ready), true},
		"a new leader, with a clock behind":   {100_000, 1000, 1029, 2, ended(task.Ready, task.Ready), false},
		"and its grace is over":               {100_000, 1000, 1030, 2, ended(task.Ready, task.Ready), true},
		"all have ended":                      {100, 0, 101, 2, ended(task.Exited, task.Exited), true},
		"one has not":                         {100, 0, 101, 2, ended(task.Exited, task.Ready), false},
		"servers have theirs without a main":  {100, 0, 101, 1, ended(task.Ready, task.Prepared), false},
		"and it is over":                      {100, 0, 130, 1, ended(task.Ready, task.Prepared), true},
		"servers have ended without a main":   {100, 0, 101, 1, ended(task.Exited, task.Prepared), true},
	} {
		a := &task.Assignment{Shares: true, ExitsCount: true, Phase: task.Running, Passed: tt.passed, StoppedMS: tt.stopped, Members: tt.members}
		a.InOrder, a.GraceMS, a.Groups = true, 30, []task.Group{{Name: "server", Peers: 1}, {Name: "main", Peers: 1, Least: 1}}
		if got := task.StopDone(a, tt.since, tt.at); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	a := &task.Assignment{Shares: true, ExitsCount: true, Phase: task.Running, Passed: 1, StoppedMS: 100, Members: ended(task.Exited, task.Prepared)}
	a.InOrder, a.GraceMS, a.Groups = true, 30, []task.Group{{Name: "server", Peers: 1, Least: 1}, {Name: "main", Peers: 1, Least: 1}}
	if !task.StopDone(a, 0, 101) {
		t.Error("it waits for a group that does not start any more")
	}
	a.Members[0].State = task.Ready
	if task.StopDone(a, 0, 101) {
		t.Error("it does not wait for one that has started")
	}
}
