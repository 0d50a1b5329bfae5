package container_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	dockercontainer "github.com/docker/docker/api/types/container"
	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/launch/container"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

// counting prints numbers on both streams, one stream's odd, the other's even, until it is asked to stop.
const counting = `trap 'echo bye; exit 5' TERM; echo up; i=0
while :; do i=$((i+1)); if [ $((i%2)) = 0 ]; then echo $i >&2; else echo $i; fi; [ $((i%200)) = 0 ] && sleep 0.05; done`

// numbers returns what a stream's lines counted.
func numbers(t *testing.T, all []string, stream string) (list []int) {
	t.Helper()
	for _, line := range all {
		text, ok := strings.CutPrefix(line, stream+":")
		if !ok || text == "up" || text == "bye" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("line %q", line)
		}
		list = append(list, n)
	}
	return list
}

// wantUnbroken demands that no line is missing and none comes twice.
func wantUnbroken(t *testing.T, all []string) {
	t.Helper()
	wantOrder(t, all, 0)
}

// wantOrder wants no line twice and none out of its order, and lines to be missing in so many places at most: an engine that
// is stopped or killed itself loses what it has read of the program's output and not yet written to its log.
func wantOrder(t *testing.T, all []string, gaps int) {
	t.Helper()
	for stream, first := range map[string]int{"stdout": 1, "stderr": 2} {
		got, left := numbers(t, all, stream), gaps
		next := first
		for i, n := range got {
			if n > next && left > 0 {
				left, next = left-1, n
			}
			if n != next {
				t.Errorf("%s: line %d is %d, want %d", stream, i, n, next)
				break
			}
			next += 2
		}
		if len(got) < 100 {
			t.Errorf("%s: only %d lines", stream, len(got))
		}
	}
}

