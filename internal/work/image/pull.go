package image

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/distribution/reference"
	"github.com/docker/docker/api/types/image"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/taskfile"
	"github.com/swarmd/swarmd/internal/work"
)

// Puller is the executor of PULL_IMAGE. All of its work is done in Start, and may be done again. What was fetched in part the engine removes
// by itself.
type Puller struct {
	// Open reaches the engine.
	Open func(ctx context.Context) (*engine.Engine, error)
	// UsrDir is the directory that the host's owner gave to SWOP. A config.json in it has passwords for registries, which tasks may use.
	UsrDir string
	// Own are images that the host starts its components from, beside those of `make image`; an empty one is none.
	Own []string
	Log *slog.Logger
}

// order is what a task asks for.
type order struct {
	name    string          // of the image, as the task has it
	source  reference.Named // with a tag or a digest
	outcome reference.Named // with a tag
	auth    taskfile.Auth
}

// orderOf reads a task. Neither what it fetches nor its outcome may have the name of an image that this host itself starts: whoever may have
// images fetched would else have its SLs, and the next SWOP with the engine's socket, run code of another.
func (p *Puller) orderOf(t *task.Task) (order, error) {
	o, err := orderIn(t)
	if err != nil {
		return o, err
	}
	for _, n := range []reference.Named{o.source, o.outcome} {
		if p.Starts(n) {
			return o, fmt.Errorf("task %s: this host starts its own components, or programs without tasks, from images named %s: give the image another name", t.Name, reference.FamiliarName(n))
		}
	}
	return o, nil
}

// Starts reports whether the host starts images of a name, whatever the tag, without a task.
func (p *Puller) Starts(n reference.Named) bool {
	for _, image := range append([]string{engine.ImageSwarmd, engine.ImagePYT, engine.ImageTF, engine.ImageTFLegacy}, p.Own...) {
		if m, err := imageNamed(image); err == nil && m.Name() == n.Name() {
			return true
		}
	}
	return false
}

// orderIn reads a task.
func orderIn(t *task.Task) (o order, err error) {
	body, err := taskfile.ReadBody(t.Type, t.Definition)
	if err != nil {
		return o, fmt.Errorf("task %s: %w", t.Name, err)
	}
	pull, ok := body.(taskfile.PullImage)
	if !ok {
		return o, fmt.Errorf("task %s is no %s", t.Name, task.PullImage)
	}
	o.name, o.auth = pull.Image(), pull.Auth
	if o.source, err = imageNamed(o.name); err != nil {
		return o, fmt.Errorf("task %s: bad image name %.200q: %w: correct OrgAndReg, RepoName or Tag", t.Name, o.name, err)
	}
	if o.outcome, err = imageNamed(t.Outcome); err != nil {
		return o, fmt.Errorf("task %s: bad Outcome %.200q: %w: give it the name of an image", t.Name, t.Outcome, err)
	}
	if _, digested := o.outcome.(reference.Digested); digested {
		return o, fmt.Errorf("task %s: bad Outcome %.200q: a digest can't be given to an image: give it a name with a tag", t.Name, t.Outcome)
	}
	return o, nil
}

// imageNamed reads the name of an image. Without a tag and a digest it means the latest one.
func imageNamed(name string) (reference.Named, error) {
	n, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return nil, err
	}
	return reference.TagNameOnly(n), nil
}

// Prepare sees that the task can be understood, that an engine answers, and that its password may be used here.
func (p *Puller) Prepare(ctx context.Context, j work.Job) error {
	return work.OfEngine(p.prepare(ctx, j))
}

func (p *Puller) prepare(ctx context.Context, j work.Job) error {
	o, err := p.orderOf(j.Task)
	if err != nil {
		return err
	}
	if _, err := p.login(o); err != nil {
		return err
	}
	e, err := p.Open(ctx)
	if err != nil {
		return err
	}
	return e.Close()
}

// Start fetches the image that was decided on, whatever its tag stands for by now, and gives it the name that the task says.
func (p *Puller) Start(ctx context.Context, j work.Job) (work.Status, error) {
	s, err := p.fetch(ctx, j)
	return s, work.OfEngine(err)
}

func (p *Puller) fetch(ctx context.Context, j work.Job) (work.Status, error) {
	o, err := p.orderOf(j.Task)
	if err != nil {
		return work.Status{}, err
	}
	login, err := p.login(o)
	if err != nil {
		return work.Status{}, err
	}
	if o.source, err = o.decided(j.Image); err != nil {
		return work.Status{}, fmt.Errorf("task %s: %w", j.Task.Name, err)
	}
	e, err := p.Open(ctx)
	if err != nil {
		return work.Status{}, err
	}
	defer e.Close()
	from, to := reference.FamiliarString(o.source), reference.FamiliarString(o.outcome)
	p.Log.InfoContext(ctx, "fetching an image", "image", from, "assignment", j.Assignment.ID, "task", j.Task.Name)
	stream, err := e.ImagePull(ctx, from, image.PullOptions{RegistryAuth: login})
	if err != nil {
		return work.Status{}, o.unfetched("fetch image", err)
	}
	defer stream.Close()
	if err := drain(ctx, stream, progress{log: p.Log.With("image", from)}); err != nil {
		return work.Status{}, o.unfetched("fetch image", err)
	}
	if err := e.ImageTag(ctx, from, to); err != nil {
		return work.Status{}, engine.Explain(fmt.Errorf("name image %s: %w", to, err))
	}
	got, err := e.ImageInspect(ctx, to)
	if err != nil {
		return work.Status{}, engine.Explain(fmt.Errorf("look at image %s: %w", to, err))
	}
	p.Log.InfoContext(ctx, "image is there", "image", to, "id", got.ID, "bytes", got.Size)
	return work.Status{State: task.Exited, Text: fmt.Sprintf("image %s is there: %s", to, got.ID)}, nil
}

// Find finds nothing: an image is the task's outcome, not what is left of it.
func (p *Puller) Find(context.Context) ([]work.Found, error) { return nil, nil }

// Clean has nothing to do: what was fetched in part the engine has removed, and the outcome stays.
func (p *Puller) Clean(context.Context, work.Label) error { return nil }
