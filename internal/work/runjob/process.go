package runjob

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/address"
	"github.com/swarmd/swarmd/internal/atomicfile"
	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/registry"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/detached"
	"github.com/swarmd/swarmd/internal/work/gpus"
	"github.com/swarmd/swarmd/internal/work/hostpaths"
	"github.com/swarmd/swarmd/internal/work/procs"
)

// endWithin is what a keeper has, beside the grace of its program, to see to it that nothing is left.
const endWithin = 10 * time.Second

// CleanLimit bounds one try to clean up a member: any grace of a job is shorter.
const CleanLimit = jobfile.MaxGrace + time.Minute

// Processes runs members as processes of this host, which outlive this one. What has become of them is in a directory of each.
type Processes struct {
	SwarmID func() string
	Node    string // the host's name in the swarm
	Dir     string // keeps what there is of members
	Swarmd  string // the binary, which keeps a member's process
	Scope   string // of what runs
	Getenv  func(string) string
	// Lookup finds the addresses of hosts that are known by names.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	Paths  hostpaths.Resolver
	GPUs   gpus.Pool // of this host, as CUDA_VISIBLE_DEVICES names them
	Goods  Goods
	Log    *slog.Logger

	children detached.Children
	prober   prober
}

var (
	_ work.Executor = (*Processes)(nil)
	_ work.Printer  = (*Processes)(nil)
)

// Prepare implements work.Executor: it writes down all that the member is started with.
func (p *Processes) Prepare(ctx context.Context, j work.Job) error {
	job, w, err := jobOf(j)
	if err != nil {
		return err
	}
	world := ranks(j, w)
	addresses, err := resolved(ctx, world, p.Lookup)
	if err != nil {
		return err
	}
	if err := atomicfile.Sweep(p.Dir, sweepAfter); err != nil {
		return err
	}
	dir := p.memberDir(j.Label)
	run, err := runFolderOf(j, job)
	if err != nil {
		return err
	}
	left, err := makeLeft(p.Goods.Left, j, job, os.Geteuid(), os.Getegid())
	if err != nil {
		return err
	}
	m, err := memberOf(j, job, w, ground{
		artifacts: left,
		addresses: addresses, device: address.Device(addresses[rankOf(j, world)]), metadata: filepath.Join(dir, metadataFile), workDir: run.path(), secrets: filepath.Join(dir, secretsDir),
	})
	if err == nil && run != nil {
		run.files, run.log = m.found, p.Log
		err = run.make(ctx, p.Paths)
	}
	if err == nil {
		err = orderCopies(p.Goods.Copies, m, j)
	}
	if err != nil {
		return err
	}
	if err := errors.Join(removeAll(dir), os.MkdirAll(dir, 0o700)); err != nil {
		return err
	}
	if err := awaitPorts(ctx, addresses[rankOf(j, world)], w.MemberPorts(int(j.Member))); err != nil {
		return err
	}
	if err := unpack(filepath.Join(dir, sourceDir), job.Source); err != nil {
		return fmt.Errorf("write the source of job %s: %w", job.Name, err)
	}
	if err := giveFiles(dir, p.Goods.Secrets, m.group.Secrets); err != nil {
		return fmt.Errorf("job %s, group %s: %w", job.Name, m.group.Name, err)
	}
	if err := giveKey(m.program.Starter.Key); err != nil {
		return fmt.Errorf("job %s: %w", job.Name, err)
	}
	nodes, err := metadata(m.placed, groupsOf(world))
	if err != nil {
		return err
	}
	if err := atomicfile.Replace(filepath.Join(dir, metadataFile), nodes, 0o600); err != nil {
		return err
	}
	o, err := p.order(ctx, m, dir)
	o.Run = run.path()
	if err != nil {
		return fmt.Errorf("job %s, group %s: %w", job.Name, m.group.Name, err)
	}
	if err := os.WriteFile(filepath.Join(dir, outputFile), nil, 0o600); err != nil { // there is something to follow
		return err
	}
	if err := p.give(o, m.group.Resources.GPU, dir); err != nil {
		return fmt.Errorf("job %s, group %s: %w", job.Name, m.group.Name, err)
	}
	return nil
}

// Start implements work.Executor. A keeper that a start which was cut off has left is not started again.
func (p *Processes) Start(_ context.Context, j work.Job) (work.Status, error) {
	dir := p.memberDir(j.Label)
	o, err := orderIn(dir)
	if err != nil {
		return work.Status{}, err
	}
	live, err := p.live()
	if err != nil {
		return work.Status{}, err
	}
	if _, ended := detached.ExitNoted(filepath.Join(dir, exitFile)); !ended && !p.runs(live, dir) {
		if err := p.start(dir, o, j); err != nil {
			return work.Status{}, err
		}
	}
	return work.Status{State: task.Started}, atomicfile.Replace(filepath.Join(dir, begunFile), nil, 0o600)
}

func (p *Processes) start(dir string, o order, j work.Job) error {
	cmd, err := p.own(context.Background(), dir) // it outlives this process
	if err != nil {
		return err
	}
	if err := p.children.Start(cmd, filepath.Join(dir, outputFile), filepath.Join(dir, exitFile), p.Log); err != nil {
		return fmt.Errorf("start %s: %w", o.Name, err)
	}
	// It does so itself, but only when it has read its order.
	if _, err := registry.Add(registry.Entry{PID: cmd.Process.Pid, Role: role, Name: o.Name, StateDir: dir, Scope: p.Scope}); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	p.Log.Info("started a member of a job", "member", o.Name, "pid", cmd.Process.Pid, "assignment", j.Label.Assignment, "program", o.Path)
	return nil
}

