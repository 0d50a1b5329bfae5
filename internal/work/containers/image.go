package containers

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/containerd/errdefs"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/internal/work"
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
	found, err := e.ImageInspect(ctx, before.Outcome)
	switch {
	case errdefs.IsNotFound(err):
		return nil, &engine.Error{
			Err:  fmt.Errorf("task %s needs image %.200s, and this host has none of that name", t.Name, before.Outcome),
			Help: fmt.Sprintf("assign task %s first, which makes it, to this host too", before.Name),
		}
	case err != nil:
		return nil, work.EngineFails(engine.Explain(fmt.Errorf("look for the outcome of task %s: %w", before.Name, err)))
	}
	return policy.NewImage(before.Outcome, found.ID, digestsOf(found.RepoDigests)...)
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

// digestsOf are the digests by which registries know an image, each once, from names with them.
func digestsOf(names []string) (all []string) {
	seen := map[string]bool{}
	for _, name := range names {
		if _, d, ok := strings.Cut(name, "@"); ok && !seen[d] {
			all, seen[d] = append(all, d), true
		}
	}
	return all
}

// decided is the ID of the image that was decided on, if the engine still has it.
func decided(ctx context.Context, e *engine.Engine, j work.Job) (string, error) {
	if j.Image == nil || j.Image.ID == "" {
		return "", errors.New("nobody has decided on its image")
	}
	found, err := e.ImageInspect(ctx, j.Image.ID)
	switch {
	case errdefs.IsNotFound(err):
		return "", &engine.Error{
			Err:  fmt.Errorf("this host no longer has the image that was decided on, %s", j.Image),
			Help: "assign the task anew, which looks for the image anew, once the task that makes it was carried out here again",
		}
	case err != nil:
		return "", engine.Explain(fmt.Errorf("look for image %s: %w", j.Image.Name, err))
	case found.ID != j.Image.ID: // an ID may be taken for the name of another image
		return "", fmt.Errorf("the engine has image %s in the place of the one that was decided on, %s", found.ID, j.Image)
	}
	return found.ID, nil
}
