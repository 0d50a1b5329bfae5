package containers

import (
	"context"
	"fmt"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/localimage"
)

// maxPrereqs bounds the tasks from which a task has its image.
const maxPrereqs = 16

// Image finds the image of a task's program at the engine, by the outcome of the task before it that makes one. What is found runs, whatever
// the name stands for later.
func (r *Runner) Image(ctx context.Context, t *task.Task) (*policy.Image, error) {
	before, err := r.maker(ctx, t)
	if err != nil {
		return nil, err
	}
	e, err := r.Open(ctx)
	if err != nil {
		return nil, work.EngineFails(err)
	}
	defer e.Close()
	return localimage.OfName(ctx, e, before.Outcome, &engine.Error{
		Err:  fmt.Errorf("task %s needs image %.200s, and this host has none of that name", t.Name, before.Outcome),
		Help: fmt.Sprintf("assign task %s first, which makes it, to this host too", before.Name),
	})
}

// maker returns the task before another that makes its image, as it was when the other one was finalised.
func (r *Runner) maker(ctx context.Context, t *task.Task) (*task.Task, error) {
	name, digest := t.Prereq, t.PrereqDigest
	for range maxPrereqs {
		if name == task.Root {
			return nil, fmt.Errorf("task %s has no image: name a task of type PULL_IMAGE as its Prereq", t.Name)
		}
		before, err := r.Tasks.Task(ctx, name)
		if err != nil {
			return nil, &work.Passing{Words: fmt.Sprintf("task %s, which task %s needs, could not be fetched from the swarm: see that it is there (swarmctl list tasks)", name, t.Name), Err: err}
		}
		if before == nil || before.Name != name || before.Digest != before.Sum() || before.Digest != digest {
			return nil, fmt.Errorf("what was fetched as task %s, which task %s needs, has not the digest that task %s was finalised with: it was changed on the way", name, t.Name, t.Name)
		}
		if before.Type == task.PullImage || before.Type == task.MakeUserContainer {
			return before, nil
		}
		name, digest = before.Prereq, before.PrereqDigest
	}
	return nil, fmt.Errorf("task %s has its image from too far: more than %d tasks stand before it", t.Name, maxPrereqs)
}
