package task_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/task"
)

// asked is a request for n peers of a group that must all succeed.
func asked(id, taskrunner string, n uint32) task.Request {
	return task.Request{ID: id, Task: "pull", Taskrunner: taskrunner, Groups: []task.Group{{Name: "peers", Peers: n, Least: n}}}
}

func assign(id, taskrunner string, n uint32) step { return assigning(asked(id, taskrunner, n)) }

func assigning(q task.Request) step {
	return func(b *task.Board) (*task.Board, error) { return b.Assign(q, &ledger.Order{Method: "AssignTask"}, 10) }
}

// keyOf knows all nodes but those whose names begin with "no-".
func keyOf(node string) string {
	if strings.HasPrefix(node, "no-") {
		return ""
	}
	return "key-" + node
}

func move(m ...task.Move) step { return moveAt(20, m...) }

func moveAt(ms int64, m ...task.Move) step {
	return func(b *task.Board) (*task.Board, error) { return b.Move(m, keyOf, ms) }
}

// place puts a member of a group on each node.
func place(id string, epoch uint32, group string, nodes ...string) step {
	m := task.Move{Assignment: id, Epoch: epoch, Do: task.Place}
	for _, n := range nodes {
		m.Members = append(m.Members, task.Placement{Node: n, Group: group, Peers: 1})
	}
	return move(m)
}

// all has all members of the current epoch come to a state.
func all(id string, s task.State, cleaned bool) step {
	return func(b *task.Board) (*task.Board, error) {
		a := b.Assignments[id]
		m := task.Move{Assignment: id, Epoch: a.Epoch}
		for i, x := range a.Members {
			m.Reports = append(m.Reports, task.Report{Member: uint32(i), Node: x.Node, State: s, Cleaned: cleaned})
		}
		return b.Move([]task.Move{m}, keyOf, 20)
	}
}

func do(id string, act task.Act) step {
	return func(b *task.Board) (*task.Board, error) {
		return b.Move([]task.Move{{Assignment: id, Epoch: b.Assignments[id].Epoch, Do: act, Why: "why", Verdict: task.Failed}}, keyOf, 20)
	}
}

// running is assignment 7 on h-0 and h-1.
func running(t testing.TB) *task.Board {
	return after(t, pull(t), assign("7", task.DefaultTaskrunner, 2), place("7", 0, "peers", "h-0", "h-1"), all("7", task.Prepared, false), do("7", task.Pass))
}

func TestAssignmentFromEndToEnd(t *testing.T) {
	b := after(t, pull(t), assign("7", task.DefaultTaskrunner, 2))
	for _, tt := range []struct {
		step   step
		phase  task.Phase
		status string
		member string
	}{
		{do("7", task.Wait), task.Waiting, "ASSIGNED", ""},
		{place("7", 0, "peers", "h-0", "h-1"), task.Preparing, "ASSIGNED", "ASSIGNED"},
		{all("7", task.Asked, false), task.Preparing, "ASSIGNED", "ASSIGNED"},
		{all("7", task.Prepared, false), task.Preparing, "ASSIGNED", "RUNNING"},
		{do("7", task.Pass), task.Running, "RUNNING", "RUNNING"},
		{all("7", task.Ready, false), task.Running, "RUNNING", "RUNNING"},
		{all("7", task.Exited, false), task.Running, "RUNNING", "COMPLETE"},
		{move(task.Move{Assignment: "7", Epoch: 1, Do: task.Judge, Verdict: task.Succeeded}), task.Ending, "COMPLETE", "COMPLETE"},
		{all("7", task.Exited, true), task.Ending, "COMPLETE", "COMPLETE"},
		{do("7", task.Close), task.Over, "COMPLETE", "COMPLETE"},
	} {
		if b = after(t, b, tt.step); (b.Assignments["7"].Order == nil) != (tt.phase == task.Over) {
			t.Errorf("%s: its order is %v", tt.phase, b.Assignments["7"].Order)
		}
		a := b.AssignmentOf(task.DefaultTaskrunner)
		if a.Phase != tt.phase || a.Status() != tt.status || len(a.Members) > 0 && a.Members[1].Status() != tt.member {
			t.Fatalf("phase %s, status %s, members %+v; want %s, %s, %s", a.Phase, a.Status(), a.Members, tt.phase, tt.status, tt.member)
		}
	}
	if again := after(t, b, assign("7", task.DefaultTaskrunner, 1)); again != b {
		t.Error("a repeated ASSIGN changed something")
	}
	after(t, b, assign("8", task.DefaultTaskrunner, 1)) // the taskrunner is free
}

