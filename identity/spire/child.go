package spire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/text"
)

const (
	defaultGrace = 10 * time.Second
	tailLines    = 12      // lines of output that the error of an ended child carries
	maxTailLine  = 1 << 10 // bytes of each
	// flushLimit bounds the wait for output after the child ended: a plugin that it left behind may hold the pipe.
	flushLimit = 2 * time.Second
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

// child is a running or ended program. It dies with this process, however this process dies. All methods are safe for
// concurrent use.
type child struct {
	spec childSpec
	pid  int
	done chan struct{} // closed after err is set and no goroutine of the child's remains
	err  error

	mu      sync.Mutex
	reaped  bool // the pid may belong to somebody else
	closing bool
	tail    []string
}

// startChild starts the program in a process group of its own. The caller must Close it, or receive from Done.
func startChild(spec childSpec) (*child, error) {
	if spec.Grace <= 0 {
		spec.Grace = defaultGrace
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	c := &child{spec: spec, done: make(chan struct{})}
	started := make(chan error, 1)
	go c.run(r, w, started)
	if err := <-started; err != nil {
		<-c.done
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	return c, nil
}

// run keeps one OS thread for the child's life: the kernel sends Pdeathsig when the thread that started it ends.
func (c *child) run(r, w *os.File, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(c.done)
	defer r.Close()
	cmd := exec.Command(c.spec.Path, c.spec.Args...) //nolint:noctx // Close ends it: first the polite way, and the whole group
	cmd.Env = childEnv(os.Environ())
	cmd.Stdout, cmd.Stderr = w, w
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	err := cmd.Start()
	_ = w.Close()
	if err != nil {
		c.reaped = true
		started <- err
		return
	}
	c.pid = cmd.Process.Pid
	var reader sync.WaitGroup
	reader.Go(func() { eachLine(r, c.take) })
	started <- nil
	c.await()
	_ = cmd.Wait() // its error repeats the state
	_ = r.SetReadDeadline(time.Now().Add(flushLimit))
	reader.Wait()
	c.err = c.ending(cmd.ProcessState)
}

// await blocks until the child is a zombie and kills what it left in its group while its pid can not be reused.
func (c *child) await() {
	for {
		err := unix.Waitid(unix.P_PID, c.pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = syscall.Kill(-c.pid, syscall.SIGKILL)
	c.reaped = true
}

// ending is nil for a child that was told to end, and did.
func (c *child) ending(state *os.ProcessState) error {
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

func (c *child) take(said string) {
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

// PID returns the child's process ID, which is also its group's.
func (c *child) PID() int { return c.pid }

// Done is closed when the child has ended and all its output was logged.
func (c *child) Done() <-chan struct{} { return c.done }

// Err blocks until Done and tells how the child ended: nil if Close ended it, else an error with its last lines.
func (c *child) Err() error {
	<-c.done
	return c.err
}

// Tail returns the last lines that the child printed, oldest first.
func (c *child) Tail() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.tail)
}

// Close sends SIGTERM to the child's group, SIGKILL after the grace, and blocks until the child has ended. It may be
// called at any time and more than once. The error is that of Err: a child that had ended before by itself.
func (c *child) Close() error {
	c.signal(syscall.SIGTERM)
	timer := time.NewTimer(c.spec.Grace)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
		c.signal(syscall.SIGKILL)
		<-c.done
	}
	return c.err
}

func (c *child) signal(sig syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		c.closing = true
		_ = syscall.Kill(-c.pid, sig)
	}
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
