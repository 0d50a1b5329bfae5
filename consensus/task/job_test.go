package task_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/task"
)

// jobs is a board with the finalised job "job", and with the task that pull makes.
func jobs(t testing.TB) *task.Board {
	t.Helper()
	return after(t, pull(t), func(b *task.Board) (*task.Board, error) {
		return b.CreateTask(task.Task{Name: "job", Type: task.RunJob, Prereq: task.Root, CreatedMS: 1})
	}, edit("job", 1, "name: job"), finalise("job"))
}

// ofJob is a request for the job on two hosts.
func ofJob(id string, terms task.JobTerms, groups ...task.Group) task.Request {
	if len(groups) == 0 {
		groups = []task.Group{{Name: "main", Peers: 1, Least: 1}, {Name: "worker", Peers: 2}}
	}
	return task.Request{ID: id, Task: "job", Hosts: []string{"h-0", "h-1"}, Groups: groups, By: "op", JobTerms: terms}
}

// TestTermsOfJobs are held to their bounds, and no other task has any.
func TestTermsOfJobs(t *testing.T) {
	b := jobs(t)
	for name, q := range map[string]task.Request{
		"nothing": ofJob("7", task.JobTerms{}), "main": ofJob("7", task.JobTerms{Done: task.DoneMain, ReadyMS: 1}), "any, on one host": ofJob("7", task.JobTerms{Done: task.DoneAny, Together: true}),
		"as long as there may be": ofJob("7", task.JobTerms{ReadyMS: 30 * 24 * 3600 * 1000, LivesMS: 30 * 24 * 3600 * 1000}),
		"nobody must succeed":     ofJob("7", task.JobTerms{LivesMS: 1}, task.Group{Name: "worker", Peers: 2}),
	} {
		if a := after(t, b, assigning(q)).Assignments["7"]; a.JobTerms != q.JobTerms {
			t.Errorf("%s: it has the terms %+v", name, a.JobTerms)
		}
	}
	joins := ofJob("7", task.JobTerms{})
	joins.Taskrunner, joins.Joins = task.DefaultTaskrunner, "6"
	other := ofJob("7", task.JobTerms{Together: true})
	other.Task = "pull"
	for name, q := range map[string]task.Request{
		"done when":             ofJob("7", task.JobTerms{Done: "some"}),
		"ready before it began": ofJob("7", task.JobTerms{ReadyMS: -1}),
		"ready never":           ofJob("7", task.JobTerms{ReadyMS: math.MaxInt64}),
		"no time to end":        ofJob("7", task.JobTerms{GraceMS: -1}),
		"no end at all":         ofJob("7", task.JobTerms{GraceMS: 600_001}),
		"a life that is over":   ofJob("7", task.JobTerms{LivesMS: -1}),
		"a life without end":    ofJob("7", task.JobTerms{LivesMS: 30*24*3600*1000 + 1}),
		"nobody must succeed":   ofJob("7", task.JobTerms{}, task.Group{Name: "worker", Peers: 2}),
		"it joins another":      joins,
		"another task":          other,
	} {
		t.Run(name, func(t *testing.T) { refused(t, b, task.Bad, assigning(q)) })
	}
	none := ofJob("7", task.JobTerms{LivesMS: 1})
	none.Groups = nil
	refused(t, b, task.Bad, assigning(none))
}

// allEnds are the ends of jobs.
func allEnds() []task.End {
	return []task.End{
		task.EndEntryDone, task.EndTTL, task.EndCancelled, task.EndNoCapacity, task.EndMaxRuntime, task.EndMainTimeout, task.EndReadyTimeout,
		task.EndMemberFailed, task.EndHostLost, task.EndRefused, task.EndStopFile,
	}
}

// onHosts places members of the job's groups, in their order: of each group on these hosts.
func onHosts(of map[string][]string) step {
	return func(b *task.Board) (*task.Board, error) {
		a := b.Assignments["7"]
		m := task.Move{Assignment: "7", Epoch: a.Epoch, Do: task.Place}
		for _, g := range a.Groups {
			for _, h := range of[g.Name] {
				m.Members = append(m.Members, task.Placement{Node: h, Group: g.Name, Peers: 1})
			}
		}
		return moveAt(20, m)(b)
	}
}

