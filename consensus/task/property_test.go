package task_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/task"
)

// TestAnySequenceKeepsTheInvariants plays steps at random, legal and not: whatever is asked, boards are without fault, what was returned
// before stays as it was, an assignment has one history, and one verdict.
func TestAnySequenceKeepsTheInvariants(t *testing.T) {
	over, epochs := 0, uint32(0)
	for seed := range uint64(60) {
		b := played(t, seed, nil, 400, random, func(a *task.Assignment) { epochs = max(epochs, a.Epoch) })
		over += int(b.Whole().Over)
	}
	if over < 100 || epochs < 3 {
		t.Errorf("%d assignments were over and %d epochs at most: the steps are too rarely legal", over, epochs)
	}
}

// TestAnySequenceOfJobs: the same holds of jobs, which come to all of their ends.
func TestAnySequenceOfJobs(t *testing.T) {
	ends, epochs := map[task.End]int{}, uint32(0)
	for seed := range uint64(40) {
		played(t, seed, jobs(t), 300, randomJob, func(a *task.Assignment) {
			epochs = max(epochs, a.Epoch)
			if a.Phase == task.Over {
				ends[a.End]++
			}
		})
	}
	for _, e := range allEnds() {
		if ends[e] == 0 {
			t.Errorf("no job has ended by %s: %v", e, ends)
		}
	}
	if ends[""] > 0 || epochs < 3 {
		t.Errorf("%d jobs have no end, and there were %d epochs at most", ends[""], epochs)
	}
}

// played is a board after steps at random, each of which is held to the invariants. seen is shown every assignment after each step.
func played(
	t *testing.T, seed uint64, b *task.Board, steps int64, random func(*rand.Rand, *task.Board) func(*task.Board, int64) (*task.Board, error), seen func(*task.Assignment),
) *task.Board {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 18))
	var restored *task.Board // as it is after a snapshot of it was read at half of the steps
	for at := range steps {
		before := encoded(t, b)
		step := random(rng, b)
		next, err := step(b, at*9000)
		if at == steps/2 {
			restored = &task.Board{}
			if err := json.Unmarshal(encoded(t, b.Whole()), restored); err != nil {
				t.Fatal(err)
			}
		}
		if restored != nil {
			restored, _ = step(restored, at*9000)
		}
		if err != nil && !bytes.Equal(encoded(t, b.Whole()), encoded(t, next.Whole())) {
			t.Fatalf("seed %d step %d: refused (%v), and changed", seed, at, err)
		}
		if !bytes.Equal(before, encoded(t, b)) {
			t.Fatalf("seed %d step %d changed the board that it was applied to", seed, at)
		}
		if err := next.Check(b); err != nil {
			t.Fatalf("seed %d step %d: %v", seed, at, err)
		}
		if err := next.Check(nil); err != nil {
			t.Fatalf("seed %d step %d, all of it: %v", seed, at, err)
		}
		for id, a := range next.Whole().Assignments {
			seen(a)
			if old := b.Whole().Assignments[id]; old != nil {
				follows(t, old, a, at*9000)
			}
		}
		b = next
	}
	if !bytes.Equal(encoded(t, b.Whole()), encoded(t, restored)) {
		t.Fatalf("seed %d: what was read from a snapshot has another history", seed)
	}
	return b
}

