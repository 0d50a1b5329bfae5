package build

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/distribution/reference"
	"github.com/docker/docker/api/types/image"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/dockerfile"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/taskfile"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/volume"
)

// order is what a task asks for.
type order struct {
	file    *dockerfile.File
	volume  string // whose files are there during the build; empty: none
	outcome string // name of the image, with a tag
}

// order reads a task. Its outcome may not have the name of an image that this host starts by itself.
func (b *Builder) order(t *task.Task) (*order, error) {
	body, err := taskfile.ReadBody(t.Type, t.Definition)
	if err != nil {
		return nil, fmt.Errorf("task %s: %w", t.Name, err)
	}
	steps, ok := body.(taskfile.MakeUserContainer)
	if !ok {
		return nil, fmt.Errorf("task %s is no %s", t.Name, task.MakeUserContainer)
	}
	file, err := dockerfile.Read(steps.Dockerfile())
	if err != nil {
		return nil, fmt.Errorf("task %s: BuildSteps: %w", t.Name, err)
	}
	if err := b.held(file.Triggers()); err != nil {
		return nil, fmt.Errorf("task %s: BuildSteps: %w", t.Name, err)
	}
	named, err := reference.ParseNormalizedNamed(t.Outcome)
	if err != nil {
		return nil, fmt.Errorf("task %s: bad Outcome %.200q: %w: give it the name of an image", t.Name, t.Outcome, err)
	}
	if _, digested := named.(reference.Digested); digested {
		return nil, fmt.Errorf("task %s: bad Outcome %.200q: a digest can't be given to an image: give it a name with a tag", t.Name, t.Outcome)
	}
	if b.cfg.Images.Starts(named) {
		return nil, fmt.Errorf("task %s: this host starts its own components, or programs without tasks, from images named %s: give Outcome another name", t.Name, reference.FamiliarName(named))
	}
	if strings.ContainsAny(steps.BuildContext, "/:") {
		return nil, fmt.Errorf("task %s: BuildContext %.200q is no name of a volume: a directory of the host can't be one", t.Name, steps.BuildContext)
	}
	return &order{file: file, volume: steps.BuildContext, outcome: reference.FamiliarString(reference.TagNameOnly(named))}, nil
}

// checkVolume refuses a context that the task may not have.
func (o *order) checkVolume(ctx context.Context, e *engine.Engine, j work.Job) error {
	if o.volume == "" {
		return nil
	}
	if err := volume.Check(ctx, e, o.volume, j.Grant.Volumes); err != nil {
		return fmt.Errorf("task %s: BuildContext: %w", j.Task.Name, err)
	}
	return nil
}

// usable refuses an image that has done in a build from it what no task may do, or that bears labels of the host's own containers.
func usable(name string, i image.InspectResponse) error {
	if i.Config == nil {
		return nil
	}
	if role := i.Config.Labels[engine.LabelRole]; role != "" {
		return fmt.Errorf("image %.200s bears the label %s=%.80s, which is for this host's own containers: build it without", name, engine.LabelRole, role)
	}
	for _, trigger := range i.Config.OnBuild {
		if err := dockerfile.CheckTrigger(trigger); err != nil {
			return fmt.Errorf("image %.200s has a step for builds from it: %w", name, err)
		}
	}
	return nil
}

// held refuses steps that an image has done in builds from it where they could have GPUs that the owner does not give: they run before any
// step of the build.
func (b *Builder) held(triggers []string) error {
	if b.cfg.Terms.NoGPUs && slices.ContainsFunc(triggers, dockerfile.Runs) {
		return errors.New("ONBUILD RUN can't be held to no GPUs: leave it out, or take gpus out of limits in the host's policy")
	}
	return nil
}

// outcomeLabels are those of the image that is built for a job.
func (b *Builder) outcomeLabels(j work.Job) map[string]string {
	labels := volume.Labels(j.Label, "", b.cfg.Scope)
	delete(labels, engine.LabelRole)
	labels[engine.LabelTask], labels[engine.LabelBuild] = j.Task.Digest, ""
	return labels
}
