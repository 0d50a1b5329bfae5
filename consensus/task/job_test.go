package task_test

import (
	"math"
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