func TestBadRequests(t *testing.T) {
	b := after(t, pull(t), create("open", task.Root), edit("open", 1, "x"))
	for name, tt := range map[string]struct {
		cause task.Cause
		spoil func(q *task.Request)
	}{
		"no ID":               {task.Bad, func(q *task.Request) { q.ID = "" }},
		"ID 0":                {task.Bad, func(q *task.Request) { q.ID = "0" }},
		"ID with a zero":      {task.Bad, func(q *task.Request) { q.ID = "07" }},
		"large ID":            {task.Bad, func(q *task.Request) { q.ID = "18446744073709551616" }},
		"nowhere":             {task.Bad, func(q *task.Request) { q.Taskrunner = "" }},
		"unknown task":        {task.Unknown, func(q *task.Request) { q.Task = "other" }},
		"unknown taskrunner":  {task.Unknown, func(q *task.Request) { q.Taskrunner = "other" }},
		"the root task":       {task.Bad, func(q *task.Request) { q.Task = task.Root }},
		"task not finalised":  {task.Unfinished, func(q *task.Request) { q.Task = "open" }},
		"another digest":      {task.Stale, func(q *task.Request) { q.Digest = strings.Repeat("0", 64) }},
		"bad digest":          {task.Bad, func(q *task.Request) { q.Digest = "x" }},
		"no groups":           {task.Bad, func(q *task.Request) { q.Groups = nil }},
		"group without peers": {task.Bad, func(q *task.Request) { q.Groups = []task.Group{{Name: "a"}} }},
		"nobody must succeed": {task.Bad, func(q *task.Request) { q.Groups = []task.Group{{Name: "a", Peers: 1}} }},
		"more than there are": {task.Bad, func(q *task.Request) { q.Groups = []task.Group{{Name: "a", Peers: 1, Least: 2}} }},
		"groups of one name":  {task.Bad, func(q *task.Request) { q.Groups = append(q.Groups, q.Groups[0]) }},
		"too many peers": {task.Bad, func(q *task.Request) {
			q.Groups = []task.Group{{Name: "a", Peers: 1024, Least: 1}, {Name: "b", Peers: 1}}
		}},
		"too many peers of 32": {task.Bad, func(q *task.Request) { q.Groups = []task.Group{{Name: "a", Peers: 1 << 31, Least: 1}} }},
		"hosts out of order":   {task.Bad, func(q *task.Request) { q.Hosts = []string{"b", "a"} }},
		"a host twice":         {task.Bad, func(q *task.Request) { q.Hosts = []string{"a", "a"} }},
		"bad host":             {task.Bad, func(q *task.Request) { q.Hosts = []string{"a b"} }},
		"too many retries":     {task.Bad, func(q *task.Request) { q.Retries = 1 << 20 }},
		"expiry before time":   {task.Bad, func(q *task.Request) { q.ExpiresMS = -1 }},
		"time before now":      {task.Bad, func(q *task.Request) { q.TimeoutMS = -1 }},
	} {
		q := asked("7", task.DefaultTaskrunner, 1)
		tt.spoil(&q)
		t.Run(name, func(t *testing.T) { refused(t, b, tt.cause, assigning(q)) })
	}
	b = after(t, b, assign("7", task.DefaultTaskrunner, 1))
	refused(t, b, task.Busy, assign("8", task.DefaultTaskrunner, 1))
	refused(t, b, task.InUse, remove("pull", true))
}

