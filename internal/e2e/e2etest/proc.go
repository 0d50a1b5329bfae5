// Package e2etest runs swarmd processes with ML programs for tests: start, watch, kill, and look at what they leave. Each
// process dies with its test, whatever happens.
package e2etest

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Timeout bounds every wait: far more than any needs on a slow machine, so that a hang is an error and not a guess.
const Timeout = 60 * time.Second

// Proc is one process in a group of its own, which dies with the test, whatever happens.
type Proc struct {
	T    *testing.T
	Name string
	Cmd  *exec.Cmd
	Done chan struct{} // closed when it ended and all its output is here

	mu      sync.Mutex
	out     bytes.Buffer
	changed chan struct{} // closed and replaced at each output
}

// Start runs a binary of BinDir, or one with an absolute path. env is added to a minimal environment, so that the user's own does not leak in.
func Start(t *testing.T, name, dir string, env []string, args ...string) *Proc {
	t.Helper()
	p := &Proc{T: t, Name: name, Done: make(chan struct{}), changed: make(chan struct{})}
	binary := args[0]
	if !filepath.IsAbs(binary) {
		binary = filepath.Join(BinDir, binary)
	}
	p.Cmd = exec.Command(binary, args[1:]...)
	p.Cmd.Dir = dir
	p.Cmd.Env = append([]string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + dir, "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1"}, env...)
	p.Cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p.Cmd.WaitDelay = 3 * time.Second
	p.Cmd.Stdout, p.Cmd.Stderr = p, p
	if err := p.Cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	go func() {
		_ = p.Cmd.Wait() // the state says how it ended
		close(p.Done)
	}()
	t.Cleanup(func() {
		p.Signal(syscall.SIGKILL)
		<-p.Done
		if t.Failed() {
			t.Logf("---- %s\n%s", name, Last(p.Output(), 40))
		}
	})
	return p
}

// Write implements io.Writer for the process's output.
func (p *Proc) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.changed)
	p.changed = make(chan struct{})
	return p.out.Write(b)
}

// Output is all that the process said so far.
func (p *Proc) Output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// Sees waits until the output holds all of the texts. It fails when the process ends without.
func (p *Proc) Sees(texts ...string) {
	p.T.Helper()
	deadline := time.After(Timeout)
	for {
		p.mu.Lock()
		out, changed := p.out.String(), p.changed
		p.mu.Unlock()
		missing := ""
		for _, text := range texts {
			if !strings.Contains(out, text) {
				missing = text
			}
		}
		if missing == "" {
			return
		}
		select {
		case <-changed:
		case <-p.Done:
			if !strings.Contains(p.Output(), missing) {
				p.T.Fatalf("%s ended (%s) without saying %q", p.Name, p.Cmd.ProcessState, missing)
			}
		case <-deadline:
			p.T.Fatalf("%s does not say %q within %s", p.Name, missing, Timeout)
		}
	}
}

// Exits waits for the end and returns the exit code, -1 if a signal ended it.
func (p *Proc) Exits() int {
	p.T.Helper()
	return p.exits(Timeout)
}

func (p *Proc) exits(timeout time.Duration) int {
	p.T.Helper()
	select {
	case <-p.Done:
	case <-time.After(timeout):
		p.T.Fatalf("%s does not end within %s", p.Name, timeout)
	}
	return p.Cmd.ProcessState.ExitCode()
}

// Ends wants a process that does much to end well within its own time.
func (p *Proc) Ends(timeout time.Duration) {
	p.T.Helper()
	if code := p.exits(timeout); code != 0 {
		p.T.Errorf("%s: exit code %d, want 0", p.Name, code)
	}
}

// Signal goes to the whole group: an SL's program has one of its own, which dies with its daemon.
func (p *Proc) Signal(s syscall.Signal) { _ = syscall.Kill(-p.Cmd.Process.Pid, s) }

// Kill ends the daemon alone with SIGKILL, as the out-of-memory killer would, and waits.
func (p *Proc) Kill() {
	p.T.Helper()
	_ = p.Cmd.Process.Kill()
	p.Exits()
}

// Stop asks for an end as `docker stop` and systemd do, and wants it clean and soon.
func (p *Proc) Stop() {
	p.T.Helper()
	_ = p.Cmd.Process.Signal(syscall.SIGTERM)
	p.Ended()
}

// Ended wants the clean and soon end of a process that was asked for it.
func (p *Proc) Ended() {
	p.T.Helper()
	begin := time.Now()
	if code := p.Exits(); code != 0 {
		p.T.Errorf("%s: exit code %d after SIGTERM, want 0", p.Name, code)
	}
	if took := time.Since(begin); took > 15*time.Second {
		p.T.Errorf("%s took %s to end after SIGTERM", p.Name, took)
	}
}

// Fails waits for exit code 1 and returns the one line with which the process explained itself: the last one.
func (p *Proc) Fails(want ...string) string {
	p.T.Helper()
	if code := p.Exits(); code != 1 {
		p.T.Errorf("%s: exit code %d, want 1", p.Name, code)
	}
	line := ""
	for l := range strings.Lines(p.Output()) {
		if strings.HasPrefix(l, "swarmd: ") {
			line = strings.TrimSpace(l)
		}
	}
	for _, w := range want {
		if !strings.Contains(line, w) {
			p.T.Errorf("%s says %q, want it to contain %q", p.Name, line, w)
		}
	}
	return line
}

// Last returns the last n lines of a text.
func Last(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