// follows holds that one assignment may follow on another.
func follows(t *testing.T, old, a *task.Assignment, atMS int64) {
	t.Helper()
	legal := map[task.Phase][]task.Phase{
		task.Waiting: {task.Waiting, task.Preparing, task.Ending}, task.Preparing: {task.Preparing, task.Waiting, task.Running, task.Ending},
		task.Running: {task.Running, task.Waiting, task.Ending}, task.Ending: {task.Ending, task.Over}, task.Over: {task.Over},
	}
	if !slices.Contains(legal[old.Phase], a.Phase) {
		t.Fatalf("assignment %s went from %s to %s", a.ID, old.Phase, a.Phase)
	}
	if old.Verdict != "" && (old.Verdict != a.Verdict || old.Reason != a.Reason || old.End != a.End) {
		t.Fatalf("assignment %s had the verdict %s (%s), and has %s (%s)", a.ID, old.Verdict, old.Reason, a.Verdict, a.Reason)
	}
	if a.Epoch != old.Epoch && (a.Epoch != old.Epoch+1 || !old.Settled(atMS)) {
		t.Fatalf("assignment %s went from epoch %d, whose members are %+v, to %d", a.ID, old.Epoch, old.Members, a.Epoch)
	}
	for i, m := range a.Members {
		if a.Epoch != old.Epoch {
			break
		}
		o := old.Members[i]
		if o.Cleaned && m != o || o.Node != m.Node || (o.Bad() || o.Succeeded()) && (o.State != m.State || o.Code != m.Code) {
			t.Fatalf("member %d of assignment %s was %+v, and is %+v", i, a.ID, o, m)
		}
	}
}

// random is a step that has a fair chance to be legal.
func random(rng *rand.Rand, b *task.Board) func(*task.Board, int64) (*task.Board, error) {
	name, runner := fmt.Sprint("t", rng.IntN(3)), []string{task.DefaultTaskrunner, "tr"}[rng.IntN(2)]
	ids := b.LiveIDs()
	if len(ids) > 0 && rng.IntN(4) > 0 {
		a := b.Assignments[ids[rng.IntN(len(ids))]]
		if rng.IntN(12) == 0 {
			word := task.Approval{Host: fmt.Sprint("n", rng.IntN(3)), Refuse: rng.IntN(2) == 0, By: fmt.Sprint("op", rng.IntN(6)), Order: &ledger.Order{Method: "ApproveTask"}}
			if len(a.Members) > 0 {
				word.Host = a.Members[rng.IntN(len(a.Members))].Node
			}
			return func(b *task.Board, _ int64) (*task.Board, error) { return b.Approve(a.Request, word) }
		}
		m := randomMove(rng, a)
		return func(b *task.Board, at int64) (*task.Board, error) { return b.Move([]task.Move{m}, keyOf, at) }
	}
	switch rng.IntN(10) {
	case 0, 1:
		if name == "t2" {
			return func(b *task.Board, _ int64) (*task.Board, error) {
				return b.CreateTask(task.Task{Name: name, Type: task.RunJob, Prereq: task.Root})
			}
		}
		return func(b *task.Board, _ int64) (*task.Board, error) { return create(name, task.Root)(b) }
	case 2:
		line, text := uint32(rng.IntN(3)), fmt.Sprint("line ", rng.IntN(9))
		return func(b *task.Board, _ int64) (*task.Board, error) { return edit(name, line, text)(b) }
	case 3:
		return func(b *task.Board, at int64) (*task.Board, error) { return b.FinaliseTask(name, "", at) }
	case 4:
		force := rng.IntN(2) == 0
		return func(b *task.Board, _ int64) (*task.Board, error) { return b.DeleteTask(name, force) }
	case 5:
		return func(b *task.Board, at int64) (*task.Board, error) { return b.CreateTaskrunner(runner, at) }
	case 6:
		return func(b *task.Board, at int64) (*task.Board, error) { return b.ResetTaskrunner(runner, "reset", at) }
	case 7:
		return func(b *task.Board, _ int64) (*task.Board, error) { return b.DeleteTaskrunner(runner) }
	}
	q := asked(fmt.Sprint(1+rng.IntN(500)), runner, uint32(1+rng.IntN(2)))
	q.Task, q.Retries, q.InOrder = name, uint32(rng.IntN(4)), rng.IntN(2) == 0
	if a := b.AssignmentOf(runner); a != nil && rng.IntN(2) == 0 {
		q.Joins, q.Task, q.Hosts = a.ID, a.Task, []string{"h-0-0", "h-0-1", "h-1-0"}[rng.IntN(3):]
	}
	q.Groups = append(q.Groups, task.Group{Name: "more", Peers: 1, Least: uint32(rng.IntN(2))})
	if name == "t2" {
		q.Joins, q.JobTerms = "", task.JobTerms{Done: []string{"", "main", "any"}[rng.IntN(3)], LivesMS: int64(rng.IntN(2)) * 9000, Together: rng.IntN(2) == 0}
	}
	return func(b *task.Board, at int64) (*task.Board, error) {
		return b.Assign(q, &ledger.Order{Method: "AssignTask"}, at)
	}
}