// TestReportsThatAreIgnored: of another epoch, another node, another index, or of a time that is past.
func TestReportsThatAreIgnored(t *testing.T) {
	b := after(t, running(t), all("7", task.Started, false))
	for name, m := range map[string]task.Move{
		"epoch before":        {Epoch: 0, Reports: []task.Report{{Node: "h-0", State: task.Ready}}},
		"epoch to come":       {Epoch: 2, Reports: []task.Report{{Node: "h-0", State: task.Ready}}},
		"another node":        {Epoch: 1, Reports: []task.Report{{Node: "h-1", State: task.Ready}}},
		"no member":           {Epoch: 1, Reports: []task.Report{{Member: 2, Node: "h-0", State: task.Ready}}},
		"the same":            {Epoch: 1, Reports: []task.Report{{Node: "h-0", State: task.Started}}},
		"one that was passed": {Epoch: 1, Reports: []task.Report{{Node: "h-0", State: task.Prepared}}},
		"refused too late":    {Epoch: 1, Reports: []task.Report{{Node: "h-0", State: task.Refused}}},
		"stopped for nothing": {Epoch: 1, Reports: []task.Report{{Node: "h-0", State: task.Stopped}}},
		"unknown state":       {Epoch: 1, Reports: []task.Report{{Node: "h-0", State: "dancing"}}},
		"cleaned too early":   {Epoch: 1, Reports: []task.Report{{Node: "h-0", State: task.Started, Cleaned: true}}},
		"long text":           {Epoch: 1, Reports: []task.Report{{Node: "h-0", State: task.Ready, Text: strings.Repeat("x", 257)}}},
	} {
		m.Assignment = "7"
		if next := after(t, b, move(m)); next != b {
			t.Errorf("%s: %+v", name, next.Assignments["7"].Members)
		}
	}
	// What has ended stays as it ended.
	b = after(t, b, move(task.Move{Assignment: "7", Epoch: 1, Reports: []task.Report{{Node: "h-0", State: task.Exited, Code: 3, Text: "boom"}, {Node: "h-0", State: task.Exited}}}))
	if m := b.Assignments["7"].Members[0]; m.Code != 3 || m.Text != "boom" || m.Status() != "ERROR" {
		t.Errorf("member %+v", m)
	}
	if b.Assignments["7"].Possible() {
		t.Error("one of two has failed, and both can still succeed")
	}
}

// TestAllArePreparedBeforeAnyStarts: no report and no act of a leader goes around the barrier.
func TestAllArePreparedBeforeAnyStarts(t *testing.T) {
	b := after(t, pull(t), assign("7", task.DefaultTaskrunner, 2), place("7", 0, "peers", "h-0", "h-1"))
	one := task.Move{Assignment: "7", Epoch: 1, Reports: []task.Report{{Node: "h-0", State: task.Prepared}}}
	b = after(t, b, move(one))
	refused(t, b, task.Stale, do("7", task.Pass))
	for _, s := range []task.State{task.Started, task.Ready, task.Exited} {
		one.Reports[0].State = s
		if next := after(t, b, move(one)); next != b {
			t.Errorf("a member is %s before the barrier", s)
		}
	}
	b = after(t, b, all("7", task.Prepared, false), do("7", task.Pass))
	one.Reports[0].State = task.Started
	if next := after(t, b, move(one)); next == b {
		t.Error("nobody starts behind the barrier")
	}
}

// TestGroupsStartInOrder: the second begins when the first is ready.
func TestGroupsStartInOrder(t *testing.T) {
	q := asked("7", "", 1)
	q.Hosts, q.InOrder = []string{"h-0", "h-1"}, true
	q.Groups = []task.Group{{Name: "scheduler", Peers: 1}, {Name: "worker", Peers: 1, Least: 1}}
	placing := task.Move{Assignment: "7", Do: task.Place, Members: []task.Placement{{Node: "h-0", Group: "scheduler", Peers: 1}, {Node: "h-1", Group: "worker", Peers: 1}}}
	b := after(t, pull(t), assigning(q), move(placing), all("7", task.Prepared, false), do("7", task.Pass))
	if a := b.Assignments["7"]; !a.Started("scheduler") || a.Started("worker") {
		t.Errorf("%d barriers are passed", a.Passed)
	}
	if b = after(t, b, all("7", task.Started, false)); b.Assignments["7"].Members[1].State != task.Prepared {
		t.Error("the worker started before its group")
	}
	refused(t, b, task.Stale, do("7", task.Pass))
	b = after(t, b, move(task.Move{Assignment: "7", Epoch: 1, Reports: []task.Report{{Node: "h-0", State: task.Ready}}}), do("7", task.Pass), all("7", task.Started, false))
	if a := b.Assignments["7"]; !a.Started("worker") || a.Members[1].State != task.Started {
		t.Errorf("after the second barrier: %+v", a.Members)
	}
	// The scheduler serves; nobody waits for its end.
	b = after(t, b, move(task.Move{Assignment: "7", Epoch: 1, Reports: []task.Report{{Member: 1, Node: "h-1", State: task.Exited}}}))
	after(t, b, move(task.Move{Assignment: "7", Epoch: 1, Do: task.Judge, Verdict: task.Succeeded}))
}