// live are the keepers that run, by the files with their orders.
func (p *Processes) live() (map[string]registry.Entry, error) {
	return detached.Registered(p.Scope, role, orderOption)
}

// runs reports whether the keeper of a member lives, or has been started and not been seen to end.
func (p *Processes) runs(live map[string]registry.Entry, dir string) bool {
	_, lives := live[filepath.Join(dir, orderFile)]
	return lives || p.children.Awaits(filepath.Join(dir, exitFile))
}

// Find implements work.Executor. Members that run are asked whether they are ready, all at a time.
func (p *Processes) Find(ctx context.Context) ([]work.Found, error) {
	entries, err := os.ReadDir(p.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var all []work.Found
	for _, e := range entries {
		if l, ok := detached.LabelOf(e.Name(), p.SwarmID(), p.Node); ok {
			all = append(all, work.Found{Label: l})
		}
	}
	// In this order: one that ends meanwhile has noted that, and is seen as running the next time at worst.
	live, err := p.live()
	if err != nil {
		return nil, err
	}
	var asked errgroup.Group
	for i := range all {
		asked.Go(func() error {
			all[i].Status = p.Goods.Copies.Status(all[i].Label, p.status(ctx, live, all[i].Label))
			return nil
		})
	}
	return all, asked.Wait()
}

// status is what has become of a member.
func (p *Processes) status(ctx context.Context, live map[string]registry.Entry, l work.Label) work.Status {
	dir := p.memberDir(l)
	o, err := orderIn(dir)
	switch {
	case p.runs(live, dir) && err == nil:
		s := work.Status{State: task.Started, Asks: p.prober.stops.Asks(ctx, p.Log, o.Run, o.Ready.Exits)}
		if ready, why := p.prober.ready(ctx, l, o.Ready, func(ctx context.Context, _ []string) error { return p.ask(ctx, dir) }); ready {
			s.State = task.Ready
		} else {
			s.Text = why
		}
		return s
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		p.Log.WarnContext(ctx, "a file of a job's member is damaged: see the disk", "err", err)
		return work.Status{State: task.Exited, Code: detached.UnknownExit, Text: "what this host kept of it is damaged: see its SWOP's log, and run the job again"}
	}
	if !begun(dir) {
		return work.Status{State: task.Prepared}
	}
	code, _ := detached.ExitNoted(filepath.Join(dir, exitFile))
	s := work.Status{State: task.Exited, Code: int32(code)} //nolint:gosec // an exit code
	if code != 0 {
		s.Text = signalWords(code)
		s.Said = withRemedy(work.LastLines(detached.LastLines(filepath.Join(dir, outputFile))), "have it installed for this host's Python, or run the job in containers")
	}
	if o.Ready.Exits {
		s = p.prober.stops.Last(ctx, p.Log, l, o.Run, s)
	}
	return s
}

// begun reports whether a member was started. One that was and does not run has ended.
func begun(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, begunFile))
	_, ended := detached.ExitNoted(filepath.Join(dir, exitFile))
	return err == nil || ended
}

// Clean implements work.Executor: it asks the member's program to end, kills it after the job's grace, and leaves nothing behind.
func (p *Processes) Clean(ctx context.Context, l work.Label) error {
	dir := p.memberDir(l)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		keepLeft(p.Goods.Left, l, p.Log) // its folder is made first
		return p.Goods.Copies.Over(l)
	}
	grace := jobfile.DefaultGrace
	if o, err := orderIn(dir); err == nil {
		grace = o.Grace
	}
	live, err := p.live()
	if err != nil {
		return err
	}
	if e, lives := live[filepath.Join(dir, orderFile)]; lives {
		if err := detached.Terminate(ctx, e, grace+endWithin); err != nil {
			return err
		}
	}
	if err := p.children.Gone(ctx, filepath.Join(dir, exitFile)); err != nil {
		return err
	}
	if err := procs.EndWith(ctx, ownVariable, dir); err != nil {
		return err
	}
	p.prober.forget(l)
	if err := p.Goods.Copies.Finish(ctx, l); err != nil {
		return err
	}
	keepLeft(p.Goods.Left, l, p.Log)
	if err := removeAll(dir); err != nil {
		return err
	}
	return p.Goods.Copies.Over(l)
}

// Print implements work.Printer. What is followed may not have started yet, as where groups start in order.
func (p *Processes) Print(ctx context.Context, l work.Label, tail int, follow bool, emit func(from, line string) error) error {
	dir := p.memberDir(l)
	over := func() bool {
		if _, err := os.Stat(dir); err != nil {
			return true
		}
		live, err := p.live()
		return err == nil && !p.runs(live, dir) && begun(dir)
	}
	o, err := orderIn(dir)
	if err != nil {
		o.Named = "" // what is damaged Find tells
	}
	from := namedBy(l, o.Named)
	return detached.Printed(ctx, filepath.Join(dir, outputFile), tail, follow, over, func(line string) error { return emit(from, line) })
}

// memberDir keeps what there is of a member.
func (p *Processes) memberDir(l work.Label) string { return filepath.Join(p.Dir, detached.DirName(l)) }
