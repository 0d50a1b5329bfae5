package containers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/launch/component"
	"github.com/swarmd/swarmd/internal/launch/container"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/internal/taskfile"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/hostpaths"
	"github.com/swarmd/swarmd/internal/work/localimage"
	"github.com/swarmd/swarmd/internal/work/ownimage"
)

// maxProbes bounds how many programs are tried at a time.
const maxProbes = 4

// Runner is the executor of RUN_SWARM. What has become of a member is told by its containers, which it finds by their labels. An SL's
// state, its key, stays in a volume of its own: an SL of the same name must have the same key.
type Runner struct {
	Profile *taskfile.Profile
	Node    string     // the host's name in the swarm: the SLs are named by it
	Host    start.Node // the host's own options: its address, and the identity of SLs of which the profile says none
	SNs     []string   // HOST[:PORT] of APIs
	Tasks   work.Tasks // for the tasks before, which make the image
	Open    func(ctx context.Context) (*engine.Engine, error)
	Own     *ownimage.Image    // that SLs are started from
	Paths   hostpaths.Resolver // of the engine's host
	Terms   policy.Terms       // of the host's owner, to which a member's programs are held together
	Env     start.Env
	// SessionTimeout is that of SLs of which the profile says none.
	SessionTimeout start.Limit
	// Keep leaves containers that have ended, until the next assignment.
	Keep bool
	Log  *slog.Logger

	known known
}

// known is what a runner remembers of members.
type known struct {
	mu    sync.Mutex
	whole map[work.Label]bool // members whose start has succeeded
	kept  map[work.Label]bool // members that have ended and whose containers stay
	ready map[string]bool     // containers with SLs that were seen to be ready
}

var _ work.Executor = (*Runner)(nil)

// scope is that of all containers.
func (r *Runner) scope() string { return engine.Scope(r.Env.Getenv) }

// Prepare sees that all can be started: it has a probe run in the image as the program will. What a start that was cut off has left it removes.
func (r *Runner) Prepare(ctx context.Context, j work.Job) error { return toldOf(r.prepare(ctx, j)) }

// toldOf is the error of a member's SLs for the swarm.
func toldOf(err error) error { return launch.ForTask(work.OfEngine(err)) }

func (r *Runner) prepare(ctx context.Context, j work.Job) error {
	if err := r.Clean(ctx, j.Label); err != nil {
		return err
	}
	return r.with(ctx, j, func(e *engine.Engine, parts []part) error {
		probes, ctx := errgroup.WithContext(ctx)
		probes.SetLimit(maxProbes)
		for _, p := range parts {
			probes.Go(func() error {
				if _, err := p.component(); err != nil {
					return err
				}
				ml, err := p.sl.MLContainer(r.Env)
				if err != nil {
					return err
				}
				return container.New(e, r.Log).Check(ctx, *ml)
			})
		}
		return probes.Wait()
	})
}

// Start starts the SLs, which start their programs. Those that a try before has started, of which it may not know, it leaves.
func (r *Runner) Start(ctx context.Context, j work.Job) (work.Status, error) {
	err := r.with(ctx, j, func(e *engine.Engine, parts []part) error {
		begun, err := r.begun(ctx, e, j.Label)
		if err != nil {
			return err
		}
		for _, p := range parts {
			s, err := p.component()
			if err != nil {
				return err
			}
			if begun[s.Name] {
				r.Log.InfoContext(ctx, "SL was started by a try before", "sl", s.Node, "container", s.Name, "task", j.Task.Name, "assignment", j.Assignment.ID)
				continue
			}
			if _, err := component.Run(ctx, e, s, component.IO{Stdout: io.Discard, Stderr: io.Discard, Log: r.Log, Getenv: r.Env.Getenv}); err != nil {
				return err
			}
			r.Log.InfoContext(ctx, "SL started for a task", "sl", s.Node, "container", s.Name, "task", j.Task.Name, "assignment", j.Assignment.ID)
		}
		return nil
	})
	if err != nil {
		return work.Status{}, toldOf(err)
	}
	r.note(&r.known.whole, j.Label)
	return work.Status{State: task.Started}, nil
}

func (r *Runner) note(in *map[work.Label]bool, l work.Label) {
	r.known.mu.Lock()
	defer r.known.mu.Unlock()
	if *in == nil {
		*in = map[work.Label]bool{}
	}
	(*in)[l] = true
}

// with opens the engine for a job's SLs.
func (r *Runner) with(ctx context.Context, j work.Job, do func(e *engine.Engine, parts []part) error) error {
	e, err := r.Open(ctx)
	if err != nil {
		return err
	}
	defer e.Close()
	run, err := programOf(j.Task)
	if err != nil {
		return err
	}
	image, err := localimage.Decided(ctx, e, j, "")
	if err != nil {
		return fmt.Errorf("task %s: %w", j.Task.Name, err)
	}
	sl, err := r.Own.ID(ctx, e)
	if err != nil {
		return err
	}
	if err := errors.Join(keepVolumes(ctx, e, run, j.Grant), r.keepIdentities(ctx, e, run)); err != nil {
		return fmt.Errorf("task %s: %w", j.Task.Name, err)
	}
	parts, err := r.parts(ctx, j, run, image)
	if err != nil {
		return fmt.Errorf("task %s: %w", j.Task.Name, err)
	}
	for i := range parts {
		parts[i].sl.Container.Image = sl
	}
	return do(e, parts)
}

// component is the SL's container, with the member's labels.
func (p part) component() (component.Spec, error) {
	s, err := p.sl.Component(p.env)
	s.Name, s.Assignment = p.sl.Container.Name, p.marks
	return s, err
}

// Clean ends SLs and programs of a member, and removes them.
func (r *Runner) Clean(ctx context.Context, l work.Label) error {
	e, err := r.Open(ctx)
	if err != nil {
		return err
	}
	defer e.Close()
	found, err := r.list(ctx, e)
	if err != nil {
		return err
	}
	errs := make(chan error, len(found[l]))
	for _, c := range found[l] {
		go func() { errs <- r.end(ctx, e, c) }()
	}
	var all []error
	for range found[l] {
		all = append(all, <-errs)
	}
	if err := errors.Join(all...); err != nil {
		return err
	}
	removed := found[l]
	delete(found, l)
	if err := r.sweep(ctx, e, removed, found); err != nil {
		return err
	}
	r.forget(l)
	return nil
}

func (r *Runner) forget(l work.Label) {
	r.known.mu.Lock()
	defer r.known.mu.Unlock()
	delete(r.known.whole, l)
	if r.Keep {
		if r.known.kept == nil {
			r.known.kept = map[work.Label]bool{}
		}
		r.known.kept[l] = true
	}
}