// TestFirstVerdictStands whoever comes later.
func TestFirstVerdictStands(t *testing.T) {
	b := running(t)
	refused(t, b, task.Stale, move(task.Move{Assignment: "7", Epoch: 1, Do: task.Judge, Verdict: task.Succeeded})) // nobody has
	refused(t, b, task.Stale, move(task.Move{Assignment: "7", Epoch: 1, Do: task.Judge, Verdict: task.Cancelled})) // not the leader's to give
	b = after(t, b, move(task.Move{Assignment: "7", Epoch: 1, Do: task.Judge, Verdict: task.Failed, Why: "timed out"}))
	for _, s := range []step{
		move(task.Move{Assignment: "7", Epoch: 1, Do: task.Judge, Verdict: task.Failed, Why: "another"}),
		func(b *task.Board) (*task.Board, error) { return b.Cancel("7", "an operator", 30) },
	} {
		if next := after(t, b, s); next.Assignments["7"].Reason != "timed out" || next.Assignments["7"].Verdict != task.Failed {
			t.Errorf("a second verdict stands: %+v", next.Assignments["7"])
		}
	}
	refused(t, b, task.Unknown, func(b *task.Board) (*task.Board, error) { return b.Cancel("8", "", 30) })
}

// TestNextEpochWaitsForTheOldOne: each of its members is cleaned, or lost with its lease over.
func TestNextEpochWaitsForTheOldOne(t *testing.T) {
	q := asked("7", task.DefaultTaskrunner, 2)
	q.Retries = 1
	b := after(t, pull(t), assigning(q), place("7", 0, "peers", "h-0", "h-1"), all("7", task.Prepared, false), do("7", task.Pass), all("7", task.Ready, false))
	refused(t, b, task.Stale, place("7", 1, "peers", "h-2", "h-3"))
	lost := task.Move{Assignment: "7", Epoch: 1, Reports: []task.Report{{Node: "h-0", State: task.Lost, Text: "silent"}}}
	b = after(t, b, moveAt(1000, lost), do("7", task.Withdraw))
	refused(t, b, task.Stale, place("7", 1, "peers", "h-2", "h-3"))
	stopped := task.Move{Assignment: "7", Epoch: 1, Reports: []task.Report{{Member: 1, Node: "h-1", State: task.Stopped, Cleaned: true}}}
	b = after(t, b, move(stopped))
	again := task.Move{Assignment: "7", Epoch: 1, Do: task.Place, Members: []task.Placement{{Node: "h-2", Group: "peers", Peers: 1}, {Node: "h-1", Group: "peers", Peers: 1}}}
	refused(t, b, task.Stale, moveAt(1000+task.SettleMS-1, again))
	late := after(t, b, moveAt(1000+task.SettleMS, again))
	if a := late.Assignments["7"]; a.Epoch != 2 || a.Phase != task.Preparing || a.Members[1].Node != "h-1" || a.Members[1].State != task.Placed {
		t.Errorf("the next epoch: %+v", a)
	}
	refused(t, late, task.Stale, do("7", task.Withdraw)) // one retry was asked for
	// The lost one comes back and has cleaned up: nothing is waited for.
	lost.Reports[0].State, lost.Reports[0].Cleaned = task.Ready, true
	after(t, b, move(lost), moveAt(1001, again))
}

// TestWhatIsSaidOfAStoppedMember stays: its host has words to its end, with a code if something is lost.
func TestWhatIsSaidOfAStoppedMember(t *testing.T) {
	b := after(t, pull(t), assigning(asked("7", task.DefaultTaskrunner, 1)), place("7", 0, "peers", "h-0"), all("7", task.Prepared, false), do("7", task.Pass), all("7", task.Ready, false),
		func(b *task.Board) (*task.Board, error) { return b.Cancel("7", "an operator", 30) })
	said := task.Report{Node: "h-0", State: task.Stopped, Code: -1, Text: "not copied", Cleaned: true}
	b = after(t, b, move(task.Move{Assignment: "7", Epoch: 1, Reports: []task.Report{said}}), do("7", task.Close))
	if m := b.Assignments["7"].Members[0]; m.State != task.Stopped || m.Code != -1 || m.Text != "not copied" || !m.Cleaned {
		t.Errorf("%+v", m)
	}
}