// becomes has members come to a state, by their indexes.
func becomes(s task.State, code int32, atMS int64, members ...int) step {
	return func(b *task.Board) (*task.Board, error) {
		a := b.Assignments["7"]
		m := task.Move{Assignment: "7", Epoch: a.Epoch}
		for _, i := range members {
			m.Reports = append(m.Reports, task.Report{Member: uint32(i), Node: a.Members[i].Node, State: s, Code: code})
		}
		return moveAt(atMS, m)(b)
	}
}

// judgedBy has the leader give a verdict with an end.
func judgedBy(e task.End, atMS int64) step {
	return func(b *task.Board) (*task.Board, error) {
		return moveAt(atMS, task.Move{Assignment: "7", Epoch: b.Assignments["7"].Epoch, Do: task.Judge, Verdict: e.Verdict(), End: e, Why: "why"})(b)
	}
}

// runs is a job of these groups, whose members have started on h-0 and h-1 by turns.
func runs(t testing.TB, terms task.JobTerms, groups ...task.Group) *task.Board {
	t.Helper()
	q, of, n := ofJob("7", terms, groups...), map[string][]string{}, 0
	for _, g := range q.Groups {
		for range g.Peers {
			of[g.Name] = append(of[g.Name], []string{"h-0", "h-1"}[n%2])
			n++
		}
	}
	b := after(t, jobs(t), assigning(q), onHosts(of))
	return after(t, b, all("7", task.Prepared, false), do("7", task.Pass), all("7", task.Started, false))
}

// TestHostsOfJobsAreSeveralMembers, as many as they can report of, and all of them on one if they must be.
func TestHostsOfJobsAreSeveralMembers(t *testing.T) {
	many := func(n int, host string) (all []string) {
		for range n {
			all = append(all, host)
		}
		return all
	}
	waits := func(terms task.JobTerms, workers uint32) *task.Board {
		return after(t, jobs(t), assigning(ofJob("7", terms, task.Group{Name: "main", Peers: 1, Least: 1}, task.Group{Name: "worker", Peers: workers})))
	}
	b := after(t, waits(task.JobTerms{Together: true}, 2), onHosts(map[string][]string{"main": {"h-0"}, "worker": {"h-0", "h-0"}}))
	if a := b.Assignments["7"]; !a.Shares || len(a.Members) != 3 || a.PlacedMS != 20 {
		t.Errorf("it is %+v", a)
	}
	if h := task.HostedOn(b, "h-0"); len(h) != 1 || len(h[0].Members) != 3 || h[0].Members[2].Index != 2 {
		t.Errorf("its host sees %+v", h)
	}
	after(t, waits(task.JobTerms{}, task.MaxHosted), onHosts(map[string][]string{"main": {"h-1"}, "worker": many(task.MaxHosted, "h-0")}))
	refused(t, waits(task.JobTerms{}, task.MaxHosted), task.Bad, onHosts(map[string][]string{"main": {"h-0"}, "worker": many(task.MaxHosted, "h-0")}))
	refused(t, waits(task.JobTerms{Together: true}, 2), task.Bad, onHosts(map[string][]string{"main": {"h-0"}, "worker": {"h-0", "h-1"}}))
	refused(t, waits(task.JobTerms{}, 2), task.Bad, onHosts(map[string][]string{"main": {"h-0"}, "worker": {"h-0", "h-1", "h-1"}}))
	refused(t, waits(task.JobTerms{}, 2), task.Bad, onHosts(map[string][]string{"main": {"h-0"}, "worker": {"h-0"}}))
	two := move(task.Move{Assignment: "7", Do: task.Place, Members: []task.Placement{{Node: "h-0", Group: "main", Peers: 1}, {Node: "h-1", Group: "worker", Peers: 2}}})
	refused(t, waits(task.JobTerms{}, 2), task.Bad, two)
}

