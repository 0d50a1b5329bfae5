package content

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/containerd/errdefs"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/internal/space"
	"github.com/swarmd/swarmd/internal/taskfile"
	"github.com/swarmd/swarmd/internal/unpack"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/volume"
)

// Bounds of what a task makes.
const (
	fillLimit  = 2 * time.Hour // of all, unless the owner gives less: the original's operators wait as long
	maxEntries = 1 << 18
	maxBytes   = 32 << 30
)

// Config is what a Filler works with.
type Config struct {
	// Open reaches the engine.
	Open func(ctx context.Context) (*engine.Engine, error)
	Node string // the host's name in the swarm
	// Scope is that of all containers.
	Scope   string
	Dir     string         // where files are kept until all are there
	Nodes   []int          // indexes of the profile's nodes
	Proxies []taskfile.Var // by which files are fetched
	Terms   policy.Terms   // of the host's owner
	Log     *slog.Logger
}

// Filler is the executor of MAKE_SWARM_USER_CONTENT. All of its work is done in Start, and may be done again. A volume is open while it is
// filled, so that it is found if its host ends meanwhile, and marked as filled in part.
type Filler struct {
	cfg  Config
	room volume.Room
}

var _ work.Executor = (*Filler)(nil)

// New returns a filler.
func New(cfg Config) *Filler {
	return &Filler{cfg: cfg, room: volume.Room{Free: space.Free, Dir: cfg.Dir}}
}

func (f *Filler) with(ctx context.Context, do func(e *engine.Engine) error) error {
	e, err := f.cfg.Open(ctx)
	if err != nil {
		return work.OfEngine(err)
	}
	defer e.Close()
	return do(e)
}

// Prepare sees that the task can be understood, that its volumes may be filled, and that there is room.
func (f *Filler) Prepare(ctx context.Context, j work.Job) error {
	o, err := f.order(j.Task)
	if err != nil {
		return err
	}
	return f.with(ctx, func(e *engine.Engine) error {
		if err := f.may(ctx, e, o, j); err != nil {
			return work.OfEngine(fmt.Errorf("task %s: %w", j.Task.Name, err))
		}
		return work.OfEngine(f.room.Check(ctx, e))
	})
}

// may refuses volumes that are not for tasks to fill, or that another member has not filled yet.
func (f *Filler) may(ctx context.Context, e *engine.Engine, o *order, j work.Job) error {
	named := j.Grant.Volumes
	for _, name := range o.volumes {
		v, err := e.VolumeInspect(ctx, name)
		switch {
		case errdefs.IsNotFound(err):
		case err != nil:
			return engine.Explain(fmt.Errorf("look at volume %.200s: %w", name, err))
		case v.Labels[engine.LabelTask] == "" && (o.own || !slices.Contains(named, name)):
			return &engine.Error{Err: fmt.Errorf("there is a volume %.200s already, and no task made it", name), Help: "give the task another Outcome, or remove that volume"}
		default:
			if err := volume.CheckFor(ctx, e, name, named, j.Label); err != nil {
				return err
			}
		}
	}
	return nil
}

// Start makes the content. What a try before has left, as the engine went away, it removes first: a volume that is open may be filled in part.
func (f *Filler) Start(ctx context.Context, j work.Job) (s work.Status, err error) {
	o, err := f.order(j.Task)
	if err != nil {
		return s, err
	}
	limit := fillLimit
	if h := time.Duration(f.cfg.Terms.Hours * float64(time.Hour)); h > 0 {
		limit = min(limit, h)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ctx, stop := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the content of task %s was not there after %v: make it smaller, or raise hours under limits in the host's policy", j.Task.Name, limit))
	defer stop()
	err = f.with(ctx, func(e *engine.Engine) error {
		go f.room.Watch(ctx, e, cancel)
		if err := volume.Discard(ctx, e, volume.Labels(j.Label, engine.RoleContent, f.cfg.Scope)); err != nil {
			return work.OfEngine(err)
		}
		if err := f.may(ctx, e, o, j); err != nil {
			return work.OfEngine(fmt.Errorf("task %s: %w", j.Task.Name, err))
		}
		s, err = f.fill(ctx, e, o, j)
		return err
	})
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return s, err
}

// fill makes all files, and then gives them to the volumes.
func (f *Filler) fill(ctx context.Context, e *engine.Engine, o *order, j work.Job) (s work.Status, err error) {
	dir := f.dir(j.Label)
	if err := os.RemoveAll(dir); err != nil {
		return s, fmt.Errorf("make room for files: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return s, fmt.Errorf("make room for files: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // Clean tries again
	root, err := os.OpenRoot(dir)
	if err != nil {
		return s, fmt.Errorf("make room for files: %w", err)
	}
	defer root.Close()
	left := unpack.Budget{Entries: maxEntries, Bytes: maxBytes}
	w := newWeb(f.cfg.Proxies, f.cfg.Terms.Host)
	for i, x := range o.ops {
		if err := f.do(ctx, w, root, x, j, &left); err != nil {
			return s, fmt.Errorf("task %s: OpsList[%d]: %w", j.Task.Name, i, err)
		}
	}
	if err := f.put(ctx, e, root, o, j); err != nil { // a server of files that does not answer is no engine
		return s, work.OfEngine(err)
	}
	text := fmt.Sprintf("volume %s is filled: %d files, %d bytes", o.volumes[0], maxEntries-left.Entries, maxBytes-left.Bytes)
	if n := len(o.volumes); n > 1 {
		text = fmt.Sprintf("%d volumes, %s to %s, are filled: %d files, %d bytes each", n, o.volumes[0], o.volumes[n-1], maxEntries-left.Entries, maxBytes-left.Bytes)
	}
	return work.Status{State: task.Exited, Text: text}, nil
}

// dir is where the files of a member are kept until all are there.
func (f *Filler) dir(l work.Label) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %d %d", l.Swarm, l.Node, l.Assignment, l.Epoch, l.Member))
	return filepath.Join(f.cfg.Dir, hex.EncodeToString(sum[:8]))
}

func (f *Filler) labels(j work.Job) map[string]string {
	labels := volume.Labels(j.Label, engine.RoleContent, f.cfg.Scope)
	labels[engine.LabelTask] = j.Task.Digest
	return labels
}

// Find finds members whose volumes are open.
func (f *Filler) Find(ctx context.Context) (all []work.Found, err error) {
	err = f.with(ctx, func(e *engine.Engine) error {
		labels, err := volume.Opened(ctx, e, engine.RoleContent, f.cfg.Scope, f.cfg.Node)
		for _, l := range labels {
			all = append(all, work.Found{Label: l, Status: work.Status{State: task.Prepared}})
		}
		return err
	})
	return all, err
}

// Clean removes what was cut off: files, and volumes that are open still. Those that are filled stay.
func (f *Filler) Clean(ctx context.Context, l work.Label) error {
	if err := os.RemoveAll(f.dir(l)); err != nil {
		return fmt.Errorf("remove files of a task: %w", err)
	}
	return f.with(ctx, func(e *engine.Engine) error {
		return volume.Discard(ctx, e, volume.Labels(l, engine.RoleContent, f.cfg.Scope))
	})
}
