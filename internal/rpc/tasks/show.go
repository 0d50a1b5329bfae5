package tasks

import (
	"maps"
	"slices"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/task"
)

// showTask shows a task without its definition.
func showTask(t *task.Task) *swarmv1.Task {
	return &swarmv1.Task{
		Name: t.Name, Type: t.Type, Author: t.Author, Prereq: t.Prereq, Outcome: t.Outcome, Status: t.Status(), Digest: t.Digest, By: t.By,
		CreatedUnixMs: t.CreatedMS, FinalisedUnixMs: t.FinalisedMS, Bytes: uint32(len(t.Definition)), //nolint:gosec // at most MaxDefinition
	}
}

// showTasks shows all tasks: the root task, then the others by name.
func showTasks(b *task.Board) []*swarmv1.Task {
	b = b.Whole()
	out := []*swarmv1.Task{showTask(b.Task(task.Root))}
	for _, name := range slices.Sorted(maps.Keys(b.Tasks)) {
		out = append(out, showTask(b.Tasks[name]))
	}
	return out
}

// showTaskrunner shows a taskrunner with the state of its last assignment; nil: there is none of the name.
func showTaskrunner(b *task.Board, name string) *swarmv1.Taskrunner {
	r := b.Taskrunner(name)
	if r == nil {
		return nil
	}
	return &swarmv1.Taskrunner{Name: r.Name, Status: b.AssignmentOf(name).Status(), CreatedUnixMs: r.CreatedMS}
}

// showTaskrunners shows all taskrunners: the default one, then the others by name.
func showTaskrunners(b *task.Board) []*swarmv1.Taskrunner {
	b = b.Whole()
	out := []*swarmv1.Taskrunner{showTaskrunner(b, task.DefaultTaskrunner)}
	for _, name := range slices.Sorted(maps.Keys(b.Taskrunners)) {
		if name != task.DefaultTaskrunner {
			out = append(out, showTaskrunner(b, name))
		}
	}
	return out
}
