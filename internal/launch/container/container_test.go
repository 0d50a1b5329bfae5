package container_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/launch/container"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

// lab is a launcher at the machine's engine, with a scope of its own in which nothing may be left.
type lab struct {
	*container.Launcher
	engine *engine.Engine
	scope  string
	log    *syncBuffer
}

func newLab(t *testing.T) *lab {
	t.Helper()
	e := enginetest.Engine(t)
	scope := enginetest.Scope(t)
	enginetest.Clean(t, scope)
	log := &syncBuffer{}
	return &lab{container.New(e, slog.New(slog.NewTextHandler(log, nil))), e, scope, log}
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func (s *syncBuffer) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.b.Reset()
}

// sh is a Spec that runs a shell script.
func (l *lab) sh(script string) container.Spec {
	return container.Spec{
		Node: "sl-1", Platform: "PYT", Scope: l.scope, Image: enginetest.TestImage, User: "1000:1000",
		Entrypoint: []string{"/bin/sh", "-c"}, Cmd: []string{script}, Grace: time.Second,
	}
}

func (l *lab) start(t *testing.T, spec container.Spec) *container.Program {
	t.Helper()
	p, err := l.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Wait() }) // t.Context has ended
	return p
}

// lines collects output and lets a test wait for it.
type lines struct {
	mu   sync.Mutex
	got  []string
	seen chan string
}

// kept is the last time that Spec.Delivered was called with.
type kept struct{ at atomic.Pointer[time.Time] }

func (k *kept) put(at time.Time) { k.at.Store(&at) }

func (k *kept) get() time.Time {
	if at := k.at.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

func newLines() *lines { return &lines{seen: make(chan string, 10_000)} }

func (l *lines) add(stream, line string) {
	l.mu.Lock()
	l.got = append(l.got, stream+":"+line)
	l.mu.Unlock()
	l.seen <- line
}

func (l *lines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.got...)
}

// await waits for a line.
func (l *lines) await(t *testing.T, want string) {
	t.Helper()
	limit := time.NewTimer(enginetest.Timeout)
	defer limit.Stop()
	for {
		select {
		case line := <-l.seen:
			if line == want {
				return
			}
		case <-limit.C:
			t.Fatalf("no line %q; got %q", want, l.all())
		}
	}
}

func hostDir(t *testing.T, mode os.FileMode) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, mode); err != nil {
		t.Fatal(err)
	}
	// The test's directory is the caller's alone, but the engine mounts without walking through it.
	return dir
}

func TestRunsAProgram(t *testing.T) {
	l := newLab(t)
	model, data := hostDir(t, 0o777), hostDir(t, 0o755)
	if err := os.WriteFile(filepath.Join(model, "train.py"), []byte(`
import getpass, os, sys
print("hello", sys.argv[1:])
print("user", os.getuid(), os.getgid(), getpass.getuser())
print(os.getcwd(), os.environ["DATA_DIR"], os.environ["MODEL_DIR"], os.environ["HOME"], os.environ["EXTRA"])
open("out", "w").write("x")
open(os.environ["TMPDIR"] + "/t", "w").write("x")
print("last", end="", flush=True)
sys.stderr.write("to stderr\n")
sys.exit(7)
`), 0o644); err != nil {
		t.Fatal(err)
	}
	got := newLines()
	spec := container.Spec{
		Node: "sl-1", Platform: "pyt", Image: enginetest.TestImage, User: "1234:5678", DataDir: data, ModelDir: model,
		Program: "train.py", Args: []string{"--lr", "", "$HOME *"}, Env: []string{"EXTRA=1"}, Line: got.add, LogFile: launch.LogFile(model, "train.py"), LogTail: 2,
	}
	exit := l.start(t, spec).Wait()
	if exit.ExitCode != 7 || exit.Signal != 0 || exit.Reason != "" || exit.LogErr != nil || len(exit.Tail) != 2 {
		t.Errorf("exit is %+v, want code 7 and two lines", exit)
	}
	var out, stderr []string
	for _, line := range got.all() {
		if text, ok := strings.CutPrefix(line, "stderr:"); ok {
			stderr = append(stderr, text)
		} else {
			out = append(out, strings.TrimPrefix(line, "stdout:"))
		}
	}
	want := []string{"hello ['--lr', '', '$HOME *']", "user 1234 5678 swarm", "/platform/swarmml/model /platform/swarmml/data /platform/swarmml/model /tmp 1", "last"}
	if diff := cmp.Diff(out, want); diff != "" {
		t.Errorf("stdout (-got +want):\n%s", diff)
	}
	if diff := cmp.Diff(stderr, []string{"to stderr"}); diff != "" {
		t.Errorf("stderr (-got +want):\n%s", diff)
	}
	log, err := os.ReadFile(filepath.Join(model, "train_sw.log"))
	if err != nil || len(strings.Split(strings.TrimSpace(string(log)), "\n")) != 5 {
		t.Errorf("log file holds %q, %v, want the five lines", log, err)
	}
	if left := enginetest.Left(t, l.engine, l.scope); len(left) != 0 {
		t.Errorf("%v is left after Wait", left)
	}
}

func TestStop(t *testing.T) {
	l := newLab(t)
	got := newLines()
	spec := l.sh("trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.05; done")
	spec.Line = got.add
	p := l.start(t, spec)
	got.await(t, "up")
	p.Stop(enginetest.Timeout)
	if exit := p.Wait(); exit.String() != "exit code 3" || exit.Tail[len(exit.Tail)-1] != "bye" {
		t.Errorf("got %v with %q, want exit code 3 after bye", exit, exit.Tail)
	}
	p.Stop(time.Second) // a second time is allowed

	got = newLines()
	spec = l.sh("trap '' TERM; echo up; while :; do sleep 0.05; done")
	spec.Line = got.add
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p, err := l.Start(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	got.await(t, "up")
	cancel() // asks it to stop, then kills it
	if exit := p.Wait(); exit.Signal != syscall.SIGKILL || exit.Reason != "" {
		t.Errorf("got %v, want SIGKILL and no reason but our own", exit)
	}
	if _, err := l.Start(ctx, spec); err == nil {
		t.Error("started after its context ended")
	}
}