// TestWhenAJobIsDone: by which of its groups, for whom it waits then, and whose end makes it fail.
func TestWhenAJobIsDone(t *testing.T) {
	main, side, serves := task.Group{Name: "main", Peers: 3, Least: 2}, task.Group{Name: "side", Peers: 1, Least: 1}, task.Group{Name: "worker", Peers: 1}
	type ended struct {
		member int
		code   int32
	}
	for name, tt := range map[string]struct {
		done             string
		ended            []ended // of main 0 to 2, side 3, worker 4
		met, awaits, can bool
	}{
		"all at first":                   {"", nil, false, true, true},
		"main at first":                  {"main", nil, false, true, true},
		"any at first":                   {"any", nil, false, true, true},
		"all, and main is":               {"", []ended{{0, 0}, {1, 0}}, false, true, true},
		"all, and the third runs":        {"", []ended{{0, 0}, {1, 0}, {3, 0}}, true, true, true},
		"all, and the third has failed":  {"", []ended{{0, 0}, {1, 0}, {2, 3}, {3, 0}}, true, false, true},
		"all, and two have failed":       {"", []ended{{0, 0}, {1, 1}, {2, 3}}, false, true, false},
		"main, and the third runs":       {"main", []ended{{0, 0}, {1, 0}}, true, true, true},
		"main, and all of it":            {"main", []ended{{0, 0}, {1, 0}, {2, 0}}, true, false, true},
		"main, and side has failed":      {"main", []ended{{3, 1}}, false, true, false},
		"main, and side failed after it": {"main", []ended{{0, 0}, {1, 0}, {2, 0}, {3, 1}}, true, false, true},
		"any, by side":                   {"any", []ended{{3, 0}}, true, false, true},
		"any, by main that runs":         {"any", []ended{{0, 0}, {1, 0}}, true, true, true},
		"any, and side has failed":       {"any", []ended{{3, 1}}, false, true, true},
		"any, and none can":              {"any", []ended{{3, 1}, {0, 1}, {1, 1}}, false, true, false},
		"a worker has left":              {"", []ended{{4, 0}}, false, true, false},
		"a worker has left any":          {"any", []ended{{4, 0}}, false, true, false},
		"a worker left after the end":    {"main", []ended{{0, 0}, {1, 0}, {2, 0}, {4, 0}}, true, false, true},
	} {
		b := runs(t, task.JobTerms{Done: tt.done}, main, side, serves)
		for _, e := range tt.ended {
			b = after(t, b, becomes(task.Exited, e.code, 20, e.member))
		}
		a := b.Assignments["7"]
		if a.Met() != tt.met || task.Awaits(a) != tt.awaits || a.Possible() != tt.can {
			t.Errorf("%s: met is %v, awaits %v, can %v", name, a.Met(), task.Awaits(a), a.Possible())
		}
		if next, err := judgedBy(task.EndEntryDone, 30)(b); (err == nil) != tt.met || tt.met && next.Assignments["7"].End != task.EndEntryDone {
			t.Errorf("%s: judged to be done: %v", name, err)
		}
		if _, err := judgedBy(task.EndMemberFailed, 30)(after(t, b, strictly)); (err == nil) == tt.met {
			t.Errorf("%s: judged to have failed: %v", name, err)
		}
	}
}

// strictly is a board as new entries make it.
func strictly(b *task.Board) (*task.Board, error) {
	a := *b.Assignments["7"]
	a.Strict = true
	b.Assignments["7"] = &a
	return b, nil
}

// TestAJobThatLivesForATime is not done by its programs, fails by them, and has succeeded when it has lived.
func TestAJobThatLivesForATime(t *testing.T) {
	b := runs(t, task.JobTerms{LivesMS: 1000}, task.Group{Name: "entry", Peers: 1, Least: 1}, task.Group{Name: "worker", Peers: 2})
	b = after(t, b, becomes(task.Ready, 0, 100, 1), becomes(task.Exited, 0, 200, 0))
	if a := b.Assignments["7"]; a.ReadySinceMS != 0 || a.Met() || !a.Possible() {
		t.Errorf("it is %+v", a)
	}
	b = after(t, b, becomes(task.Ready, 0, 300, 2))
	if a := b.Assignments["7"]; a.ReadySinceMS != 300 || task.Outlived(a, 1299) || !task.Outlived(a, 1300) {
		t.Errorf("it is %+v", a)
	}
	for at, ok := range map[int64]bool{1299: false, 1300: true} {
		if _, err := judgedBy(task.EndTTL, at)(b); (err == nil) != ok {
			t.Errorf("after %d ms: %v", at, err)
		}
	}
	refused(t, b, task.Stale, judgedBy(task.EndEntryDone, 9999))
	if a := after(t, b, becomes(task.Exited, 0, 400, 1)).Assignments["7"]; a.Possible() {
		t.Error("it goes on without whom it needs")
	}
	refused(t, runs(t, task.JobTerms{}), task.Stale, judgedBy(task.EndTTL, 1<<40))
}

