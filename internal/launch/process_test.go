package launch_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/mountns"
)

// TestMain lets the test binary play a daemon that starts a program and is killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == mountns.Command {
		os.Exit(mountns.Become(os.Args[2:]))
	}
	if folder, ok := os.LookupEnv("LAUNCH_TEST_DAEMON"); ok {
		spec := launch.Spec{Name: "child", Path: "sleep", Args: []string{"1000"}, Env: os.Environ()}
		if folder != "" {
			spec.Binds = binds(folder)
		}
		p, err := launch.Start(context.Background(), spec)
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		fmt.Println(p.PID())
		p.Wait()
		os.Exit(0)
	}
	before := runtime.NumGoroutine()
	code := m.Run()
	if f := flag.Lookup("test.fuzz"); f != nil && f.Value.String() != "" {
		os.Exit(code) // the fuzzing engine's own goroutines linger
	}
	for i := 0; i < 1000 && runtime.NumGoroutine() > before; i++ {
		runtime.Gosched()
		syscall.Select(0, nil, nil, nil, &syscall.Timeval{Usec: 2000})
	}
	if n := runtime.NumGoroutine(); code == 0 && n > before {
		buf := make([]byte, 1<<16)
		fmt.Printf("%d goroutines left behind:\n%s\n", n-before, buf[:runtime.Stack(buf, true)])
		code = 1
	}
	os.Exit(code)
}

type lines struct {
	mu   sync.Mutex
	list []string
	seen chan string
}

func newLines() *lines { return &lines{seen: make(chan string, 10_000)} }

func (l *lines) add(stream, line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, stream+":"+line)
	l.seen <- line
}

func sh(script string) launch.Spec {
	return launch.Spec{Name: "test", Path: "sh", Args: []string{"-c", script}, Env: []string{"PATH=" + os.Getenv("PATH"), "X=y"}}
}

func start(t *testing.T, spec launch.Spec) *launch.Process {
	t.Helper()
	p, err := launch.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop(0) })
	return p
}

func TestExit(t *testing.T) {
	for name, tt := range map[string]struct {
		script string
		want   launch.Exit
		text   string
	}{
		"zero":         {"exit 0", launch.Exit{}, "exit code 0"},
		"seven":        {"echo out; exit 7", launch.Exit{ExitCode: 7, Tail: []string{"out"}}, "exit code 7"},
		"signal":       {"kill -SEGV $$", launch.Exit{ExitCode: 139, Signal: syscall.SIGSEGV}, "killed by signal 11 (segmentation fault)"},
		"environment":  {"echo $X$HOME", launch.Exit{Tail: []string{"y"}}, "exit code 0"},
		"tail":         {"seq 1 100", launch.Exit{Tail: []string{"98", "99", "100"}}, "exit code 0"},
		"no newline":   {"printf abc", launch.Exit{Tail: []string{"abc"}}, "exit code 0"},
		"progress bar": {`printf '1%%\r2%%\r\n\nend\r'`, launch.Exit{Tail: []string{"2%", "", "end"}}, "exit code 0"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := sh(tt.script)
			spec.LogTail = 3
			got := start(t, spec).Wait()
			if diff := cmp.Diff(got, tt.want); diff != "" {
				t.Errorf("exit (-got +want):\n%s", diff)
			}
			if got.String() != tt.text {
				t.Errorf("got %q, want %q", got, tt.text)
			}
		})
	}
}