func randomMove(rng *rand.Rand, a *task.Assignment) task.Move {
	m := task.Move{Assignment: a.ID, Epoch: a.Epoch, Why: "why", Verdict: task.Failed}
	if rng.IntN(8) == 0 {
		m.Epoch += uint32(rng.IntN(3)) - 1
	}
	states := []task.State{task.Asked, task.Prepared, task.Prepared, task.Started, task.Ready, task.Exited, task.Exited, task.Stopped, task.Stopped, task.Refused, task.Lost, task.Placed}
	for i, x := range a.Members {
		if rng.IntN(3) > 0 {
			m.Reports = append(m.Reports, task.Report{
				Member: uint32(i), Node: x.Node, State: states[rng.IntN(len(states))], Code: int32(rng.IntN(8) / 7), Cleaned: rng.IntN(2) == 0,
			})
		}
	}
	acts := map[task.Phase][]task.Act{
		task.Waiting: {task.Place, task.Place, task.Place}, task.Preparing: {task.Pass, task.Pass, task.Withdraw},
		task.Running: {task.Pass, task.Judge, task.Withdraw}, task.Ending: {task.Close},
	}[a.Phase]
	acts = append(acts, "", "", task.Wait, task.Judge, task.Close, "dance")
	if m.Do = acts[rng.IntN(len(acts))]; m.Do == task.Judge && rng.IntN(2) == 0 {
		m.Verdict = task.Succeeded
	}
	if m.Do == task.Place {
		m.Reports = nil // so that what stood before must allow it
	}
	for i, g := range a.Groups {
		for j := range g.Peers {
			node := fmt.Sprintf("h-%d-%d", i, j)
			if a.Together || a.Shares && rng.IntN(3) == 0 {
				node = "h-0-0"
			}
			m.Members = append(m.Members, task.Placement{Node: node, Group: g.Name, Peers: 1})
		}
	}
	return m
}

