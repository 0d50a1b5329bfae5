package build

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/docker/docker/api/types/image"
	"golang.org/x/sync/semaphore"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/internal/space"
	"github.com/swarmd/swarmd/internal/taskfile"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/volume"
)

// Images are those of the host's engine.
type Images interface {
	// Fetch has the engine fetch an image by name.
	Fetch(ctx context.Context, e *engine.Engine, name string) error
	// Starts reports whether the host starts images of a name, whatever the tag, without a task.
	Starts(n reference.Named) bool
}

// Config is what a Builder works with.
type Config struct {
	// Open reaches the engine.
	Open func(ctx context.Context) (*engine.Engine, error)
	Node string // the host's name in the swarm
	// Scope is that of all containers.
	Scope   string
	Proxies []taskfile.Var // that builds have, as arguments
	Terms   policy.Terms   // of the host's owner
	// Fetches reports whether the owner lets an image be fetched for a job.
	Fetches func(j work.Job, image string) bool
	Images  Images
	Log     *slog.Logger
}

// Builder is the executor of MAKE_USER_CONTAINER. All of its work is done in Start, and may be done again: engines keep the steps that are
// done, and end a build when whoever asked for it is gone. It builds one image at a time.
type Builder struct {
	cfg      Config
	one      *semaphore.Weighted // who builds or sweeps
	building atomic.Bool
	room     volume.Room
}

var _ work.Executor = (*Builder)(nil)

// New returns a builder.
func New(cfg Config) *Builder {
	return &Builder{cfg: cfg, one: semaphore.NewWeighted(1), room: volume.Room{Free: space.Free}}
}

// Prepare sees that the task can be understood, that what it builds on is there or may be fetched, and that there is room.
func (b *Builder) Prepare(ctx context.Context, j work.Job) error {
	o, err := b.order(j.Task)
	if err != nil {
		return err
	}
	return b.with(ctx, func(e *engine.Engine) error {
		for _, base := range o.file.Bases() {
			if _, err := b.base(ctx, e, j, base); err != nil {
				return err
			}
		}
		if err := o.checkVolume(ctx, e, j); err != nil {
			return err
		}
		return b.room.Check(ctx, e)
	})
}

func (b *Builder) with(ctx context.Context, do func(e *engine.Engine) error) error {
	e, err := b.cfg.Open(ctx)
	if err != nil {
		return work.OfEngine(err)
	}
	defer e.Close()
	return work.OfEngine(do(e))
}

// base returns the ID of an image that a build starts from; empty: it is not there, and may be fetched.
func (b *Builder) base(ctx context.Context, e *engine.Engine, j work.Job, name string) (string, error) {
	found, err := e.ImageInspect(ctx, name)
	switch {
	case errdefs.IsNotFound(err) && b.cfg.Fetches(j, name):
		return "", nil
	case errdefs.IsNotFound(err):
		return "", &engine.Error{
			Err:  fmt.Errorf("task %s starts from image %.200s, which is not on this host, whose owner lets no build fetch it", j.Task.Name, name),
			Help: "assign a task PULL_IMAGE for it first, or allow that in the host's policy",
		}
	case err != nil:
		return "", engine.Explain(fmt.Errorf("task %s: look at image %.200s: %w", j.Task.Name, name, err))
	}
	if found.Config != nil {
		if err := b.held(found.Config.OnBuild); err != nil {
			return "", fmt.Errorf("image %.200s has a step for builds from it: %w", name, err)
		}
	}
	return found.ID, usable(name, found)
}

// Start builds the image, unless that was done, and gives it its name. A volume that a try before has left open it closes first.
func (b *Builder) Start(ctx context.Context, j work.Job) (s work.Status, err error) {
	if err := b.one.Acquire(ctx, 1); err != nil {
		return s, err
	}
	defer b.one.Release(1)
	b.building.Store(true)
	defer b.building.Store(false)
	o, err := b.order(j.Task)
	if err != nil {
		return s, err
	}
	err = b.with(ctx, func(e *engine.Engine) error {
		defer b.swept(ctx, e)
		id, err := b.built(ctx, e, j)
		if err == nil && id == "" {
			if err := volume.Remove(ctx, e, volume.Labels(j.Label, engine.RoleBuild, b.cfg.Scope)); err != nil {
				return err
			}
			if s, err = b.build(ctx, e, o, j); err != nil || s.Code != 0 {
				return err
			}
			id, err = b.built(ctx, e, j)
		}
		if err != nil {
			return err
		}
		s, err = b.name(ctx, e, o, j, id)
		return err
	})
	return s, err
}

