package e2e_test

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

// patience bounds every wait: far more than any needs on a slow machine, so that a hang is an error and not a guess.
const patience = 60 * time.Second

// proc is one process in a group of its own, which dies with the test, whatever happens.
type proc struct {
	t    *testing.T
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when it ended and all its output is here

	mu      sync.Mutex
	out     bytes.Buffer
	changed chan struct{} // closed and replaced at each output
}

// start runs a binary of binDir. env is added to a minimal environment, so that the user's own does not leak in.
func start(t *testing.T, name, dir string, env []string, args ...string) *proc {
	t.Helper()
	p := &proc{t: t, name: name, done: make(chan struct{}), changed: make(chan struct{})}
	p.cmd = exec.Command(filepath.Join(binDir, args[0]), args[1:]...)
	p.cmd.Dir = dir
	p.cmd.Env = append([]string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + dir, "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1"}, env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p.cmd.WaitDelay = 3 * time.Second
	p.cmd.Stdout, p.cmd.Stderr = p, p
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // the state says how it ended
		close(p.done)
	}()
	t.Cleanup(func() {
		p.signal(syscall.SIGKILL)
		<-p.done
		if t.Failed() {
			t.Logf("---- %s\n%s", name, last(p.output(), 40))
		}
	})
	return p
}

// Write implements io.Writer for the process's output.
func (p *proc) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.changed)
	p.changed = make(chan struct{})
	return p.out.Write(b)
}

func (p *proc) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// sees waits until the output holds all of the texts. It fails when the process ends without.
func (p *proc) sees(texts ...string) {
	p.t.Helper()
	deadline := time.After(patience)
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
		case <-p.done:
			if !strings.Contains(p.output(), missing) {
				p.t.Fatalf("%s ended (%s) without saying %q", p.name, p.cmd.ProcessState, missing)
			}
		case <-deadline:
			p.t.Fatalf("%s does not say %q within %s", p.name, missing, patience)
		}
	}
}

// exits waits for the end and returns the exit code, -1 if a signal ended it.
func (p *proc) exits() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Fatalf("%s does not end within %s", p.name, patience)
	}
	return p.cmd.ProcessState.ExitCode()
}

// signal goes to the whole group: an SL's program has one of its own, which dies with its daemon.
func (p *proc) signal(s syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, s) }

// kill ends the daemon alone with SIGKILL, as the out-of-memory killer would, and waits.
func (p *proc) kill() {
	p.t.Helper()
	_ = p.cmd.Process.Kill()
	p.exits()
}

// stop asks for an end as `docker stop` and systemd do, and wants it clean and soon.
func (p *proc) stop() {
	p.t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	p.ended()
}

// ended wants the clean and soon end of a process that was asked for it.
func (p *proc) ended() {
	p.t.Helper()
	begin := time.Now()
	if code := p.exits(); code != 0 {
		p.t.Errorf("%s: exit code %d after SIGTERM, want 0", p.name, code)
	}
	if took := time.Since(begin); took > 15*time.Second {
		p.t.Errorf("%s took %s to end after SIGTERM", p.name, took)
	}
}

// fails waits for exit code 1 and returns the one line with which the process explained itself: the last one.
func (p *proc) fails(want ...string) string {
	p.t.Helper()
	if code := p.exits(); code != 1 {
		p.t.Errorf("%s: exit code %d, want 1", p.name, code)
	}
	line := ""
	for l := range strings.Lines(p.output()) {
		if strings.HasPrefix(l, "swarmd: ") {
			line = strings.TrimSpace(l)
		}
	}
	for _, w := range want {
		if !strings.Contains(line, w) {
			p.t.Errorf("%s says %q, want it to contain %q", p.name, line, w)
		}
	}
	return line
}

func last(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
