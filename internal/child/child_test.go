package child_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/swarmd/swarmd/internal/child"
)

// printed collects what a stream brings.
func printed(to *strings.Builder) func(io.Reader) {
	return func(r io.Reader) { _, _ = io.Copy(to, r) }
}

func start(t *testing.T, script string, out child.Output, ended func(*os.ProcessState)) *child.Process {
	t.Helper()
	p, err := child.Start(exec.Command("sh", "-c", script), out, ended)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop(0) })
	return p
}

// TestAllIsReadBeforeDone: both streams, and how it ended is told before.
func TestAllIsReadBeforeDone(t *testing.T) {
	var out, errs strings.Builder
	ends := ""
	p := start(t, "echo a; echo b >&2; echo c; exit 3", child.Output{Stdout: printed(&out), Stderr: printed(&errs)}, func(s *os.ProcessState) {
		code, signal := child.ExitCode(s)
		ends = fmt.Sprint(code, signal == 0, out.String(), errs.String())
	})
	<-p.Done()
	if want := fmt.Sprint(3, true, "a\nc\n", "b\n"); ends != want {
		t.Errorf("got %q, want %q", ends, want)
	}
	if p.Signal(syscall.SIGTERM) {
		t.Error("a program that has ended took a signal")
	}
	var both strings.Builder
	<-start(t, "echo a; echo b >&2; echo c", child.Output{Stdout: printed(&both)}, nil).Done()
	if both.String() != "a\nb\nc\n" {
		t.Errorf("both streams are %q", both.String())
	}
}

// TestTheGroupEndsWithTheProgram: also one that ignores SIGTERM, and what a program that has ended leaves behind.
func TestTheGroupEndsWithTheProgram(t *testing.T) {
	for name, script := range map[string]string{
		"left behind": "sleep 1000 & echo $!; exit 0",
		"stubborn":    "trap '' TERM; (trap '' TERM; sleep 1000) & echo $!; while :; do sleep 1; done",
	} {
		var out strings.Builder
		first := make(chan struct{})
		p := start(t, script, child.Output{Stdout: func(r io.Reader) {
			b := make([]byte, 16)
			n, _ := r.Read(b)
			out.Write(b[:n])
			close(first)
			_, _ = io.Copy(io.Discard, r)
		}}, nil)
		<-first
		p.Stop(50 * time.Millisecond)
		pid := 0
		if _, err := fmt.Sscan(out.String(), &pid); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(10 * time.Second); syscall.Kill(pid, 0) == nil && !zombie(pid); <-time.After(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: process %d lives on", name, pid)
			}
		}
	}
}

// zombie reports whether a process has ended and waits for whoever adopted it.
func zombie(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(b), ") Z ")
}

// TestAPipeThatIsHeldOpen: by a process that left the group, which is not waited for.
func TestAPipeThatIsHeldOpen(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("no setsid on this machine")
	}
	var out strings.Builder
	p := start(t, "setsid sleep 20 & sleep 0.3; echo a", child.Output{Stdout: printed(&out)}, nil)
	select {
	case <-p.Done():
	case <-time.After(15 * time.Second):
		t.Fatal("it is waited for who holds the pipe")
	}
	if out.String() != "a\n" {
		t.Errorf("got %q", out.String())
	}
}

func TestAProgramThatIsNotThere(t *testing.T) {
	if p, err := child.Start(exec.Command("/no/such/program"), child.Output{Stdout: printed(&strings.Builder{})}, nil); err == nil {
		t.Errorf("started %d", p.PID())
	}
}
