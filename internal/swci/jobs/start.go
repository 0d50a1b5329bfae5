package jobs

import (
	"context"
	"fmt"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/jobrequest"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/tasks"
)

// Start makes and finalises the job's task, or takes the one that is there, and assigns it as the plan has it.
func (p *Plan) Start(ctx context.Context, api client.Tasks) (*swarmv1.Assignment, error) {
	final, err := p.made(ctx, api)
	if err == nil && !final {
		_, err = api.FinaliseTask(ctx, p.Task.Name, p.Request.GetDigest())
	}
	if err != nil {
		return nil, fmt.Errorf("make task %s: %w", p.Task.Name, err)
	}
	return api.AssignTask(ctx, p.Request)
}

// made has the swarm have the job's task with its whole body, and reports whether that is final. The same job has the same task, so what somebody
// has left half written is written anew.
func (p *Plan) made(ctx context.Context, api client.Tasks) (final bool, err error) {
	all, err := api.ListTasks(ctx)
	if err != nil {
		return false, err
	}
	for _, t := range all {
		if t.GetName() != p.Task.Name {
			continue
		}
		shown, err := tasks.Look(ctx, api, p.Task.Name)
		switch {
		case err != nil:
			return false, err
		case shown.Sum == p.Request.GetDigest():
			return shown.Final(), nil
		case shown.Final():
			return false, exit.New(exit.Conflict, "see who made it: swarmctl get task info "+p.Task.Name+"; then: swarmctl delete task "+p.Task.Name+" force", "it stands there already with another body")
		}
		if err := api.DeleteTask(ctx, p.Task.Name, false); err != nil {
			return false, fmt.Errorf("remove the one that was left half written: %w", err)
		}
		break
	}
	_, _, err = tasks.Register(ctx, api, p.Task)
	return false, err
}

// pruneAfter is how old a job's task is, at least, that is deleted: whoever makes one assigns it soon.
const pruneAfter = 10 * time.Minute

// Prune deletes tasks of the job that whoever asked for an assignment has made before, if no assignment is known of them: each start with another
// source makes one. It returns their names.
func (p *Plan) Prune(ctx context.Context, api client.Tasks, a *swarmv1.Assignment) (deleted []string, err error) {
	kept, err := api.ListAssignments(ctx)
	if err != nil || kept.GetLeftOut() > 0 { // those that the answer leaves out may name any
		return nil, err
	}
	used := map[string]bool{p.Task.Name: true}
	for _, x := range kept.GetAssignments() {
		used[x.GetTask()] = true
	}
	all, err := api.ListTasks(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range all {
		fresh := a.GetCreatedUnixMs()-t.GetCreatedUnixMs() < pruneAfter.Milliseconds()
		if jobrequest.JobOf(t.GetName(), t.GetType()) != p.Job || used[t.GetName()] || t.GetBy() != a.GetBy() || fresh {
			continue
		}
		if err := api.DeleteTask(ctx, t.GetName(), true); err != nil {
			return deleted, err
		}
		deleted = append(deleted, t.GetName())
	}
	return deleted, nil
}