// randomJob is a step of one of a few jobs.
func randomJob(rng *rand.Rand, b *task.Board) func(*task.Board, int64) (*task.Board, error) {
	ids := b.LiveIDs()
	if len(ids) == 0 || rng.IntN(20) == 0 {
		q := ofJob(fmt.Sprint(1+rng.IntN(500)), task.JobTerms{
			Done: []string{"", "main", "any"}[rng.IntN(3)], ReadyMS: 9000, LivesMS: int64(rng.IntN(2)) * 9000, Together: rng.IntN(2) == 0, Stops: rng.IntN(2) == 0,
		}, task.Group{Name: "main", Peers: 2, Least: uint32(1 + rng.IntN(2))}, task.Group{Name: "more", Peers: 1, Least: uint32(rng.IntN(2))})
		q.Hosts, q.Retries, q.InOrder = []string{"h-0-0", "h-0-1", "h-1-0"}, uint32(rng.IntN(4)), rng.IntN(2) == 0
		return func(b *task.Board, at int64) (*task.Board, error) { return b.Assign(q, nil, at) }
	}
	a := b.Assignments[ids[rng.IntN(len(ids))]]
	if rng.IntN(100) == 0 {
		return func(b *task.Board, at int64) (*task.Board, error) { return b.Cancel(a.ID, "enough", at) }
	}
	m := randomMove(rng, a)
	m.End = allEnds()[rng.IntN(len(allEnds()))]
	if rng.IntN(8) > 0 {
		m.Verdict = m.End.Verdict()
	}
	switch {
	case task.ToStop(a) && rng.IntN(2) == 0:
		m.Reports, m.Do, m.End, m.Verdict = nil, task.Judge, task.EndStopFile, task.Succeeded
	case a.ReadySinceMS > 0 && a.LivesMS > 0 && rng.IntN(3) == 0:
		m.Reports, m.Do, m.End, m.Verdict = nil, task.Judge, task.EndTTL, task.Succeeded
	case a.Met() && rng.IntN(2) == 0:
		m.Do, m.End, m.Verdict = task.Judge, task.EndEntryDone, task.Succeeded
	case a.Phase == task.Running && rng.IntN(3) == 0:
		for i := range m.Reports {
			m.Reports[i].State, m.Reports[i].Code, m.Reports[i].Cleaned = []task.State{task.Ready, task.Ready, task.Exited}[rng.IntN(3)], 0, false
			m.Reports[i].Asks = []string{"", "", task.AskStop, "more", task.AskFail}[rng.IntN(5)]
		}
		m.Do = []task.Act{"", task.Pass}[rng.IntN(2)]
	case m.Do == task.Judge && m.Verdict == task.Failed && rng.IntN(8) > 0:
		m.Do = ""
	}
	return func(b *task.Board, at int64) (*task.Board, error) { return b.Move([]task.Move{m}, keyOf, at) }
}

// FuzzMove gives boards what a log may hold: whatever is read, a board is without fault after it, and reads back as it was written.
func FuzzMove(f *testing.F) {
	for _, m := range [][]task.Move{
		{{Assignment: "7", Do: task.Place, Members: []task.Placement{{Node: "h-0", Group: "peers", Peers: 2}}}},
		{{Assignment: "7", Epoch: 1, Reports: []task.Report{{Node: "h-0", State: task.Exited, Text: "done", Cleaned: true}}, Do: task.Judge, Verdict: task.Succeeded, Why: "all"}},
		{{Assignment: "7", Epoch: 1, Do: task.Withdraw, Why: "lost"}, {Assignment: "7", Epoch: 1, Do: task.Close}},
	} {
		raw, err := json.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	boards := []*task.Board{nil, pull(f), after(f, pull(f), assign("7", task.DefaultTaskrunner, 2)), running(f), after(f, running(f), do("7", task.Judge)), after(f, jobs(f), assigning(ofJob("7", task.JobTerms{LivesMS: 5})))}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var moves []task.Move
		if json.Unmarshal(raw, &moves) != nil {
			return
		}
		for i, b := range boards {
			next, err := b.Move(moves, keyOf, 30)
			if err := next.Check(b); err != nil {
				t.Fatalf("board %d: %v", i, err)
			}
			if _, ok := err.(*task.Refusal); err != nil && !ok { //nolint:errorlint // nothing else may come of it
				t.Fatalf("board %d: %v", i, err)
			}
			var again task.Board
			if err := json.Unmarshal(encoded(t, next.Whole()), &again); err != nil || !bytes.Equal(encoded(t, &again), encoded(t, next.Whole())) {
				t.Fatalf("board %d reads back otherwise: %v", i, err)
			}
			if len(slices.Collect(maps.Keys(again.Assignments))) > 0 && again.Check(nil) != nil {
				t.Fatalf("board %d: what was read back: %v", i, again.Check(nil))
			}
		}
	})
}

