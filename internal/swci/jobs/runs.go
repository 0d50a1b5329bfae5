package jobs

import (
	"context"
	"fmt"
	"slices"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/jobrequest"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/tasks"
	"github.com/swarmd/swarmd/internal/text"
)

// Assignments shows what was assigned.
type Assignments interface {
	ListAssignments(ctx context.Context) (*swarmv1.ListAssignmentsResponse, error)
	GetAssignment(ctx context.Context, id string) (*swarmv1.Assignment, error)
}

// Whose is the job that an assignment runs; empty: it is no job.
func Whose(a *swarmv1.Assignment) string { return jobrequest.JobOf(a.GetTask(), a.GetTaskType()) }

// Runs are the assignments that are known of a job, or of all jobs if it is empty, those first that were made first, without members. Those that are
// left out ended before.
func Runs(ctx context.Context, api Assignments, job string) (all []*swarmv1.Assignment, leftOut uint32, err error) {
	listed, err := api.ListAssignments(ctx)
	if err != nil {
		return nil, 0, err
	}
	for _, a := range listed.GetAssignments() {
		if of := Whose(a); of != "" && (job == "" || of == job) {
			all = append(all, a)
		}
	}
	return all, listed.GetLeftOut(), nil
}

// Run is an assignment of a job with its members: that of an ID, or the last one. others is how many of those before the last one are not over.
func Run(ctx context.Context, api Assignments, job, id string) (a *swarmv1.Assignment, others int, err error) {
	if id == "" {
		all, _, err := Runs(ctx, api, job)
		if err != nil {
			return nil, 0, err
		}
		if len(all) == 0 {
			return nil, 0, noRun(job)
		}
		for _, a := range all[:len(all)-1] {
			if !tasks.Over(a) {
				others++
			}
		}
		id = all[len(all)-1].GetId()
	}
	a, err = api.GetAssignment(ctx, id)
	if err == nil && Whose(a) != job {
		err = exit.New(exit.NotFound, "see: swarmctl list jobs", "assignment %s is of task %s, not of job %s", text.Line(id), text.Line(a.GetTask()), job)
	}
	return a, others, err
}

func noRun(job string) error {
	return exit.New(exit.NotFound, "see: swarmctl list jobs", "no job of the name %s was started, or it ended too long ago", job)
}

// Canceller ends assignments.
type Canceller interface {
	Assignments
	CancelAssignment(ctx context.Context, id, reason string) (*swarmv1.Assignment, error)
}

// Cancel ends the runs of a job that have no verdict, or that of an ID, and returns those that it has ended, also where others could not be. A job of
// which none is open is an error that says how its last run ended, and so is one of which several operators have started runs: which is meant is to be
// said.
func Cancel(ctx context.Context, api Canceller, job, id, why string) (ended []*swarmv1.Assignment, err error) {
	all, _, err := Runs(ctx, api, job)
	if err != nil {
		return nil, err
	}
	if id != "" {
		all = slices.DeleteFunc(all, func(a *swarmv1.Assignment) bool { return a.GetId() != id })
	}
	if len(all) == 0 {
		return nil, noRun(job)
	}
	last := all[len(all)-1]
	open := slices.DeleteFunc(all, func(a *swarmv1.Assignment) bool { return a.GetVerdict() != "" })
	if len(open) == 0 {
		return nil, exit.New(exit.Conflict, "see: swarmctl get job status "+job, "it has ended already: assignment %s %s", text.Line(last.GetId()), text.Line(last.GetVerdict()))
	}
	if err := ofOne(job, open); err != nil {
		return nil, err
	}
	failed := 0
	for _, a := range open {
		x, failure := api.CancelAssignment(ctx, a.GetId(), why)
		switch {
		case failure == nil:
			ended = append(ended, x)
		case failed == 0:
			err = fmt.Errorf("assignment %s: %w", text.Line(a.GetId()), failure)
			failed++
		default:
			failed++
		}
	}
	if failed > 1 {
		err = fmt.Errorf("%w (and %d more could not be ended)", err, failed-1)
	}
	return ended, err
}

// ofOne refuses runs that several operators have started.
func ofOne(job string, runs []*swarmv1.Assignment) error {
	var whose []string
	same := true
	for _, a := range runs {
		same = same && a.GetBy() == runs[0].GetBy()
		whose = append(whose, fmt.Sprintf("%s of %s", text.Line(a.GetId()), text.Line(a.GetBy())))
	}
	if same {
		return nil
	}
	return exit.New(exit.Conflict, "name one: swarmctl cancel job "+job+" --assignment ID", "several operators have started it, and nothing was ended: assignments %s", text.Names(whose))
}
