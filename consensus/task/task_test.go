package task_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/consensus/task"
)

// step is one change of a board.
type step func(b *task.Board) (*task.Board, error)

// after makes steps that must all be legal, and holds the board to its invariants.
func after(t testing.TB, b *task.Board, steps ...step) *task.Board {
	t.Helper()
	for i, s := range steps {
		next, err := s(b)
		if err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		if err := next.Check(b); err != nil {
			t.Fatalf("after step %d: %v", i, err)
		}
		b = next
	}
	return b
}

// refused holds that a step is refused for a cause, and changes nothing.
func refused(t testing.TB, b *task.Board, cause task.Cause, s step) {
	t.Helper()
	before := encoded(t, b)
	next, err := s(b)
	r, ok := errors.AsType[*task.Refusal](err)
	if !ok || r.Cause != cause {
		t.Errorf("got %v, want cause %d", err, cause)
	}
	if next != b && !bytes.Equal(encoded(t, next), encoded(t, b.Whole())) || !bytes.Equal(before, encoded(t, b)) {
		t.Error("a refused step changed the board")
	}
}

func encoded(t testing.TB, b *task.Board) []byte {
	t.Helper()
	raw, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func create(name, prereq string) step {
	return func(b *task.Board) (*task.Board, error) {
		return b.CreateTask(task.Task{Name: name, Type: task.PullImage, Author: "me", Prereq: prereq, Outcome: "img", CreatedMS: 1})
	}
}

func edit(name string, line uint32, text string) step {
	return func(b *task.Board) (*task.Board, error) { return b.EditTask(name, line, []byte(text)) }
}

func finalise(name string) step {
	return func(b *task.Board) (*task.Board, error) { return b.FinaliseTask(name, "", 2) }
}

func remove(name string, force bool) step {
	return func(b *task.Board) (*task.Board, error) { return b.DeleteTask(name, force) }
}

// pull is a finalised task.
func pull(t testing.TB) *task.Board {
	return after(t, nil, create("pull", task.Root), edit("pull", 1, "Tag: 1"), finalise("pull"))
}

func TestDefinitionIsWrittenByLines(t *testing.T) {
	b := after(t, nil, create("a", task.Root))
	for _, tt := range []struct {
		line       uint32
		text, want string
	}{
		{1, "one\ntwo\nthree\n", "one\ntwo\nthree\n"},
		{2, "TWO", "one\nTWO\nthree\n"},
		{4, "four", "one\nTWO\nthree\nfour\n"},
		{4, "4\n5\n", "one\nTWO\nthree\n4\n5\n"},
		{1, "", "\nTWO\nthree\n4\n5\n"},
	} {
		b = after(t, b, edit("a", tt.line, tt.text))
		if got := string(b.Task("a").Definition); got != tt.want {
			t.Errorf("line %d of %q gives %q, want %q", tt.line, tt.text, got, tt.want)
		}
	}
	refused(t, b, task.Bad, edit("a", 0, "x"))
	refused(t, b, task.Bad, edit("a", 7, "x"))
	refused(t, b, task.Bad, edit("a", 1, "\x1b[31m"))
	refused(t, b, task.Bad, edit("a", 1, "\xff"))
	refused(t, b, task.Full, edit("a", 1, strings.Repeat("x", task.MaxDefinition)))
	refused(t, b, task.Full, edit("a", 1, strings.Repeat("\n", 1<<16+1)))
	refused(t, b, task.Unknown, edit("b", 1, "x"))
	refused(t, b, task.Finalised, edit(task.Root, 1, "x"))
}

func TestTasksHaveABoundTogether(t *testing.T) {
	var b *task.Board
	most := strings.Repeat("x", task.MaxDefinition-1)
	for i := range task.MaxDefinitions / task.MaxDefinition {
		name := fmt.Sprint("t", i)
		b = after(t, b, create(name, task.Root), edit(name, 1, most))
	}
	refused(t, after(t, b, create("one-more", task.Root)), task.Full, edit("one-more", 1, "x"))
	after(t, b, remove("t0", false), create("one-more", task.Root), edit("one-more", 1, most))
}

// TestADigestCoversThePrerequisite: a host that is shown another task before one sees by the digest of the last one that it is another.
func TestADigestCoversThePrerequisite(t *testing.T) {
	last := func(image string) string {
		b := after(t, nil, create("image", task.Root), edit("image", 1, image), finalise("image"), create("content", "image"), edit("content", 1, "c"), finalise("content"),
			create("train", "content"), edit("train", 1, "t"), finalise("train"))
		return b.Task("train").Digest
	}
	if good, bad := last("good"), last("bad"); good == bad || good != last("good") {
		t.Errorf("digests are %s and %s", good, bad)
	}
}

func TestTaskIsFixedWhenFinalised(t *testing.T) {
	b := after(t, nil, create("a", task.Root))
	if got := b.Task("a").Status(); got != "REGISTERED" {
		t.Errorf("status %s", got)
	}
	refused(t, b, task.Unfinished, finalise("a"))
	b = after(t, b, edit("a", 1, "x"))
	sum := b.Task("a").Sum()
	b = after(t, b, edit("a", 1, "y"))
	refused(t, b, task.Stale, func(b *task.Board) (*task.Board, error) { return b.FinaliseTask("a", sum, 3) })
	b = after(t, b, create("next", "a"), edit("next", 1, "z"))
	refused(t, b, task.Unfinished, finalise("next"))
	b = after(t, b, finalise("a"), finalise("a"), finalise("next"))
	if a := b.Task("a"); a.Digest != a.Sum() || a.Digest == sum || a.Status() != "FINALIZED" {
		t.Errorf("finalised as %+v", a)
	}
	open := after(t, b, create("open", "a"), edit("open", 1, "w"))
	sum = task.SumOn(open, open.Task("open"))
	open = after(t, open, func(b *task.Board) (*task.Board, error) { return b.FinaliseTask("open", sum, 3) })
	if o := open.Task("open"); o.Digest != sum || o.PrereqDigest != b.Task("a").Digest || task.SumOn(open, o) != sum {
		t.Errorf("finalised as %+v, announced as %s", o, sum)
	}
	refused(t, b, task.Finalised, edit("a", 1, "z"))
	refused(t, b, task.Finalised, remove("a", false))
	refused(t, b, task.InUse, remove("a", true))
	b = after(t, b, remove("next", true), remove("a", true))
	refused(t, b, task.Unknown, remove("a", true))
}

// TestATakenNameSaysWhatMakesRoom: a remedy that is refused in its turn would be none.
func TestATakenNameSaysWhatMakesRoom(t *testing.T) {
	b := after(t, pull(t), create("open", "pull"))
	for name, want := range map[string]string{
		"open":    "choose another name, or: swarmctl delete task open",
		"pull":    "choose another name, or: swarmctl delete task pull force",
		task.Root: "choose another name",
	} {
		_, err := create(name, task.Root)(b)
		if r, ok := errors.AsType[*task.Refusal](err); !ok || r.Remedy != want {
			t.Errorf("%s: got %+v, want the remedy %q", name, err, want)
		}
	}
}

func TestBadTasks(t *testing.T) {
	b := pull(t)
	refused(t, b, task.Taken, create("pull", task.Root))
	refused(t, b, task.Taken, create(task.Root, task.Root))
	refused(t, b, task.InUse, remove(task.Root, true))
	refused(t, b, task.Unknown, create("a", "b"))
	refused(t, b, task.Unknown, create("a", "a"))
	for name, spoil := range map[string]func(x *task.Task){
		"no name": func(x *task.Task) { x.Name = "" }, "name with a blank": func(x *task.Task) { x.Name = "a b" }, "long name": func(x *task.Task) { x.Name = strings.Repeat("a", 129) },
		"unknown type": func(x *task.Task) { x.Type = "BUILD_SWARM" }, "the root's type": func(x *task.Task) { x.Type = "ROOT_TASK" },
		"long author": func(x *task.Task) { x.Author = strings.Repeat("<", 100) }, "two lines": func(x *task.Task) { x.Outcome = "a\nb" },
		"no prerequisite": func(x *task.Task) { x.Prereq = "" }, "blank in who": func(x *task.Task) { x.By = "a b" },
	} {
		x := task.Task{Name: "a", Type: task.RunSwarm, Author: "me", Prereq: task.Root, Outcome: "img"}
		spoil(&x)
		t.Run(name, func(t *testing.T) {
			refused(t, b, task.Bad, func(b *task.Board) (*task.Board, error) { return b.CreateTask(x) })
		})
	}
	// The same once more, while nothing is written, changes nothing.
	b = after(t, b, create("a", task.Root))
	if again := after(t, b, create("a", task.Root)); again != b {
		t.Error("a repeated create made another board")
	}
}

func TestTaskrunners(t *testing.T) {
	add := func(name string) step {
		return func(b *task.Board) (*task.Board, error) { return b.CreateTaskrunner(name, 1) }
	}
	gone := func(name string) step {
		return func(b *task.Board) (*task.Board, error) { return b.DeleteTaskrunner(name) }
	}
	reset := func(name string) step {
		return func(b *task.Board) (*task.Board, error) { return b.ResetTaskrunner(name, "reset", 9) }
	}
	if (*task.Board)(nil).Taskrunner(task.DefaultTaskrunner) == nil {
		t.Error("the default taskrunner is not there")
	}
	b := after(t, pull(t), add("tr"), add("tr"), reset("tr"), reset(task.DefaultTaskrunner))
	refused(t, b, task.Bad, add("a b"))
	refused(t, b, task.Unknown, reset("other"))
	refused(t, b, task.InUse, gone(task.DefaultTaskrunner))
	b = after(t, b, assign("7", "tr", 1))
	refused(t, b, task.Busy, gone("tr"))
	b = after(t, b, reset("tr"))
	if a := b.AssignmentOf("tr"); a.Verdict != task.Cancelled || a.Phase != task.Ending || a.Status() != "IDLE" {
		t.Errorf("after the reset: %+v", a)
	}
	b = after(t, b, move(task.Move{Assignment: "7", Do: task.Close}))
	if b.AssignmentOf("tr") != nil {
		t.Error("the taskrunner is not idle after its reset")
	}
	after(t, b, gone("tr"), gone("tr"))
}