func (l *lab) find(t *testing.T) []container.Found {
	t.Helper()
	found, err := l.Find(t.Context(), "sl-1", l.scope)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestTakesUpAProgram(t *testing.T) {
	l := newLab(t)
	model := hostDir(t, 0o777)
	var delivered kept
	got := newLines()
	spec := l.sh(counting)
	spec.Delivered = delivered.put
	spec.Line, spec.Incarnation, spec.ModelDir, spec.LogFile = got.add, "incarnation-1", model, launch.LogFile(model, "x.py")
	first, err := l.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	got.await(t, "300")
	first.Abandon()

	found := l.find(t)
	if len(found) != 1 {
		t.Fatalf("found %v, want one container", found)
	}
	f := found[0]
	if f.ID != first.ID() || f.Incarnation != "incarnation-1" || f.State != "running" || f.Platform != "PYT" || f.Started.IsZero() || !f.Finished.IsZero() {
		t.Errorf("found %+v", f)
	}
	spec.LogSince = delivered.get()
	if spec.LogSince.IsZero() {
		t.Error("the first daemon does not know how far it came")
	}
	second, err := l.Adopt(t.Context(), f, spec)
	if err != nil {
		t.Fatal(err)
	}
	if second.Incarnation() != "incarnation-1" {
		t.Errorf("incarnation is %q", second.Incarnation())
	}
	got.await(t, "1000")
	second.Stop(enginetest.Timeout)
	exit := second.Wait()
	// The engine keeps no order between the streams: bye may come before the other one's last lines.
	if exit.String() != "exit code 5" || len(exit.Tail) != 20 || !slices.Contains(exit.Tail, "bye") {
		t.Errorf("got %s with %q, want exit code 5 and bye among the last 20 lines", exit, exit.Tail)
	}
	wantUnbroken(t, got.all())
	log, err := os.ReadFile(filepath.Join(model, "x_sw.log"))
	if n := strings.Count(string(log), "\n"); err != nil || n != len(got.all()) {
		t.Errorf("the log file has %d lines, %v, want %d", n, err, len(got.all()))
	}
	if found := l.find(t); len(found) != 0 {
		t.Errorf("found %v after the end", found)
	}
}

func TestTakesUpAnEndedProgram(t *testing.T) {
	l := newLab(t)
	var delivered kept
	got := newLines()
	spec := l.sh("echo one; echo two; sleep 0.3; exit 4")
	spec.Delivered = delivered.put
	spec.Line = got.add
	first, err := l.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	got.await(t, "two")
	first.Abandon()
	ended, failed := l.engine.ContainerWait(t.Context(), first.ID(), dockercontainer.WaitConditionNotRunning)
	select {
	case <-ended:
	case err := <-failed:
		t.Fatal(err)
	}
	found := l.find(t)
	if len(found) != 1 || found[0].State != "exited" || found[0].ExitCode != 4 || found[0].Finished.IsZero() {
		t.Fatalf("found %+v, want one that exited with 4", found)
	}
	spec.LogSince = delivered.get()
	second, err := l.Adopt(t.Context(), found[0], spec)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(second.Wait(), launch.Exit{ExitCode: 4, Tail: []string{"one", "two"}}); diff != "" {
		t.Errorf("exit (-got +want):\n%s", diff)
	}
	if diff := cmp.Diff(got.all(), []string{"stdout:one", "stdout:two"}); diff != "" {
		t.Errorf("lines (-got +want):\n%s", diff)
	}
}

func TestCreatedAndNeverStarted(t *testing.T) {
	l := newLab(t)
	labels := map[string]string{
		engine.LabelRole: engine.RoleML, engine.LabelNode: "sl-1", engine.LabelScope: l.scope, engine.LabelIncarnation: "l",
	}
	create := func() string {
		made, err := l.engine.ContainerCreate(t.Context(), &dockercontainer.Config{Image: enginetest.TestImage, Labels: labels}, nil, nil, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		return made.ID
	}
	id := create()
	found := l.find(t)
	if len(found) != 1 || found[0].ID != id || found[0].State != "created" || !found[0].Started.IsZero() {
		t.Fatalf("found %+v, want one that was created", found)
	}
	if _, err := l.Adopt(t.Context(), found[0], container.Spec{}); err == nil || !strings.Contains(err.Error(), "never started") {
		t.Errorf("took it up: %v", err)
	}
	if err := l.Remove(t.Context(), found[0]); err != nil {
		t.Error(err)
	}
	if err := l.Remove(t.Context(), found[0]); err != nil {
		t.Errorf("a second time: %v", err)
	}
	// What is not the node's own is neither found nor removed.
	labels[engine.LabelNode] = "sl-2"
	other := create()
	if found := l.find(t); len(found) != 0 {
		t.Errorf("found %v", found)
	}
	if err := l.Remove(t.Context(), container.Found{ID: other, Node: "sl-1", Scope: l.scope}); err == nil {
		t.Error("removed another node's container")
	}
	if err := l.Remove(t.Context(), container.Found{ID: other, Node: "sl-2", Scope: l.scope}); err != nil {
		t.Error(err)
	}
}

func TestRemoveStopsARunningProgram(t *testing.T) {
	l := newLab(t)
	var delivered kept
	got := newLines()
	spec := l.sh(counting)
	spec.Delivered = delivered.put
	spec.Line = got.add
	p, err := l.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	got.await(t, "up")
	p.Abandon()
	if err := l.Remove(t.Context(), l.find(t)[0]); err != nil {
		t.Error(err)
	}
	if found := l.find(t); len(found) != 0 {
		t.Errorf("found %v", found)
	}
}

func TestContainerVanishes(t *testing.T) {
	l := newLab(t)
	got := newLines()
	spec := l.sh("echo up; sleep 1000")
	spec.Line = got.add
	p := l.start(t, spec)
	got.await(t, "up")
	if err := l.engine.ContainerRemove(t.Context(), p.ID(), dockercontainer.RemoveOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	// Removing kills first, which may be seen.
	if exit := p.Wait(); !strings.Contains(exit.Reason, "vanished") && !strings.Contains(exit.Reason, "killed from outside") {
		t.Errorf("got %v", exit)
	}
	// One that vanishes while nobody looks.
	p, err := l.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	got.await(t, "up")
	p.Abandon()
	found := l.find(t)
	if err := l.Remove(t.Context(), found[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Adopt(t.Context(), found[0], spec); !errdefs.IsNotFound(err) {
		t.Errorf("adopted: %v", err)
	}
}

func TestWhyItEnded(t *testing.T) {
	l := newLab(t)
	for name, tt := range map[string]struct {
		change func(*container.Spec)
		script string
		want   string
	}{
		"memory": {
			func(s *container.Spec) { s.Memory = 64 << 20 }, `exec python3 -c 'x = bytearray(300 << 20)'`,
			"killed by signal 9 (killed): killed for memory (limit 64 MiB): raise --ml-memory",
		},
		"shared memory": {
			func(s *container.Spec) { s.ShmSize = 1 << 20 },
			`exec python3 -c 'import mmap; f = open("/dev/shm/x", "w+b"); f.truncate(8 << 20); m = mmap.mmap(f.fileno(), 8 << 20); m[:] = bytes(8 << 20)'`,
			"killed by signal 7 (bus error): shared memory is too small for the data loaders (1 MiB): raise --ml-shm-size",
		},
		"command missing": {func(*container.Spec) {}, `exec no-such-command`, "exit code 127: usually the command is not in the image: check --ml-cmd, --ml-entrypoint and --ml-image"},
		"not executable":  {func(*container.Spec) {}, `exec /etc/passwd`, "exit code 126: usually the command can not be executed: check its permissions, --ml-cmd and --ml-entrypoint"},
		"killed":          {func(*container.Spec) {}, `kill -9 $$; sleep 1000`, "killed by signal 9 (killed): killed from outside, by hand or because this machine had no more memory"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := l.sh(tt.script)
			tt.change(&spec)
			if got := l.start(t, spec).Wait(); got.String() != tt.want {
				t.Errorf("got  %s\nwant %s\ntail %q", got, tt.want, got.Tail)
			}
		})
	}
	// Without a shell between it is the engine, or its init, that finds no command.
	spec := l.sh("")
	spec.Entrypoint, spec.Cmd = []string{"no-such-command"}, nil
	p, err := l.Start(t.Context(), spec)
	if err == nil {
		if exit := p.Wait(); !strings.Contains(exit.String(), "not in the image") {
			t.Errorf("got %v", exit)
		}
	} else if !strings.Contains(err.Error(), "no-such-command") {
		t.Errorf("got %v", err)
	}
}

func TestLongAndOddLines(t *testing.T) {
	l := newLab(t)
	got := newLines()
	spec := l.sh(`python3 -c 'print("x" * 100_000); print("a\rb"); print("")'; echo; printf 'no end'`)
	spec.Line = got.add
	l.start(t, spec).Wait()
	var lengths []string
	for _, line := range got.all() {
		lengths = append(lengths, fmt.Sprint(len(line)-len("stdout:")))
	}
	// 64 KiB is as long as a line may be.
	if diff := cmp.Diff(lengths, []string{"65536", "34464", "1", "0", "0", "6"}); diff != "" {
		t.Errorf("lengths of lines (-got +want):\n%s", diff)
	}
}

func TestEngineIsRestarted(t *testing.T) {
	t.Parallel()
	for _, live := range []bool{false, true} {
		opts := []enginetest.Option{enginetest.Images("swarm-base:latest")}
		if live {
			opts = append(opts, enginetest.LiveRestore)
		}
		t.Run(fmt.Sprintf("live-restore %t", live), func(t *testing.T) {
			t.Parallel()
			private := enginetest.Private(t, opts...)
			l := &lab{engine: private.Engine(), scope: "private", log: &syncBuffer{}}
			l.Launcher = container.New(l.engine, slog.New(slog.NewTextHandler(l.log, nil)))
			for name, interrupt := range map[string]func(){"stop": private.Stop, "kill": private.Kill} {
				got := newLines()
				spec := l.sh(counting)
				spec.Image, spec.Line, spec.AwayHelp = "swarm-base:latest", got.add, "try another"
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				p, err := l.Start(ctx, spec)
				if err != nil {
					t.Fatal(err)
				}
				got.await(t, "300")
				interrupt()
				if live {
					l.awaitLog(t, "does not answer")
					l.awaitLog(t, "try another")
				}
				private.Start()
				if live {
					at := len(got.all())
					l.awaitLog(t, "is back")
					got.await(t, strconv.Itoa(2*at+1000))
					p.Stop(enginetest.Timeout)
				}
				exit := p.Wait()
				t.Logf("%s: %s, %d lines", name, exit, len(got.all()))
				if live && exit.String() != "exit code 5" {
					t.Errorf("%s: got %s", name, exit)
				}
				if !live && !strings.Contains(exit.Reason, "live-restore") {
					t.Errorf("%s: got %s, want live-restore as the remedy", name, exit)
				}
				wantOrder(t, got.all(), 1)
				if found := l.find(t); len(found) != 0 {
					t.Errorf("%s: found %v after the end", name, found)
				}
				l.log.reset()
			}
		})
	}
}

func (l *lab) awaitLog(t *testing.T, want string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(enginetest.Timeout)
	defer limit.Stop()
	for !strings.Contains(l.log.String(), want) {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("log lacks %q: %s", want, l.log.String())
		}
	}
}
