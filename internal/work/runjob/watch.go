package runjob

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/swarmd/swarmd/internal/atomicfile"
	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/registry"
	"github.com/swarmd/swarmd/internal/work/detached"
	"github.com/swarmd/swarmd/internal/work/taskenv"
)

// Watch has one process beside a SWOP end its members' containers when the lease is over: also where the SWOP is stopped, or was killed and does not
// come back.
type Watch struct {
	Dir    string // keeps its files
	Swarmd string // the binary
	Engine string // address; empty: as the environment says
	Node   string
	Scope  string
	Log    *slog.Logger

	children detached.Children
	mu       sync.Mutex
}

// The files of a watch: its input, its reports, and how it ended.
const (
	watchFile = "watch.json"
	watchLog  = "watch.log"
	watchExit = "watch.exit"
)

// engineVariables are those by which an engine is reached.
var engineVariables = []string{"DOCKER_HOST", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "DOCKER_API_VERSION"}

// watchLimit bounds one try to end what a host runs.
const watchLimit = CleanLimit

// Lease lets the members of this host run until then.
func (w *Watch) Lease(until time.Time) error { return writeLease(w.Dir, until) }

func (w *Watch) entry() (registry.Entry, bool, error) {
	live, err := detached.Registered(w.Scope, role, orderOption)
	e, is := live[filepath.Join(w.Dir, watchFile)]
	return e, is, err
}

// begin starts the process unless it runs. The lease is the one that the host has given: one of long ago ends what runs, and only where there is none
// does it begin now.
func (w *Watch) begin() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	exit := filepath.Join(w.Dir, watchExit)
	if _, runs, err := w.entry(); err != nil || runs || w.children.Awaits(exit) {
		return err
	}
	if err := errors.Join(atomicfile.Sweep(w.Dir, sweepAfter), w.firstLease()); err != nil {
		return err
	}
	o := order{Name: "watch of the jobs of host " + w.Node, Lease: filepath.Join(w.Dir, leaseFile), Watch: &watched{Node: w.Node, Scope: w.Scope, Engine: w.Engine}}
	if err := o.writeTo(filepath.Join(w.Dir, watchFile)); err != nil {
		return err
	}
	for _, old := range []string{exit, filepath.Join(w.Dir, watchLog)} {
		if err := os.Remove(old); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	env, err := launch.ProgramEnv(launch.EnvConfig{Inherit: taskenv.Inherited(os.Environ()), Extra: append(detached.Passed(append(engineVariables, localVariable)...), scopeVariable+"="+w.Scope)})
	if err != nil {
		return err
	}
	cmd := exec.Command(w.Swarmd, Command, "--"+orderOption+"="+filepath.Join(w.Dir, watchFile)) //nolint:noctx // it outlives this process
	cmd.Dir, cmd.Env = w.Dir, env
	if err := w.children.Start(cmd, filepath.Join(w.Dir, watchLog), exit, w.Log); err != nil {
		return fmt.Errorf("start the %s: %w", o.Name, err)
	}
	// It does so itself, but only when it has read its order.
	if _, err := registry.Add(registry.Entry{PID: cmd.Process.Pid, Role: role, Name: o.Name, Scope: w.Scope}); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// firstLease writes a lease that begins now, unless there is one.
func (w *Watch) firstLease() error {
	if _, err := os.Stat(filepath.Join(w.Dir, leaseFile)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return writeLease(w.Dir, time.Now().Add(leaseFor))
}

// end ends the process: there is nothing to watch.
func (w *Watch) end(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	e, runs, err := w.entry()
	if err == nil && runs {
		err = detached.Terminate(ctx, e, endWithin)
	}
	return errors.Join(err, w.children.Gone(ctx, filepath.Join(w.Dir, watchExit)))
}

// watched is the input of a watch.
type watched struct{ Node, Scope, Engine string }

// watch ends the members of a host when their lease is over, and ends then.
func (o order) watch(end <-chan os.Signal) error {
	remove, err := registry.Add(registry.Entry{Role: role, Name: o.Name, Scope: os.Getenv(scopeVariable)})
	if err != nil {
		return err
	}
	defer remove()
	l, err := newLease(o.Lease)
	if err != nil {
		return err
	}
	said := ""
	for l.watch(nil, end) {
		err := o.Watch.endAll()
		if err == nil {
			return nil
		}
		if said != err.Error() { // the engine may be away for long
			said = err.Error()
			fmt.Fprintf(os.Stderr, "swarmd: could not end all members, and tries again: %v\n", err)
		}
	}
	return nil
}

// endAll ends the containers of a host's members, and leaves them for its SWOP to remove.
func (w *watched) endAll() error {
	ctx, cancel := context.WithTimeout(context.Background(), watchLimit)
	defer cancel()
	e, err := engine.OpenAt(ctx, w.Engine)
	if err != nil {
		return err
	}
	defer e.Close()
	found, err := (&Containers{Node: w.Node, Scope: w.Scope}).list(ctx, e)
	if err != nil {
		return err
	}
	errs := make(chan error, len(found))
	for _, x := range found {
		go func() { errs <- stop(ctx, e, x) }()
	}
	for range found {
		err = errors.Join(err, <-errs)
	}
	return err
}

// ended reports whether a container does not run, nor will by itself.
func ended(x container.Summary) bool {
	return x.State == container.StateCreated || x.State == container.StateExited || x.State == container.StateDead
}

// writeLease notes until when the members of a host may run. It waits for no disk: who reads it does so on this machine, and not after a crash.
func writeLease(dir string, until time.Time) error {
	text, err := leaseText(until)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return err
	}
	return atomicfile.ReplaceUnsynced(filepath.Join(dir, leaseFile), text, 0o600)
}
