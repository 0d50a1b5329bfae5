package launch

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/swarmd/swarmd/internal/child"
	"github.com/swarmd/swarmd/internal/mountns"
)

const (
	defaultGrace = 10 * time.Second
	defaultTail  = 20
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
	// Binds are directories that the program sees at other paths too, in a mount namespace of its own; see mountns.Become.
	Binds []mountns.Bind
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
	Lost     bool           // nobody knows whether it has ended: it may still run
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
	*child.Process
	exit Exit // set before Done is closed
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
	cmd := exec.Command(spec.Path, spec.Args...) //nolint:noctx // the group is signalled below, not only the leader
	cmd.Dir, cmd.Env = spec.Dir, spec.Env
	if cmd.Env == nil {
		cmd.Env = []string{} // nil would inherit
	}
	if len(spec.Binds) > 0 {
		if err := mountns.Wrap(cmd, spec.Binds); err != nil {
			return nil, fmt.Errorf("start %s: %w", spec.Name, err)
		}
	}
	out := NewOutput(OutputConfig{Line: spec.Line, LogTail: spec.LogTail, LogFile: spec.LogFile})
	read := func(stream string) func(io.Reader) {
		to := out.Stream(stream)
		return func(r io.Reader) {
			_, _ = io.Copy(to, r) // the end and the deadline are all the same
			_ = to.Close()
		}
	}
	p := &Process{}
	run, err := child.Start(cmd, child.Output{Stdout: read("stdout"), Stderr: read("stderr")}, func(state *os.ProcessState) {
		p.exit.Tail, p.exit.LogErr = out.Finish()
		p.exit.ExitCode, p.exit.Signal = child.ExitCode(state)
	})
	if err != nil {
		_, _ = out.Finish()
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	p.Process = run
	grace := spec.Grace
	if grace <= 0 {
		grace = defaultGrace
	}
	go func() {
		select {
		case <-p.Done():
		case <-ctx.Done():
			p.Stop(grace)
		}
	}()
	return p, nil
}

// Wait blocks until Done and tells how the program ended.
func (p *Process) Wait() Exit {
	<-p.Done()
	return p.exit
}