// TestCheckFindsBrokenBoards breaks one thing at a time.
func TestCheckFindsBrokenBoards(t *testing.T) {
	for name, spoil := range map[string]func(b *task.Board){
		"task under another name":    func(b *task.Board) { b.Tasks["x"] = b.Tasks["pull"] },
		"no task":                    func(b *task.Board) { b.Tasks["x"] = nil },
		"finalised task changed":     func(b *task.Board) { b.Tasks["pull"].Outcome = "other" },
		"task of a live one is gone": func(b *task.Board) { delete(b.Tasks, "pull") },
		"taskrunner of none":         func(b *task.Board) { b.Taskrunners["x"] = &task.Taskrunner{Name: "x", Assignment: "9"} },
		"not its taskrunner's":       func(b *task.Board) { b.Taskrunners[task.DefaultTaskrunner].Assignment = "" },
		"no assignment":              func(b *task.Board) { b.Assignments["8"] = nil },
		"unknown phase":              func(b *task.Board) { b.Assignments["7"].Phase = "x" },
		"verdict too early":          func(b *task.Board) { b.Assignments["7"].Verdict = task.Failed },
		"no verdict":                 func(b *task.Board) { b.Assignments["7"].Phase = task.Ending },
		"over and not counted":       func(b *task.Board) { b.Assignments["7"].Phase, b.Assignments["7"].Verdict = task.Over, task.Failed },
		"no members":                 func(b *task.Board) { b.Assignments["7"].Members = nil },
		"barrier not passed":         func(b *task.Board) { b.Assignments["7"].Passed = 0 },
		"epoch too many":             func(b *task.Board) { b.Assignments["7"].Epoch = 2 },
		"member without a state":     func(b *task.Board) { b.Assignments["7"].Members[0].State = "" },
		"cleaned and not ended":      func(b *task.Board) { b.Assignments["7"].Members[0].Cleaned = true },
		"lost at no time":            func(b *task.Board) { b.Assignments["7"].Members[0].State = task.Lost },
		"an end of no job":           func(b *task.Board) { b.Assignments["7"].End = task.EndTTL },
		"began though it is no job":  func(b *task.Board) { b.Assignments["7"].PlacedMS = 1 },
		"terms of no job":            func(b *task.Board) { b.Assignments["7"].Together = true },
		"a job of another task":      func(b *task.Board) { a := b.Assignments["7"]; a.Shares, a.PlacedMS = true, 1 },
		"no maps":                    func(b *task.Board) { b.Tasks = nil },
	} {
		b := running(t)
		spoil(b)
		if b.Check(nil) == nil {
			t.Errorf("%s: Check finds nothing", name)
		}
	}
}

// TestCheckFindsBrokenJobs does the same with a job.
func TestCheckFindsBrokenJobs(t *testing.T) {
	for name, spoil := range map[string]func(a *task.Assignment){
		"it is none":           func(a *task.Assignment) { a.Shares, a.PlacedMS = false, 0 },
		"it did not begin":     func(a *task.Assignment) { a.PlacedMS = 0 },
		"it is on two hosts":   func(a *task.Assignment) { a.Together = true },
		"a member for two":     func(a *task.Assignment) { a.Members[1].Peers = 2 },
		"more than its group":  func(a *task.Assignment) { a.Members[1].Group = "main" },
		"an end too early":     func(a *task.Assignment) { a.End = task.EndTTL },
		"no end":               func(a *task.Assignment) { a.Phase, a.Verdict = task.Ending, task.Failed },
		"another end":          func(a *task.Assignment) { a.Phase, a.Verdict, a.End = task.Ending, task.Failed, task.EndTTL },
		"an unknown end":       func(a *task.Assignment) { a.Phase, a.Verdict, a.End = task.Ending, task.Failed, "tired" },
		"withdrawn early":      func(a *task.Assignment) { a.LastEnd = task.EndHostLost },
		"withdrawn for naught": func(a *task.Assignment) { a.LastWhy = "why" },
		"terms out of bounds":  func(a *task.Assignment) { a.GraceMS = 1 << 40 },
	} {
		b := runs(t, task.JobTerms{})
		if err := b.Check(nil); err != nil {
			t.Fatal(err)
		}
		spoil(b.Assignments["7"])
		if b.Check(nil) == nil {
			t.Errorf("%s: Check finds nothing", name)
		}
	}
}
