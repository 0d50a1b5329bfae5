package jobs

import (
	"context"
	"fmt"
	"slices"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/jobrequest"
	"github.com/swarmd/swarmd/internal/pause"
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

// A task that is half written is looked at again after a pause, and written anew once it has stayed as it is for a while: whoever writes one writes on.
const (
	lookAgain = 500 * time.Millisecond
	leftAfter = 10 // looks at which it was the same
	maxLooks  = 120
)

// made has the swarm have the job's task with its whole body, and reports whether that is final. The same job has the same task: what somebody writes at
// this moment is waited for, and what somebody has left half written is written anew.
func (p *Plan) made(ctx context.Context, api client.Tasks) (final bool, err error) {
	before, same := "", 0
	for range maxLooks {
		sum, final, err := p.stands(ctx, api)
		switch {
		case err != nil:
			return false, err
		case sum == p.Request.GetDigest():
			return final, nil
		case final:
			return false, exit.New(exit.Conflict, "see who made it: swarmctl get task info "+p.Task.Name+"; then: swarmctl delete task "+p.Task.Name+" force", "it stands there already with another body")
		case sum == "":
			_, _, err := tasks.Register(ctx, api, p.Task)
			if err == nil {
				return false, nil
			}
			if sum, _, _ := p.stands(ctx, api); sum == "" { // else somebody else has made it at the same time
				return false, err
			}
		case sum != before:
			before, same = sum, 0
		case same < leftAfter:
			same++
		default:
			if err := api.DeleteTask(ctx, p.Task.Name, false); err != nil {
				return false, fmt.Errorf("remove the one that was left half written: %w", err)
			}
			continue
		}
		if err := pause.For(ctx, lookAgain); err != nil {
			return false, err
		}
	}
	return false, exit.New(exit.Conflict, "try again", "somebody else is writing it, and it is not done")
}

// stands is the digest of the job's task as it stands there, and whether that is final. It is empty if there is none.
func (p *Plan) stands(ctx context.Context, api client.Tasks) (sum string, final bool, err error) {
	all, err := api.ListTasks(ctx)
	if err != nil || !slices.ContainsFunc(all, func(t *swarmv1.Task) bool { return t.GetName() == p.Task.Name }) {
		return "", false, err
	}
	shown, err := tasks.Look(ctx, api, p.Task.Name)
	if err != nil {
		return "", false, err
	}
	return shown.Sum, shown.Final(), nil
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