// TestEndingWaitsForTheMembers as the next epoch does.
func TestEndingWaitsForTheMembers(t *testing.T) {
	b := after(t, running(t), do("7", task.Judge))
	refused(t, b, task.Stale, do("7", task.Close))
	lost := task.Move{Assignment: "7", Epoch: 1, Reports: []task.Report{{Node: "h-0", State: task.Lost}, {Member: 1, Node: "h-1", State: task.Stopped, Cleaned: true}}}
	b = after(t, b, moveAt(1000, lost))
	shut := task.Move{Assignment: "7", Epoch: 1, Do: task.Close}
	refused(t, b, task.Stale, moveAt(1000+task.SettleMS-1, shut))
	after(t, b, moveAt(1000+task.SettleMS, shut))
}

// TestOneMoveDoesNotStopOthers: one that is not legal is left out.
func TestOneMoveDoesNotStopOthers(t *testing.T) {
	b := after(t, running(t), move(task.Move{Assignment: "no"}, task.Move{Assignment: "7", Epoch: 1, Do: task.Place}, task.Move{Assignment: "7", Epoch: 1, Do: task.Wait, Why: "w"}))
	if got := b.Assignments["7"].Wants; got != "w" {
		t.Errorf("waits for %q", got)
	}
	refused(t, b, task.Unknown, move(task.Move{Assignment: "no", Do: task.Wait, Why: "w"}))
	refused(t, after(t, pull(t), assign("7", task.DefaultTaskrunner, 1)), task.Bad, place("7", 0, "peers", "no-node"))
	refused(t, after(t, pull(t), assign("7", task.DefaultTaskrunner, 2)), task.Bad, place("7", 0, "peers", "h-0"))
	refused(t, after(t, pull(t), assign("7", task.DefaultTaskrunner, 1)), task.Bad, place("7", 0, "others", "h-0"))
	refused(t, b, task.Bad, move(make([]task.Move, task.MaxMoves+1)...))
	refused(t, b, task.Bad, move(task.Move{Assignment: "7", Reports: make([]task.Report, task.MaxReports+1)}))
}

// TestOldAssignmentsGo: the newest MaxOver that are over are kept, and MaxLive can be live.
func TestOldAssignmentsGo(t *testing.T) {
	b := pull(t)
	for i := range task.MaxOver + 5 {
		id := fmt.Sprint(i + 1)
		b = after(t, b, assign(id, task.DefaultTaskrunner, 1), do(id, task.Judge), do(id, task.Close))
	}
	if len(b.Assignments) != task.MaxOver || b.Over != task.MaxOver+5 || b.Assignments["5"] != nil || b.Assignments["6"] == nil {
		t.Errorf("%d assignments of %d are kept", len(b.Assignments), b.Over)
	}
	for i := range task.MaxLive {
		q := asked(fmt.Sprint(1000+i), "", 1)
		q.Hosts = []string{"h"}
		b = after(t, b, assigning(q))
	}
	refused(t, b, task.Full, assign("9999", task.DefaultTaskrunner, 1))
}

// TestASignatureIsOfTheState that it came with, is bounded, and goes with the assignment: the ledger has it by then.
func TestASignatureIsOfTheState(t *testing.T) {
	says := func(state task.State, signature string, cleaned bool) step {
		return func(b *task.Board) (*task.Board, error) {
			return b.Move([]task.Move{{Assignment: "7", Epoch: b.Assignments["7"].Epoch, Reports: []task.Report{
				{Node: b.Assignments["7"].Members[0].Node, State: state, Signature: signature, Cleaned: cleaned},
			}}}, keyOf, 20)
		}
	}
	of := func(b *task.Board) string {
		m := b.Assignments["7"].Members[0]
		return string(m.State) + " " + m.Signature
	}
	b := running(t)
	for _, signature := range []string{strings.Repeat("a", 89), "a b"} {
		if next, err := says(task.Ready, signature, false)(b); err != nil || next != b {
			t.Errorf("signature %q is taken: %v", signature, err)
		}
	}
	b = after(t, b, says(task.Ready, "one", false))
	if got := of(b); got != "ready one" {
		t.Errorf("got %s", got)
	}
	b = after(t, b, says(task.Exited, "two", false), says(task.Exited, "three", true))
	if got := of(b); got != "exited two" {
		t.Errorf("got %s", got)
	}
	b = after(t, b, all("7", task.Exited, true), judged("7", task.Succeeded), do("7", task.Close))
	if got := of(b); got != "exited " {
		t.Errorf("it is over: %s", got)
	}
}
