package local

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/swci/cluster"
)

// programTail is how many of a program's last lines are looked at when it has failed: an exception's whole traceback should be among them.
const programTail = 200

// output keeps what one program prints: whole in a file, the last lines in memory. Safe for concurrent use.
type output struct {
	mu   sync.Mutex
	file *os.File
	tail []string
}

func openOutput(dir string) (*output, error) {
	f, err := os.OpenFile(filepath.Join(dir, programLog), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open program log: %w", err)
	}
	return &output{file: f}, nil
}

func (o *output) line(s string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, _ = o.file.WriteString(s + "\n")
	if roundLine.MatchString(s) {
		return // it would push out what matters
	}
	if o.tail = append(o.tail, s); len(o.tail) > programTail {
		o.tail = o.tail[1:]
	}
}

func (o *output) last() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string(nil), o.tail...)
}

func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	_ = o.file.Close()
}

// metricsPath is where the program of the peer with index i writes its metrics.
func (c *RunConfig) metricsPath(i int, alone bool) string {
	if alone {
		return filepath.Join(c.peerDir(i), baseline, metricsFile)
	}
	return filepath.Join(c.peerDir(i), metricsFile)
}

// programEnv is what every program of the peer with index i is given beyond its directories. The user's -e comes last
// and wins.
func (c *RunConfig) programEnv(i int, alone bool) []string {
	file := c.metricsPath(i, alone)
	if c.docker() {
		file = path.Join(engine.ModelDir, metricsFile)
	}
	env := []string{"MIN_PEERS=" + strconv.Itoa(c.MinPeers), "SWARM_METRICS_FILE=" + file}
	// All peers share this machine: with the frameworks' default, each would start a thread per core and the threads
	// would spin against each other. The same number alone and in the swarm keeps the two comparable.
	for _, name := range []string{"OMP_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS"} {
		env = append(env, name+"="+strconv.Itoa(max(1, runtime.NumCPU()/max(1, c.Peers))))
	}
	for _, kv := range c.Env {
		name, value, _ := strings.Cut(kv, "=")
		env = append(env, name+"="+expand(value, i))
	}
	return env
}

// runBaselines trains every peer's program alone, as many at a time as there are processors. They run before the swarm's
// programs, not beside them: otherwise each would slow the other down and the swarm's rounds would wait for it.
func (r *run) runBaselines(ctx context.Context) error {
	run := r.runBaseline
	if r.cfg.docker() {
		run = r.baselineContainers()
	}
	if r.cfg.Package != nil && !r.cfg.docker() {
		var err error
		beside, extracted := filepath.Dir(filepath.Join(r.cfg.ModelDir, r.cfg.Program)), filepath.Join(r.cluster.Dir(), "python")
		if r.python, err = launch.FindPackage(ctx, r.cfg.Python, r.host.Environ, beside, r.cfg.Package, extracted); err != nil {
			return err
		}
	}
	defer r.board.Close() // the swarm's lines come below
	alone := newProgress(r.cfg, r.host, r.board, nil)
	for i := runtime.NumCPU(); i < r.cfg.Peers; i++ {
		alone.set(i, phaseQueued)
	}
	defer alone.follow(ctx)()
	return r.eachPeer(ctx, func(ctx context.Context, i int) error {
		alone.set(i, phaseStarting)
		err := run(ctx, i)
		if alone.ended(i, "done"); err != nil {
			alone.ended(i, "failed")
		}
		return err
	})
}

// eachPeer calls fn for every peer, as many at a time as there are processors.
func (r *run) eachPeer(ctx context.Context, fn func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(max(1, runtime.NumCPU()))
	for i := range r.cfg.Peers {
		g.Go(func() error { return fn(ctx, i) })
	}
	return g.Wait()
}

func (r *run) runBaseline(ctx context.Context, i int) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	name, dir := cluster.SLName(i)+" alone", filepath.Join(r.cfg.peerDir(i), baseline)
	out, err := openOutput(dir)
	if err != nil {
		return err
	}
	defer out.close()
	env := append(append([]string{}, r.host.Environ...),
		"DATA_DIR="+r.cfg.dataDir(i), "MODEL_DIR="+dir, "SWARM_PEER="+cluster.SLName(i), "SWARM_LOOPBACK=true", "PYTHONUNBUFFERED=1")
	given := r.cfg.programEnv(i, true)
	env = append(env, given...)
	if r.python.Path != "" {
		env = append(env, "PYTHONPATH="+r.python.Join(r.host.Getenv("PYTHONPATH")))
	}
	line := func(line string) {
		out.line(line)
		r.show(name, line)
	}
	args := r.cfg.programArgs(i)
	binds, err := launch.FixedPaths(ctx, filepath.Join(dir, r.cfg.Program), dir, r.cfg.dataDir(i), slices.Concat(given, args))
	if err != nil {
		line(err.Error())
	}
	p, err := r.cluster.RunProgram(cluster.Alone{
		Name: name, Dir: dir, Argv: append([]string{r.cfg.Python, r.cfg.Program}, args...), Env: env, Binds: binds, Line: line,
	})
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-p.Done():
	}
	if e := p.Exit(); e.Code != 0 {
		return r.failedAlone(e, out.last())
	}
	return nil
}

// remedy is what to do about an error of Python that shows in one line of a program, "" for any other line.
func (r *run) remedy(line string) string {
	switch {
	case strings.HasPrefix(line, "ModuleNotFoundError: ") && r.cfg.docker():
		return "the programs' image is " + r.cfg.Image + "; name one that has the module with --ml-image"
	case strings.HasPrefix(line, "ModuleNotFoundError: "):
		return "the programs' Python is " + r.cfg.Python + "; name one that has the module with --python"
	case strings.HasPrefix(line, "EOFError: EOF when reading a line"):
		return "a program in a swarm has no terminal, so input() has nothing to read: give it what it asks for as variables, -e NAME=VALUE"
	}
	return ""
}

// show prints a program's line above the progress, unless --quiet.
func (r *run) show(name, line string) {
	if !r.cfg.Quiet {
		r.board.Log(name + " | " + line)
	}
}