// TestOneEnd: each verdict of a job comes with an end of its own, the first stands, and nothing else has one.
func TestOneEnd(t *testing.T) {
	for _, e := range allEnds() {
		b := runs(t, task.JobTerms{LivesMS: 1})
		switch e {
		case task.EndEntryDone:
			b = after(t, runs(t, task.JobTerms{}), becomes(task.Exited, 0, 20, 0))
		case task.EndStopFile:
			b = after(t, runs(t, task.JobTerms{Stops: true}), asks(task.AskStop, task.Ready, "c2ln"))
		default:
			b = after(t, b, all("7", task.Ready, false))
		}
		if e == task.EndCancelled {
			refused(t, b, task.Stale, judgedBy(e, 30))
			continue
		}
		b = after(t, b, judgedBy(e, 30))
		if a := b.Assignments["7"]; a.End != e || a.Verdict != e.Verdict() || a.Reason != "why" {
			t.Errorf("%s: it ended by %q, %s", e, a.End, a.Verdict)
		}
		other := task.EndMaxRuntime
		if e == other {
			other = task.EndHostLost
		}
		if next := after(t, b, judgedBy(other, 40)); next.Assignments["7"].End != e {
			t.Errorf("%s: it ended again, by %s", e, next.Assignments["7"].End)
		}
	}
	cancels := func(b *task.Board) (*task.Board, error) { return b.Cancel("7", "enough", 30) }
	if a := after(t, runs(t, task.JobTerms{}), cancels).Assignments["7"]; a.End != task.EndCancelled || a.Verdict != task.Cancelled {
		t.Errorf("cancelled: %q, %s", a.End, a.Verdict)
	}
	if a := after(t, running(t), cancels).Assignments["7"]; a.End != "" {
		t.Errorf("what is no job ended by %q", a.End)
	}
	verdict := func(v task.Verdict, e task.End) step {
		return move(task.Move{Assignment: "7", Epoch: 1, Do: task.Judge, Verdict: v, End: e})
	}
	refused(t, runs(t, task.JobTerms{}), task.Stale, verdict(task.Failed, ""))
	refused(t, runs(t, task.JobTerms{}), task.Stale, verdict(task.Failed, task.EndTTL))
	refused(t, runs(t, task.JobTerms{}), task.Stale, verdict(task.Succeeded, task.EndStopFile)) // no operator has signed that a host may say so
	refused(t, runs(t, task.JobTerms{}), task.Stale, verdict(task.Succeeded, task.EndHostLost))
	refused(t, runs(t, task.JobTerms{}), task.Stale, verdict(task.Failed, "tired"))
	refused(t, running(t), task.Stale, verdict(task.Failed, task.EndHostLost))
	refused(t, after(t, jobs(t), assigning(ofJob("7", task.JobTerms{})), onHosts(map[string][]string{"main": {"h-0"}, "worker": {"h-0", "h-1"}})), task.Stale, verdict(task.Succeeded, task.EndTTL))
}

// TestRemediesForJobs name what an operator of jobs has, who may have no taskrunner.
func TestRemediesForJobs(t *testing.T) {
	b := jobs(t)
	for i := range task.MaxLive {
		b = after(t, b, assigning(ofJob(fmt.Sprint(100+i), task.JobTerms{})))
	}
	_, full := assigning(ofJob("7", task.JobTerms{}))(b)
	_, unknown := b.Cancel("7", "enough", 30)
	for err, want := range map[error]string{full: "swarmctl cancel job NAME", unknown: "swarmctl list jobs"} {
		if r, ok := errors.AsType[*task.Refusal](err); !ok || !strings.Contains(r.Remedy, want) {
			t.Errorf("%v, and its remedy does not name %q", err, want)
		}
	}
}

