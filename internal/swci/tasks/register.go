package tasks

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/suggest"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/taskfile"
	"github.com/swarmd/swarmd/internal/yamlfile"
)

// Read reads a task file of which a task is to be made. warned is what is odd in it. A file that still has placeholders is refused.
func Read(path string) (task *taskfile.Task, warned []*yamlfile.Finding, err error) {
	raw, err := Contents(path, yamlfile.MaxFile)
	if err != nil {
		return nil, nil, err
	}
	task, warned, err = taskfile.ReadTask(path, raw)
	if err == nil {
		err = task.Unfilled()
	}
	return task, warned, err
}

// CheckType refuses what is no type of tasks, and names the one that was meant.
func CheckType(taskType string) error {
	if slices.Contains(taskfile.Types, taskType) {
		return nil
	}
	if near := taskfile.NearType(taskType); near != "" {
		return exit.New(exit.Usage, "did you mean "+near+"?", "task type %q is not known", taskType)
	}
	return exit.New(exit.Usage, "use "+strings.Join(taskfile.Types, ", "), "task type %q is not known", taskType)
}

// Author writes tasks.
type Author interface {
	CreateTask(ctx context.Context, task *swarmv1.CreateTaskRequest) (*swarmv1.Task, error)
	EditTask(ctx context.Context, name string, line uint32, text string) (*swarmv1.Task, error)
	DeleteTask(ctx context.Context, name string, force bool) error
	ListTasks(ctx context.Context) ([]*swarmv1.Task, error)
	Reader
}

// maxBatch bounds the bytes that are written at once: a request has them twice, once as signed, and an SN takes 256 KiB.
const maxBatch = 32 << 10

// Batch is lines of a body that were written at once.
type Batch struct {
	From uint32 // number of the first, from 1
	Len  int
}

// undoWait bounds taking back a task whose body can't be written.
const undoWait = 10 * time.Second

// Register makes a task and writes its body, and holds what the SN has made of it to the file. If the body is refused there is no task either.
func Register(ctx context.Context, api Author, t *taskfile.Task) (*swarmv1.Task, []Batch, error) {
	if err := hasPrereq(ctx, api, t); err != nil {
		return nil, nil, err
	}
	_, err := api.CreateTask(ctx, &swarmv1.CreateTaskRequest{Name: t.Name, Type: t.Type, Author: t.Author, Prereq: t.Prereq, Outcome: t.Outcome})
	if err != nil {
		return nil, nil, err
	}
	made, wrote, err := writeBody(ctx, api, t)
	if err == nil {
		var shown *Shown
		if shown, err = Look(ctx, api, t.Name); err == nil {
			err = shown.Same(t)
		}
	}
	if err == nil {
		return made, wrote, nil
	}
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoWait)
	defer cancel()
	if failed := api.DeleteTask(undo, t.Name, false); failed != nil {
		return nil, nil, fmt.Errorf("write its body: %w (and the task stands without it: swarmctl delete task %s)", err, t.Name)
	}
	return nil, nil, fmt.Errorf("write its body: %w", err)
}

// CheckPrereq refuses a prerequisite that is not there, where it is plain which one was meant. Any other reason is the SN's to give.
func CheckPrereq(ctx context.Context, api Author, prereq string) error {
	names, err := taskNames(ctx, api)
	if err != nil || slices.Contains(names, prereq) {
		return err
	}
	if near := suggest.Word(prereq, names); near != "" {
		return exit.New(exit.NotFound, "did you mean "+near+"?", "prerequisite %q is no task of the swarm", prereq)
	}
	return nil
}

// hasPrereq refuses a file whose prerequisite is not there, with its line. Any other reason is the SN's to give.
func hasPrereq(ctx context.Context, api Author, t *taskfile.Task) error {
	names, err := taskNames(ctx, api)
	if err != nil {
		return err
	}
	if missing := t.Missing(names); missing != nil {
		return exit.New(exit.NotFound, "see: swarmctl list tasks", "%w", missing)
	}
	return nil
}

// taskNames are those of all tasks, the root task among them.
func taskNames(ctx context.Context, api Author) (names []string, err error) {
	all, err := api.ListTasks(ctx)
	for _, x := range all {
		names = append(names, x.GetName())
	}
	return names, err
}

// writeBody writes a body in batches.
func writeBody(ctx context.Context, api Author, t *taskfile.Task) (made *swarmv1.Task, wrote []Batch, err error) {
	var batch strings.Builder
	next := Batch{From: 1}
	flush := func() (err error) {
		if next.Len == 0 {
			return nil
		}
		if made, err = api.EditTask(ctx, t.Name, next.From, batch.String()); err != nil {
			return err
		}
		wrote = append(wrote, next)
		batch.Reset()
		next = Batch{From: next.From + uint32(next.Len)} //nolint:gosec // a definition has at most 65,536 lines
		return nil
	}
	for line := range strings.Lines(string(t.Definition)) {
		if batch.Len()+len(line) > maxBatch {
			if err := flush(); err != nil {
				return nil, nil, err
			}
		}
		batch.WriteString(line)
		next.Len++
	}
	if err := flush(); err != nil {
		return nil, nil, err
	}
	return made, wrote, nil
}

// Finaliser reads tasks and fixes them.
type Finaliser interface {
	Reader
	FinaliseTask(ctx context.Context, name, digest string) (*swarmv1.Task, error)
}

// Finalise fixes a task as it was read, after its body was read too: what no host can carry out can't be mended any more.
func Finalise(ctx context.Context, api Finaliser, name string) (*swarmv1.Task, error) {
	t, err := Look(ctx, api, name)
	if err != nil {
		return nil, err
	}
	if len(t.Definition) > 0 { // the SN says what an empty one lacks
		if _, err := taskfile.ReadBody(t.GetType(), t.Definition); err != nil {
			return nil, exit.New(exit.Failed, "write the line again: swarmctl append task body "+name+" LINE-NUMBER LINE", "its body can't be carried out: %w", err)
		}
	}
	return api.FinaliseTask(ctx, name, t.Sum)
}
