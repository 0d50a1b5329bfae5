package runjob

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/child"
	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/work/detached"
	"github.com/swarmd/swarmd/internal/work/taskenv"
)

// askOption has this program ask a member whether it is ready, by the command of its order.
const askOption = "--ask"

// localVariable marks all processes of a swarm of `swarmctl local`, by which those are found and ended that a killed one has left.
const localVariable = "SWARM_LOCAL_ID"

// own is a command of this program's on the order in a directory.
func (p *Processes) own(ctx context.Context, dir string, more ...string) (*exec.Cmd, error) {
	env, err := launch.ProgramEnv(launch.EnvConfig{Inherit: taskenv.Inherited(os.Environ()), Extra: append(detached.Passed(localVariable), scopeVariable+"="+p.Scope)})
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, p.Swarmd, append([]string{Command, "--" + orderOption + "=" + filepath.Join(dir, orderFile)}, more...)...)
	cmd.Dir, cmd.Env = dir, env
	return cmd, nil
}

// ask asks a member by its command, whose error is that it did not end with 0. A process of its own runs it, so that it ends in its time when this
// one is killed, with all that it has started.
func (p *Processes) ask(ctx context.Context, dir string) error {
	cmd, err := p.own(ctx, dir, askOption)
	if err != nil {
		return err
	}
	cmd.SysProcAttr, cmd.WaitDelay = &syscall.SysProcAttr{Setsid: true}, endWithin
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	return cmd.Run()
}

// ask runs the command by which a member is asked, until its time is over, and leaves nothing behind of what it has started.
func (o order) ask(end <-chan os.Signal) (code int, err error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return notStarted, fmt.Errorf("take over processes without a parent: %w", err)
	}
	cmd := exec.Command(o.Ready.Command[0], o.Ready.Command[1:]...) //nolint:noctx // it is ended below
	if cmd.Env, err = o.environ(); err != nil {
		return notStarted, err
	}
	cmd.Dir = o.Dir
	p, err := child.Start(cmd, child.Output{Stdout: func(r io.Reader) { _, _ = io.Copy(io.Discard, r) }}, func(s *os.ProcessState) { code, _ = child.ExitCode(s) })
	if err != nil {
		return notStarted, err
	}
	limit := time.NewTimer(o.Ready.Timeout)
	defer limit.Stop()
	select {
	case <-p.Done():
	case <-end:
	case <-limit.C:
	}
	p.Stop(0)
	return code, endChildren()
}