func TestLinesStreamAsTheyCome(t *testing.T) {
	l := newLines()
	spec := sh("echo first; read answer; echo second >&2")
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	spec.Args = []string{"-c", "echo first; read answer <" + fifo + "; echo second >&2"}
	spec.Line = l.add
	spec.LogFile = launch.LogFile(dir, "model/mnist.py")
	p := start(t, spec)
	if got := <-l.seen; got != "first" {
		t.Fatalf("got %q before the program went on, want first", got)
	}
	if err := os.WriteFile(fifo, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	p.Wait()
	if diff := cmp.Diff(l.list, []string{"stdout:first", "stderr:second"}); diff != "" {
		t.Errorf("lines (-got +want):\n%s", diff)
	}
	b, err := os.ReadFile(filepath.Join(dir, "mnist_sw.log"))
	if err != nil || string(b) != "first\nsecond\n" {
		t.Errorf("log file %q, %v", b, err)
	}
}

func TestLongLinesAreBounded(t *testing.T) {
	l := newLines()
	spec := sh("head -c 200000 /dev/zero | tr '\\0' a; echo; echo end")
	spec.Line = l.add
	exit := start(t, spec).Wait()
	total := 0
	for _, line := range l.list[:len(l.list)-1] {
		line = strings.TrimPrefix(line, "stdout:")
		if len(line) > 64<<10 {
			t.Errorf("a piece has %d bytes", len(line))
		}
		total += len(line)
	}
	if total != 200_000 {
		t.Errorf("got %d bytes of the line, want 200000", total)
	}
	for _, line := range exit.Tail {
		if len(line) > 4<<10+len("…") {
			t.Errorf("a tail line has %d bytes", len(line))
		}
	}
}

func TestLogFileNeverFollowsALink(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	if err := os.WriteFile(victim, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	spec := sh("echo x")
	spec.LogFile = filepath.Join(dir, "p_sw.log")
	if err := os.Symlink(victim, spec.LogFile); err != nil {
		t.Fatal(err)
	}
	if exit := start(t, spec).Wait(); exit.LogErr == nil {
		t.Error("the link was followed")
	}
	if b, _ := os.ReadFile(victim); len(b) != 0 {
		t.Errorf("victim has %q", b)
	}
}

func TestStop(t *testing.T) {
	l := newLines()
	spec := sh("trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.05; done")
	spec.Line = l.add
	p := start(t, spec)
	<-l.seen
	p.Stop(20 * time.Second)
	if exit := p.Wait(); exit.ExitCode != 3 {
		t.Errorf("got %v, want exit code 3", exit)
	}
	p.Stop(time.Second) // a second time is allowed

	l = newLines()
	spec = sh("trap '' TERM; echo up; while :; do sleep 0.05; done")
	spec.Line = l.add
	p = start(t, spec)
	<-l.seen
	p.Stop(50 * time.Millisecond)
	if exit := p.Wait(); exit.Signal != syscall.SIGKILL {
		t.Errorf("got %v, want SIGKILL", exit)
	}
}

func TestContextEndsProgram(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p, err := launch.Start(ctx, sh("exec sleep 1000"))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if exit := p.Wait(); exit.Signal != syscall.SIGTERM || exit.ExitCode != 143 {
		t.Errorf("got %v (%d), want SIGTERM (143)", exit, exit.ExitCode)
	}
	if _, err := launch.Start(ctx, sh("true")); err == nil {
		t.Error("started after its context ended")
	}
}

func TestGrandchildrenDieToo(t *testing.T) {
	l := newLines()
	spec := sh("sleep 1000 & echo $!; exit 4") // the grandchild holds the pipes, too
	spec.Line = l.add
	if exit := start(t, spec).Wait(); exit.ExitCode != 4 {
		t.Errorf("got %v, want exit code 4", exit)
	}
	waitGone(t, <-l.seen)
}

func TestProgramThatCanNotStart(t *testing.T) {
	for _, spec := range []launch.Spec{
		{Name: "a", Path: "/nonexistent/python3"},
		{Name: "b", Path: "sh", Dir: "/nonexistent"},
	} {
		_, err := launch.Start(t.Context(), spec)
		if err == nil || !strings.Contains(err.Error(), "/nonexistent") {
			t.Errorf("got %v, want an error that names the path", err)
		}
	}
}

func TestKilledDaemonTakesProgramAlong(t *testing.T) { killedDaemon(t, "") }

// killedDaemon starts a daemon that starts a program, with binds if folder is not empty, and kills the daemon.
func killedDaemon(t *testing.T, folder string) {
	t.Helper()
	daemon := exec.CommandContext(t.Context(), os.Args[0])
	daemon.Env = append(os.Environ(), "LAUNCH_TEST_DAEMON="+folder)
	out, err := daemon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	pid, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = daemon.Wait()
	waitGone(t, strings.TrimSpace(pid))
}

// binds are of a folder at a path that this machine does not have.
func binds(folder string) []mountns.Bind {
	return []mountns.Bind{{Source: folder, Target: "/platform-of-a-test/model"}}
}

// TestAProgramWithBindsIsLikeAnyOther: output, exit codes, signals, process ID, group, and the end of its daemon.
func TestAProgramWithBindsIsLikeAnyOther(t *testing.T) {
	t.Setenv("GORACE", "atexit_sleep_ms=0") // of this binary, by which the program is started
	folder := t.TempDir()
	if err := mountns.Check(t.Context(), binds(folder)); err != nil {
		t.Skipf("this machine lets this user make no mount namespace: %v", err)
	}
	l := newLines()
	spec := sh("echo $$ $(ps -o pgid= -p $$) $X $PWD; ls -d /platform-of-a-test/model; trap 'echo bye >&2; exit 3' TERM; echo up; while :; do sleep 0.05; done")
	spec.Binds, spec.Line, spec.Dir = binds(folder), l.add, folder
	p := start(t, spec)
	for line := range l.seen {
		if line == "up" {
			break
		}
	}
	p.Stop(20 * time.Second)
	want := []string{fmt.Sprintf("stdout:%[1]d %[1]d y %s", p.PID(), folder), "stdout:/platform-of-a-test/model", "stdout:up", "stderr:bye"}
	p.Wait()
	got := slices.DeleteFunc(l.list, func(line string) bool { return line == "stderr:Terminated" }) // the shell's word on its sleep
	if diff := cmp.Diff(got, want); diff != "" || p.Wait().ExitCode != 3 {
		t.Errorf("%v, want exit code 3; lines (-got +want):\n%s", p.Wait(), diff)
	}
	spec = sh("kill -SEGV $$")
	if spec.Binds = binds(folder); start(t, spec).Wait().Signal != syscall.SIGSEGV {
		t.Error("a signal is not told as the program's end")
	}
	spec = launch.Spec{Name: "a", Path: "/nonexistent/python3", Binds: binds(folder)}
	if exit := start(t, spec).Wait(); exit.ExitCode != 127 || !strings.Contains(strings.Join(exit.Tail, ""), "/nonexistent/python3") {
		t.Errorf("a program that is not there: %v, %q", exit, exit.Tail)
	}
	killedDaemon(t, folder)
}

// waitGone waits until the process is no more, or a zombie that its new parent has not yet collected.
func waitGone(t *testing.T, pid string) {
	t.Helper()
	if _, err := strconv.Atoi(pid); err != nil {
		t.Fatalf("no pid: %q", pid)
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range 2000 {
		b, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil || strings.Contains(string(b), ") Z ") {
			return
		}
		<-tick.C
	}
	t.Fatalf("process %s is still alive", pid)
}