// TestWhoIsLate: of an epoch whose members are not ready in time the first that is not, and of the next one from its own beginning.
func TestWhoIsLate(t *testing.T) {
	late := func(b *task.Board, at int64, want int) {
		t.Helper()
		if i, is := task.Late(b.Assignments["7"], at); is != (want >= 0) || is && i != want {
			t.Errorf("after %d ms member %d is late: %v", at, i, is)
		}
	}
	q := ofJob("7", task.JobTerms{ReadyMS: 1000})
	q.Retries = 1
	b := after(t, jobs(t), assigning(q))
	late(b, 1<<40, -1)
	hosts := onHosts(map[string][]string{"main": {"h-0"}, "worker": {"h-0", "h-1"}}) // at 20
	b = after(t, b, hosts)
	late(b, 1019, -1)
	late(b, 1020, 0)
	late(after(t, b, becomes(task.Prepared, 0, 30, 0), becomes(task.Asked, 0, 30, 1)), 1020, 2) // it has come least far
	inOrder := q
	inOrder.InOrder = true
	turns := after(t, jobs(t), assigning(inOrder), hosts, all("7", task.Prepared, false), do("7", task.Pass), becomes(task.Started, 0, 30, 0))
	late(turns, 1020, 0) // the others wait for it
	late(after(t, turns, becomes(task.Ready, 0, 30, 0)), 1020, -1)
	b = after(t, b, all("7", task.Prepared, false), do("7", task.Pass), all("7", task.Started, false), becomes(task.Ready, 0, 30, 0), becomes(task.Ready, 0, 30, 2))
	late(b, 1020, 1)
	ready := after(t, b, becomes(task.Ready, 0, 900, 1))
	late(ready, 1<<40, -1)
	b = after(t, b, do("7", task.Withdraw), all("7", task.Stopped, true))
	late(b, 1<<40, -1)
	again := moveAt(5000, task.Move{Assignment: "7", Epoch: 1, Do: task.Place, Members: []task.Placement{{Node: "h-0", Group: "main", Peers: 1}, {Node: "h-0", Group: "worker", Peers: 1}, {Node: "h-1", Group: "worker", Peers: 1}}})
	b = after(t, b, again)
	late(b, 5999, -1)
	late(b, 6000, 0)
	ready = after(t, ready, do("7", task.Withdraw))
	if a := ready.Assignments["7"]; a.ReadySinceMS != 0 {
		t.Errorf("it is ready since %d", a.ReadySinceMS)
	}
}

// TestGraceBeforeTheNextEpoch: what a lost host runs is over when its lease and the grace of its members are, not before.
func TestGraceBeforeTheNextEpoch(t *testing.T) {
	for grace, settled := range map[int64]int64{0: 100 + task.SettleMS, 30_000: 100 + task.SettleMS + 30_000} {
		b := after(t, runs(t, task.JobTerms{GraceMS: grace}), becomes(task.Exited, 0, 90, 0), becomes(task.Lost, 0, 100, 1))
		a := after(t, b, func(b *task.Board) (*task.Board, error) {
			return b.Move([]task.Move{{Assignment: "7", Epoch: 1, Reports: []task.Report{
				{Node: "h-0", State: task.Exited, Cleaned: true}, {Member: 2, Node: "h-0", State: task.Exited, Cleaned: true},
			}}}, keyOf, 110)
		}).Assignments["7"]
		if a.Settled(settled-1) || !a.Settled(settled) {
			t.Errorf("grace %d: after %d ms it is %v, a moment later %v", grace, settled-1, a.Settled(settled-1), a.Settled(settled))
		}
	}
}

// TestMainGroup is the first of those that must succeed.
func TestMainGroup(t *testing.T) {
	if got := task.MainGroup([]task.Group{{Name: "scheduler", Peers: 1}, {Name: "entry", Peers: 1, Least: 1}, {Name: "more", Peers: 1, Least: 1}}); got != "entry" {
		t.Errorf("it is %q", got)
	}
	if got := task.MainGroup([]task.Group{{Name: "scheduler", Peers: 1}}); got != "" {
		t.Errorf("it is %q", got)
	}
}
