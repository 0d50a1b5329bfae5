package runswarm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/atomicfile"
	"github.com/swarmd/swarmd/internal/child"
	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/pause"
	"github.com/swarmd/swarmd/internal/registry"
	"github.com/swarmd/swarmd/internal/work/taskenv"
)

const (
	endGrace   = 30 * time.Second // that an SL has to leave the swarm and to end its program
	killWithin = 10 * time.Second
	busyLimit  = endGrace + killWithin // for SLs of the assignment before
	busyPause  = 200 * time.Millisecond

	optionsOption = "config-file"
)

// startSL starts an SL that outlives this process.
func (p *Processes) startSL(ctx context.Context, m member, n slNode, x process) error {
	if err := x.findPython(ctx, p.Getenv); err != nil {
		return err
	}
	x.sl.BridgeDir, x.sl.Part = n.BridgeDir, m.Part()
	// Variables of a task are not to be read by every user of the host, as command lines are.
	options, err := yaml.Marshal(start.Texts(&x.sl))
	if err == nil {
		err = atomicfile.Replace(m.file(n, optionsFile), options, 0o600)
	}
	if err != nil {
		return err
	}
	exit := m.file(n, exitFile)
	env, err := launch.ProgramEnv(launch.EnvConfig{Inherit: taskenv.Inherited(os.Environ()), Extra: append(x.env, start.ExitFile+"="+exit, "SWARM_SCOPE="+p.Scope, "SWARM_RUN_DIR", "SWARM_LOCAL_ID")})
	if err != nil {
		return fmt.Errorf("node %d of the profile: %w", n.Index, err)
	}
	log, err := os.OpenFile(m.file(n, outputFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(p.Swarmd, "run-sl", "--runtime=process", "--"+optionsOption+"="+m.file(n, optionsFile)) //nolint:noctx // it outlives this process
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = m.dir, env, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a terminal's Ctrl-C is not for it
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start SL %s: %w", x.sl.Name, err)
	}
	p.await(cmd, exit)
	// It does so itself, but only when it has read its options.
	if _, err := registry.Add(registry.Entry{PID: cmd.Process.Pid, Role: naming.RoleSL, Name: x.sl.Name, Platform: x.sl.Platform, StateDir: n.StateDir, Scope: p.Scope}); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	p.Log.Info("started an SL for a task", "node", x.sl.Name, "pid", cmd.Process.Pid, "assignment", m.Assignment, "program", x.sl.Program)
	return nil
}

// awaited is a child that has not been seen to end.
type awaited struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// await notes the end of a child that could not do so itself, and keeps it from being a zombie.
func (p *Processes) await(cmd *exec.Cmd, exit string) {
	a := &awaited{cmd, make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting == nil {
		p.waiting = map[string]*awaited{}
	}
	p.waiting[exit] = a
	go func() { // until the SL ends, which Clean sees to; a SWOP that ends leaves it
		defer close(a.done)
		_ = cmd.Wait() // its error repeats the state
		code, _ := child.ExitCode(cmd.ProcessState)
		if _, err := os.Stat(exit); err != nil {
			if err := atomicfile.Replace(exit, []byte(strconv.Itoa(code)), 0o600); err != nil {
				p.Log.Warn("could not note the exit code of an SL", "err", err)
			}
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.waiting, exit)
	}()
}

// awaits returns the child whose end is to be noted in a file, nil if there is none, or it has ended.
func (p *Processes) awaits(exit string) *awaited {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting[exit]
}

// gone blocks until the end of a child was noted. One that is not in the registry is killed: nobody else could find it.
func (p *Processes) gone(ctx context.Context, exit string) error {
	a := p.awaits(exit)
	if a == nil {
		return nil
	}
	_ = a.cmd.Process.Kill() // it has ended, or is to
	select {
	case <-a.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("an SL (process %d) does not end: %w", a.cmd.Process.Pid, ctx.Err())
	}
}

// live are the SLs that run, by the files with their options, of which each member has its own. State directories, which hold the SLs' keys, are
// the same for all members.
func (p *Processes) live() (map[string]registry.Entry, error) {
	entries, err := registry.List(p.Scope)
	if err != nil {
		return nil, err
	}
	all := map[string]registry.Entry{}
	for _, e := range entries {
		if e.Role == naming.RoleSL {
			all[e.Option(optionsOption)] = e
		}
	}
	return all, nil
}

// runs reports whether an SL of a member lives, or has been started and not been seen to end.
func (p *Processes) runs(live map[string]registry.Entry, m *member, n slNode) bool {
	_, lives := live[m.file(n, optionsFile)]
	return lives || p.awaits(m.file(n, exitFile)) != nil
}

// free blocks until nothing is left of other members that has the state directories of a member's: they may be about to end. An SL of the same
// name has the same key, so that there is one at a time.
func (p *Processes) free(ctx context.Context, m *member) error {
	ctx, cancel := context.WithTimeout(ctx, busyLimit)
	defer cancel()
	for {
		other, err := p.inTheWay(m)
		if err != nil || other == "" {
			return err
		}
		if pause.For(ctx, busyPause) != nil {
			return fmt.Errorf("%s still runs on this host, with the key that an SL of this task is to have: wait until that is over, or end it", other)
		}
	}
}

// inTheWay names what has a state directory of a member's; empty: nothing.
func (p *Processes) inTheWay(m *member) (string, error) {
	has := func(dir string) bool {
		return slices.ContainsFunc(m.Nodes, func(n slNode) bool { return n.StateDir == dir })
	}
	members, err := p.members()
	if err != nil {
		return "", err
	}
	for _, other := range members {
		if other.Label != m.Label && slices.ContainsFunc(other.Nodes, func(n slNode) bool { return has(n.StateDir) }) {
			return "assignment " + other.Assignment, nil
		}
	}
	live, err := p.live()
	for file, e := range live {
		if filepath.Dir(file) != m.dir && has(e.StateDir) {
			return fmt.Sprintf("SL %s (process %d)", e.Name, e.PID), err
		}
	}
	return "", err
}

// end ends an SL and its program.
func end(ctx context.Context, e registry.Entry) error {
	c, err := e.Open()
	if errors.Is(err, registry.ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	defer c.Close()
	for _, step := range []struct {
		signal syscall.Signal
		within time.Duration
	}{{syscall.SIGTERM, endGrace}, {syscall.SIGKILL, killWithin}} {
		if err := c.Signal(step.signal); err != nil {
			return err
		}
		waitCtx, cancel := context.WithTimeout(ctx, step.within)
		err = c.Wait(waitCtx)
		cancel()
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("SL %s (process %d) does not end: %w", e.Name, e.PID, err)
}
