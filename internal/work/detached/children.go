package detached

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/swarmd/swarmd/internal/atomicfile"
	"github.com/swarmd/swarmd/internal/child"
)

// UnknownExit is the code of a process that is gone and has said nothing: it was killed.
const UnknownExit = 137

// Children are processes that this one has started. The zero value has none, and its methods are safe for concurrent use.
type Children struct {
	mu      sync.Mutex
	waiting map[string]*awaited // by the files that their ends are noted in
}

// awaited is a child that has not been seen to end.
type awaited struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// Start starts a process that outlives this one. What it prints is appended to the file output, and its exit code is noted in the file exit, if it
// has not done so itself. The process begins a session.
func (c *Children) Start(cmd *exec.Cmd, output, exit string, log *slog.Logger) error {
	to, err := os.OpenFile(output, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer to.Close()
	cmd.Stdout, cmd.Stderr = to, to
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a terminal's Ctrl-C is not for it
	if err := cmd.Start(); err != nil {
		return err
	}
	c.await(cmd, exit, log)
	return nil
}

// await notes the end of a child that could not do so itself, and keeps it from being a zombie.
func (c *Children) await(cmd *exec.Cmd, exit string, log *slog.Logger) {
	a := &awaited{cmd, make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting == nil {
		c.waiting = map[string]*awaited{}
	}
	c.waiting[exit] = a
	go func() { // until the child ends, which whoever cleans up sees to; a host that ends leaves it
		defer close(a.done)
		_ = cmd.Wait() // its error repeats the state
		code, _ := child.ExitCode(cmd.ProcessState)
		if _, err := os.Stat(exit); err != nil {
			if err := NoteExit(exit, code); err != nil {
				log.Warn("could not note the exit code of a process of a task", "pid", cmd.Process.Pid, "err", err)
			}
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.waiting, exit)
	}()
}

// Awaits reports whether a child whose end is to be noted in a file was not seen to end.
func (c *Children) Awaits(exit string) bool { return c.awaited(exit) != nil }

func (c *Children) awaited(exit string) *awaited {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting[exit]
}

// Gone blocks until the end of a child was noted. One that still runs is killed: it was not in the registry, where others could find it.
func (c *Children) Gone(ctx context.Context, exit string) error {
	a := c.awaited(exit)
	if a == nil {
		return nil
	}
	_ = a.cmd.Process.Kill() // it has ended, or is to
	select {
	case <-a.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("process %d of a task does not end: %w", a.cmd.Process.Pid, ctx.Err())
	}
}

// NoteExit notes an exit code in a file.
func NoteExit(file string, code int) error {
	return atomicfile.Replace(file, []byte(strconv.Itoa(code)), 0o600)
}

// ExitNoted returns the exit code that a file has; noted is false if nobody has noted one.
func ExitNoted(file string) (code int, noted bool) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return UnknownExit, false
	}
	if code, err = strconv.Atoi(strings.TrimSpace(string(raw))); err != nil {
		return UnknownExit, true
	}
	return code, true
}
