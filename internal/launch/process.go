package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	defaultGrace = 10 * time.Second
	defaultTail  = 20
	// flushLimit bounds the wait for output after the program ended: a process that left the group may hold the pipe.
	flushLimit = 2 * time.Second
)

// Spec says what to run.
type Spec struct {
	// Name is what logs and errors call the program.
	Name string
	// Path is the executable, found in this process's PATH if it has no slash. Args are its arguments, without the name.
	Path string
	Args []string
	// Dir is the working directory.
	Dir string
	// Env is the whole environment; nothing is inherited. See ProgramEnv.
	Env []string
	// Line, if set, gets each line of output as it comes, stream being "stdout" or "stderr", without its end. A carriage
	// return ends a line too (progress bars). Lines longer than 64 KiB come in pieces. It is called from one goroutine at
	// a time and must not block for long: the program waits meanwhile.
	Line func(stream, line string)
	// LogTail is how many of the last lines Exit carries; 0: 20, negative: none.
	LogTail int
	// LogFile, if not empty, is a file that output is appended to, such as MODEL_DIR/<program>_sw.log.
	LogFile string
	// Grace is how long the program has between SIGTERM and SIGKILL when Start's context ends; 0: 10 s.
	Grace time.Duration
}

// Exit is how a program ended.
type Exit struct {
	ExitCode int            // the exit status; 128 + signal number if a signal ended it, as in a shell; -1: nobody knows
	Signal   syscall.Signal // 0 unless a signal ended it
	Reason   string         // why, in words, where the code does not say it; one line, with a remedy if there is one
	Tail     []string       // last lines of output, each cut at 4 KiB, oldest first
	LogErr   error          // why LogFile is incomplete, nil if it is not
}

// String says it in words, such as "exit code 1", "killed by signal 9 (killed)" or "exit code 127: command not found".
func (e Exit) String() string {
	how := fmt.Sprintf("exit code %d", e.ExitCode)
	switch {
	case e.Signal != 0:
		how = fmt.Sprintf("killed by signal %d (%s)", int(e.Signal), e.Signal)
	case e.ExitCode < 0 && e.Reason != "":
		return e.Reason
	case e.ExitCode < 0:
		how = "exit code unknown"
	}
	if e.Reason == "" {
		return how
	}
	return how + ": " + e.Reason
}

// Process is a running or ended program. Its methods are safe for concurrent use.
type Process struct {
	pid  int
	done chan struct{} // closed after exit is set and no goroutine of the program's remains
	exit Exit

	mu     sync.Mutex
	reaped bool // the pid may belong to somebody else
}

// Start starts the program. When ctx ends its whole group gets SIGTERM and, after the grace, SIGKILL. The caller must
// Wait, or receive from Done.
func Start(ctx context.Context, spec Spec) (*Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	// A missing directory would look like a missing executable.
	if info, err := os.Stat(spec.Dir); spec.Dir != "" && (err != nil || !info.IsDir()) {
		return nil, fmt.Errorf("start %s: working directory %s is not there", spec.Name, spec.Dir)
	}
	out, err := newPipes(spec)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	cmd := exec.Command(spec.Path, spec.Args...) //nolint:noctx // the group is signalled below, not only the leader
	cmd.Dir, cmd.Env = spec.Dir, spec.Env
	if cmd.Env == nil {
		cmd.Env = []string{} // nil would inherit
	}
	cmd.Stdout, cmd.Stderr = out.w[0], out.w[1]
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p := &Process{done: make(chan struct{})}
	started := make(chan error, 1)
	go p.run(cmd, out, started)
	if err := <-started; err != nil {
		<-p.done
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	grace := spec.Grace
	if grace <= 0 {
		grace = defaultGrace
	}
	go func() {
		select {
		case <-p.done:
		case <-ctx.Done():
			p.Stop(grace)
		}
	}()
	return p, nil
}

// run keeps one OS thread for the program's life: the kernel sends Pdeathsig when the thread that started it ends.
func (p *Process) run(cmd *exec.Cmd, out *pipes, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.done)
	err := cmd.Start()
	out.started()
	if err != nil {
		p.reaped = true
		_, _ = out.finish()
		started <- err
		return
	}
	p.pid = cmd.Process.Pid
	started <- nil
	p.await(p.pid)
	_ = cmd.Wait() // its error repeats the state
	p.exit.Tail, p.exit.LogErr = out.finish()
	p.exit.ExitCode = cmd.ProcessState.ExitCode()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		p.exit.Signal = status.Signal()
		p.exit.ExitCode = 128 + int(p.exit.Signal)
	}
}

// await blocks until the program is a zombie and kills what it left in its group while its pid can not be reused.
func (p *Process) await(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	p.reaped = true
}

// PID returns the program's process ID, which is also its group's.
func (p *Process) PID() int { return p.pid }

// Done is closed when the program has ended and all its output was delivered.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait blocks until Done and tells how the program ended.
func (p *Process) Wait() Exit {
	<-p.done
	return p.exit
}

// Stop sends SIGTERM to the program's group, SIGKILL after the grace, and blocks until the program has ended. It may be
// called at any time and more than once.
func (p *Process) Stop(grace time.Duration) {
	p.signal(syscall.SIGTERM)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return
	case <-timer.C:
	}
	p.signal(syscall.SIGKILL)
	<-p.done
}

func (p *Process) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		_ = syscall.Kill(-p.pid, sig)
	}
}

// pipes are the two that the program prints to.
type pipes struct {
	out     *Output
	r, w    [2]*os.File // stdout, stderr
	readers sync.WaitGroup
}

func newPipes(spec Spec) (*pipes, error) {
	p := &pipes{}
	for i := range p.r {
		var err error
		if p.r[i], p.w[i], err = os.Pipe(); err != nil {
			_ = p.r[0].Close() // of the first one, if it is there
			_ = p.w[0].Close()
			return nil, fmt.Errorf("make pipe: %w", err)
		}
	}
	p.out = NewOutput(OutputConfig{Line: spec.Line, LogTail: spec.LogTail, LogFile: spec.LogFile})
	return p, nil
}

// started frees this process's copies of the program's ends and begins to read.
func (p *pipes) started() {
	for i, name := range []string{"stdout", "stderr"} {
		_ = p.w[i].Close()
		p.readers.Go(func() {
			to := p.out.Stream(name)
			_, _ = io.Copy(to, p.r[i]) // the end and the deadline are all the same
			_ = to.Close()
			_ = p.r[i].Close()
		})
	}
}

// finish waits for the rest of the output, but not for ever.
func (p *pipes) finish() ([]string, error) {
	deadline := time.Now().Add(flushLimit)
	for _, r := range p.r {
		_ = r.SetReadDeadline(deadline)
	}
	p.readers.Wait()
	return p.out.Finish()
}
