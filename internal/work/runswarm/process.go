package runswarm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/health"
	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/registry"
	"github.com/swarmd/swarmd/internal/taskfile"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/detached"
	"github.com/swarmd/swarmd/internal/work/hostpaths"
	"github.com/swarmd/swarmd/internal/work/taskenv"
)

// Processes starts SLs and their programs as processes of this host, which outlive this one. What has become of them is in the registry of
// components and in files of their own.
type Processes struct {
	Host    Host
	SwarmID func() string
	// Dir keeps what there is of members, and the SLs' keys, which stay: an SL of the same name must have the same one.
	Dir    string
	Swarmd string // the binary
	Scope  string // of the components
	Getenv func(string) string
	Paths  hostpaths.Resolver // of this host
	Log    *slog.Logger

	children detached.Children

	mu   sync.Mutex
	told []string // directories of members with a damaged label that the log has
}

var _ work.Executor = (*Processes)(nil)

// Prepare implements work.Executor: it finds what is wrong with the task on this host.
func (p *Processes) Prepare(ctx context.Context, j work.Job) error {
	return launch.ForTask(p.prepare(ctx, j))
}

func (p *Processes) prepare(ctx context.Context, j work.Job) error {
	r, leads, err := p.body(ctx, j)
	if err != nil {
		return err
	}
	for i := range p.Host.Profile.Nodes {
		n := &p.Host.Profile.Nodes[i]
		x, err := p.Host.process(n, r, leads, p.stateDir(n.Index))
		if err != nil {
			return err
		}
		if err := launch.CheckProgram(x.sl.ModelDir, x.sl.DataDir, x.sl.Program); err != nil {
			return err
		}
		if err := x.findPython(ctx, p.Getenv); err != nil {
			return err
		}
	}
	return nil
}

// body reads the task of a job, and where the paths lead now that it names.
func (p *Processes) body(ctx context.Context, j work.Job) (r taskfile.RunSwarm, leads map[string]string, err error) {
	b, err := taskfile.ReadBody(j.Task.Type, j.Task.Definition)
	if err != nil {
		return r, nil, fmt.Errorf("task %s: %w", j.Task.Name, err)
	}
	r, ok := b.(taskfile.RunSwarm)
	if !ok {
		return r, nil, fmt.Errorf("task %s is of the type %s", j.Task.Name, b.Type())
	}
	if err := taskenv.Check(r.Env, true); err != nil {
		return r, nil, err
	}
	leads, err = hostpaths.Bindable(ctx, p.Paths, j.Grant.Paths, nil)
	return r, leads, err
}

// Start implements work.Executor. SLs that a start which was cut off has left are not started again.
func (p *Processes) Start(ctx context.Context, j work.Job) (work.Status, error) {
	r, leads, err := p.body(ctx, j)
	if err != nil {
		return work.Status{}, err
	}
	m := member{dir: p.memberDir(j.Label), Label: j.Label}
	sls := make([]process, len(p.Host.Profile.Nodes))
	for i := range sls {
		n := &p.Host.Profile.Nodes[i]
		if sls[i], err = p.Host.process(n, r, leads, p.stateDir(n.Index)); err != nil {
			return work.Status{}, err
		}
		m.Nodes = append(m.Nodes, slNode{Index: n.Index, StateDir: sls[i].sl.StateDir, BridgeDir: sls[i].sl.BridgePath(p.Getenv, os.Geteuid() == 0)})
	}
	if err := p.free(ctx, &m); err != nil {
		return work.Status{}, err
	}
	if err := m.write(); err != nil {
		return work.Status{}, err
	}
	live, err := p.live()
	if err != nil {
		return work.Status{}, err
	}
	for i, n := range m.Nodes {
		if _, ended := detached.ExitNoted(m.file(n, exitFile)); ended || p.runs(live, &m, n) {
			continue
		}
		if err := p.startSL(ctx, m, n, sls[i]); err != nil {
			return work.Status{}, err
		}
	}
	return work.Status{State: task.Started}, m.begun()
}

// Find implements work.Executor.
func (p *Processes) Find(ctx context.Context) ([]work.Found, error) {
	members, err := p.members()
	if err != nil {
		return nil, err
	}
	var all []work.Found
	for _, m := range members {
		// In this order: one that ends meanwhile has noted that, and is seen as running the next time at worst.
		live, err := p.live()
		if err != nil {
			return nil, err
		}
		all = append(all, work.Found{Label: m.Label, Status: p.status(ctx, m, live)})
	}
	return all, nil
}

// status is what has become of a member. It fails with the first of its SLs, and succeeds with the last.
func (p *Processes) status(ctx context.Context, m member, live map[string]registry.Entry) work.Status {
	if m.damaged {
		return work.Status{State: task.Exited, Code: detached.UnknownExit, Text: "what this host kept of it is damaged: see its SWOP's log, and assign the task again"}
	}
	if !m.whole() {
		return work.Status{State: task.Prepared}
	}
	runs, ready := 0, true
	for _, n := range m.Nodes {
		if p.runs(live, &m, n) {
			runs++
			h, err := health.Read(ctx, n.StateDir)
			ready = ready && err == nil && h.Ready
			continue
		}
		if code, _ := detached.ExitNoted(m.file(n, exitFile)); code != 0 {
			return work.Status{State: task.Exited, Code: int32(code), Said: work.LastLines(detached.LastLines(m.file(n, outputFile)))} //nolint:gosec // an exit code
		}
	}
	switch {
	case runs == 0:
		return work.Status{State: task.Exited}
	case ready:
		return work.Status{State: task.Ready}
	}
	return work.Status{State: task.Started}
}

// Clean implements work.Executor. A member whose label is damaged is ended by the files that its SLs have in its directory.
func (p *Processes) Clean(ctx context.Context, l work.Label) error {
	m, err := p.open(p.memberDir(l))
	if errors.Is(err, os.ErrNotExist) {
		return os.RemoveAll(m.dir)
	}
	if _, known := errors.AsType[*damaged](err); err != nil && !known {
		return err
	}
	live, err := p.live()
	if err != nil {
		return err
	}
	var ends sync.WaitGroup
	failed := make([]error, len(m.Nodes))
	for i, n := range m.Nodes {
		ends.Go(func() {
			if e, lives := live[m.file(n, optionsFile)]; lives {
				failed[i] = detached.Terminate(ctx, e, endGrace)
			}
			failed[i] = errors.Join(failed[i], p.children.Gone(ctx, m.file(n, exitFile)))
		})
	}
	ends.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	if live, err = p.live(); err != nil { // others may have started meanwhile
		return err
	}
	for _, n := range m.Nodes {
		if usedBy(live, &m, n) {
			continue
		}
		if err := os.RemoveAll(n.BridgeDir); n.BridgeDir != "" && err != nil {
			return err
		}
	}
	return m.remove()
}

// usedBy reports whether an SL of another member has the directories of a member's: a damaged one keeps none from starting.
func usedBy(live map[string]registry.Entry, m *member, n slNode) bool {
	for file, e := range live {
		if e.StateDir == n.StateDir && file != m.file(n, optionsFile) {
			return true
		}
	}
	return false
}

// stateDir is that of a node's SL.
func (p *Processes) stateDir(index int) string {
	return filepath.Join(p.Dir, "sl", strconv.Itoa(index))
}

// memberDir keeps what there is of a member.
func (p *Processes) memberDir(l work.Label) string {
	return filepath.Join(p.Dir, "members", detached.DirName(l))
}