// built finds the image that was built for a job; empty: there is none.
func (b *Builder) built(ctx context.Context, e *engine.Engine, j work.Job) (string, error) {
	all, err := e.ImageList(ctx, image.ListOptions{Filters: volume.Filtered(b.outcomeLabels(j))})
	if err != nil {
		return "", engine.Explain(fmt.Errorf("look for the image of task %s: %w", j.Task.Name, err))
	}
	if len(all) == 0 {
		return "", nil
	}
	return all[0].ID, nil
}

// name gives what was built the name that the task has for it. What had the name goes, if a task made it and nothing else needs it.
func (b *Builder) name(ctx context.Context, e *engine.Engine, o *order, j work.Job, id string) (work.Status, error) {
	if id == "" {
		return work.Status{}, fmt.Errorf("task %s was built, and its image is gone: assign it again", j.Task.Name)
	}
	if found, err := e.ImageInspect(ctx, id); err != nil {
		return work.Status{}, engine.Explain(fmt.Errorf("look at the image of task %s: %w", j.Task.Name, err))
	} else if err := usable(o.outcome, found); err != nil {
		return work.Status{}, err
	}
	before, err := e.ImageInspect(ctx, o.outcome)
	if err != nil && !errdefs.IsNotFound(err) {
		return work.Status{}, engine.Explain(fmt.Errorf("look at image %s: %w", o.outcome, err))
	}
	if err := e.ImageTag(ctx, id, o.outcome); err != nil {
		return work.Status{}, engine.Explain(fmt.Errorf("name image %s: %w", o.outcome, err))
	}
	if before.ID != "" && before.ID != id && before.Config != nil && before.Config.Labels[engine.LabelTask] != "" {
		_, _ = e.ImageRemove(ctx, before.ID, image.RemoveOptions{PruneChildren: true}) // it stays where a container needs it, or another name
	}
	b.cfg.Log.InfoContext(ctx, "image is built", "image", o.outcome, "id", id, "assignment", j.Assignment.ID, "task", j.Task.Name)
	return work.Status{State: task.Exited, Text: fmt.Sprintf("image %s is built: %s", o.outcome, id)}, nil
}

// Find finds members for whose builds a volume is open. Steps that run belong to a process that waits for them; those of none are removed:
// an engine may have made one after its build was cut off, or have been killed with it.
func (b *Builder) Find(ctx context.Context) (all []work.Found, err error) {
	err = b.with(ctx, func(e *engine.Engine) error {
		if b.one.TryAcquire(1) {
			defer b.one.Release(1)
			if _, err := b.sweepOnce(ctx, e); err != nil {
				return err
			}
		}
		labels, err := volume.Opened(ctx, e, engine.RoleBuild, b.cfg.Scope, b.cfg.Node)
		for _, l := range labels {
			all = append(all, work.Found{Label: l, Status: work.Status{State: task.Prepared}})
		}
		return err
	})
	return all, err
}

// Clean removes what a build has left that was cut off. The outcome stays.
func (b *Builder) Clean(ctx context.Context, l work.Label) error {
	return b.with(ctx, func(e *engine.Engine) error {
		if err := volume.Remove(ctx, e, volume.Labels(l, engine.RoleBuild, b.cfg.Scope)); err != nil {
			return err
		}
		if b.building.Load() {
			return nil // another member's, which sweeps
		}
		if err := b.one.Acquire(ctx, 1); err != nil {
			return err
		}
		defer b.one.Release(1)
		return b.sweep(ctx, e)
	})
}

// swept is sweep after a build, also when ctx has ended. What it can't remove Clean does, or says.
func (b *Builder) swept(ctx context.Context, e *engine.Engine) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sweepLimit)
	defer cancel()
	if err := b.sweep(ctx, e); err != nil {
		b.cfg.Log.WarnContext(ctx, "could not remove yet what is left of a build", "err", err)
	}
}

const sweepLimit = 30 * time.Second
