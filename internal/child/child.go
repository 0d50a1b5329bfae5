// Package child runs programs that die with this process: each in a process group of its own, which is ended as a whole.
package child

import (
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

// flushLimit bounds the wait for output after a program has ended: a process that left its group may hold the pipe.
const flushLimit = 2 * time.Second

// Output is who reads what a program prints. Each function reads one stream until it ends, in a goroutine of its own; what it leaves
// unread is lost. Stderr may be nil: then both streams are one, Stdout's.
type Output struct {
	Stdout, Stderr func(io.Reader)
}

// Process is a running or ended program. Its methods are safe for concurrent use.
type Process struct {
	pid   int
	done  chan struct{}
	state *os.ProcessState // set before done is closed

	mu     sync.Mutex
	reaped bool // the pid may belong to somebody else
}

// Start starts cmd, of which it sets standard output, standard error, and in SysProcAttr group and signal. The program is killed when this process dies,
// however it dies. When it has ended, its output was read and what it left in its group is killed, ended is called, if it is not nil,
// before Done is closed. The caller must receive from Done, or Stop it.
func Start(cmd *exec.Cmd, out Output, ended func(*os.ProcessState)) (*Process, error) {
	return StartOn(cmd, out, ended, nil)
}

// StartOn is Start on a thread that something was done to before, which goes with the program: the program has what holds for that. Nil: nothing was.
func StartOn(cmd *exec.Cmd, out Output, ended func(*os.ProcessState), before func() error) (*Process, error) {
	pipes, err := newPipes(cmd, out)
	if err != nil {
		return nil, err
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Pdeathsig = true, syscall.SIGKILL
	p := &Process{done: make(chan struct{})}
	started := make(chan error, 1)
	go p.run(cmd, pipes, started, ended, before)
	if err := <-started; err != nil {
		<-p.done
		return nil, err
	}
	return p, nil
}

// run keeps one OS thread for the program's life: the kernel sends Pdeathsig when the thread that started it ends.
func (p *Process) run(cmd *exec.Cmd, out *pipes, started chan<- error, ended func(*os.ProcessState), before func() error) {
	runtime.LockOSThread()
	defer close(p.done)
	var err error
	if before == nil {
		defer runtime.UnlockOSThread()
	} else {
		err = before()
	}
	if err == nil {
		err = cmd.Start()
	}
	out.begin(err == nil)
	if err != nil {
		p.reaped = true
		started <- err
		return
	}
	p.pid = cmd.Process.Pid
	started <- nil
	p.await()
	_ = cmd.Wait() // its error repeats the state
	out.finish()
	p.state = cmd.ProcessState
	if ended != nil {
		ended(p.state)
	}
}

// await blocks until the program is a zombie and kills what it left in its group while its pid can not be reused.
func (p *Process) await() {
	for {
		err := unix.Waitid(unix.P_PID, p.pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = syscall.Kill(-p.pid, syscall.SIGKILL)
	p.reaped = true
}

// PID returns the program's process ID, which is also its group's.
func (p *Process) PID() int { return p.pid }

// Done is closed when the program has ended and all its output was read.
func (p *Process) Done() <-chan struct{} { return p.done }

// Signal sends a signal to the program's group, and reports whether the program ran.
func (p *Process) Signal(sig syscall.Signal) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		_ = syscall.Kill(-p.pid, sig)
	}
	return !p.reaped
}

// Stop sends SIGTERM to the program's group, SIGKILL after the grace, and blocks until Done. It may be called at any time and more
// than once.
func (p *Process) Stop(grace time.Duration) {
	p.Signal(syscall.SIGTERM)
	p.KillAfter(grace)
}

// KillAfter blocks until Done. After the grace it sends SIGKILL to the program's group.
func (p *Process) KillAfter(grace time.Duration) {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return
	case <-timer.C:
	}
	p.Signal(syscall.SIGKILL)
	<-p.done
}

// ExitCode returns a program's exit status, or 128 and the number of the signal that ended it, as in a shell; signal is 0 unless one did.
func ExitCode(state *os.ProcessState) (code int, signal syscall.Signal) {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), status.Signal()
	}
	return state.ExitCode(), 0
}

// pipes are those that a program prints to.
type pipes struct {
	read    []func(io.Reader)
	r, w    []*os.File
	readers sync.WaitGroup
}

func newPipes(cmd *exec.Cmd, out Output) (*pipes, error) {
	p := &pipes{read: []func(io.Reader){out.Stdout}}
	if out.Stderr != nil {
		p.read = append(p.read, out.Stderr)
	}
	for range p.read {
		r, w, err := os.Pipe()
		if err != nil {
			p.begin(false)
			return nil, fmt.Errorf("make pipe: %w", err)
		}
		p.r, p.w = append(p.r, r), append(p.w, w)
	}
	cmd.Stdout, cmd.Stderr = p.w[0], p.w[len(p.w)-1]
	return p, nil
}

// begin frees this process's copies of the program's ends and begins to read, unless nothing was started.
func (p *pipes) begin(started bool) {
	for i, w := range p.w {
		_ = w.Close()
		if !started {
			_ = p.r[i].Close()
			continue
		}
		p.readers.Go(func() {
			p.read[i](p.r[i])
			_ = p.r[i].Close()
		})
	}
}

// finish waits for the rest of the output, but not for ever.
func (p *pipes) finish() {
	deadline := time.Now().Add(flushLimit)
	for _, r := range p.r {
		_ = r.SetReadDeadline(deadline)
	}
	p.readers.Wait()
}
