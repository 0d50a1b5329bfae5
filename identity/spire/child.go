package spire

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/swarmd/swarmd/internal/child"
	"github.com/swarmd/swarmd/internal/text"
)

const (
	defaultGrace = 10 * time.Second
	tailLines    = 12      // lines of output that the error of an ended child carries
	maxTailLine  = 1 << 10 // bytes of each
)

// childSpec says which program to run.
type childSpec struct {
	Name string // what errors call it: "spire-server"
	Path string // executable
	Args []string
	// Log gets every line that the child prints, level, message and fields as SPIRE meant them. Its handler may be called
	// from two goroutines.
	Log *slog.Logger
	// Grace is how long Close waits between SIGTERM and SIGKILL; 0: 10 s.
	Grace time.Duration
}

// spireChild is a running or ended program of SPIRE. It dies with this process, however this process dies. All methods are safe for
// concurrent use.
type spireChild struct {
	*child.Process
	spec childSpec
	err  error // set before Done is closed

	mu      sync.Mutex
	closing bool
	tail    []string
}

// startChild starts the program in a process group of its own. The caller must Close it, or receive from Done.
func startChild(spec childSpec) (*spireChild, error) {
	if spec.Grace <= 0 {
		spec.Grace = defaultGrace
	}
	cmd := exec.Command(spec.Path, spec.Args...) //nolint:noctx // Close ends it: first the polite way, and the whole group
	cmd.Env = childEnv(os.Environ())
	c := &spireChild{spec: spec}
	p, err := child.Start(cmd, child.Output{Stdout: func(r io.Reader) { eachLine(r, c.take) }}, func(state *os.ProcessState) { c.err = c.ending(state) })
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	c.Process = p
	return c, nil
}

// ending is nil for a child that was told to end, and did.
func (c *spireChild) ending(state *os.ProcessState) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return nil
	}
	return &childError{name: c.spec.Name, how: state.String(), tail: c.tail}
}

// childError is a child that ended by itself.
type childError struct {
	name, how string
	tail      []string // its last lines, oldest first
}

func (e *childError) Error() string {
	text := e.name + " ended: " + e.how
	if len(e.tail) == 0 {
		return text + "; it printed nothing"
	}
	return text + "; its last lines:\n  " + strings.Join(e.tail, "\n  ")
}

func (c *spireChild) take(said string) {
	if strings.TrimSpace(said) == "" {
		return
	}
	l := parseLine(said)
	c.mu.Lock()
	if len(c.tail) == tailLines {
		c.tail = slices.Delete(c.tail, 0, 1)
	}
	c.tail = append(c.tail, text.Clip(l.String(), maxTailLine))
	c.mu.Unlock()
	for _, known := range []string{
		"Current umask", // SPIRE mends it by itself, each time
		"Experimental features have been enabled", // so they are, in the default configurations
	} {
		if strings.HasPrefix(l.msg, known) {
			return
		}
	}
	record := slog.NewRecord(time.Now(), l.level, quoted(l.msg), 0)
	record.AddAttrs(slog.String("logger", c.spec.Name))
	for _, f := range l.fields {
		record.AddAttrs(slog.String(f.key, f.value))
	}
	h := c.spec.Log.Handler()
	if ctx := context.Background(); h.Enabled(ctx, l.level) {
		_ = h.Handle(ctx, record)
	}
}

// Err blocks until Done and tells how the child ended: nil if Close ended it, else an error with its last lines.
func (c *spireChild) Err() error {
	<-c.Done()
	return c.err
}

// Tail returns the last lines that the child printed, oldest first.
func (c *spireChild) Tail() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.tail)
}

// Close sends SIGTERM to the child's group, SIGKILL after the grace, and blocks until the child has ended. It may be
// called at any time and more than once. The error is that of Err: a child that had ended before by itself.
func (c *spireChild) Close() error {
	c.mu.Lock()
	if c.Signal(syscall.SIGTERM) {
		c.closing = true
	}
	c.mu.Unlock()
	c.KillAfter(c.spec.Grace)
	return c.err
}

// childEnv is this process's environment without what is meant for this process alone: a child that answers systemd, or
// takes its sockets, would speak for swarmd.
func childEnv(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		switch name {
		case "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "CREDENTIALS_DIRECTORY":
			return true
		}
		return strings.HasPrefix(name, "SWARM_")
	})
}
