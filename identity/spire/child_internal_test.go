package spire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// lines is a handler that keeps what it is given.
type lines struct {
	mu   sync.Mutex
	text []string
	more chan struct{}
}

func newLines() *lines { return &lines{more: make(chan struct{}, 1)} }

func (h *lines) Enabled(context.Context, slog.Level) bool { return true }
func (h *lines) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h *lines) WithGroup(string) slog.Handler            { return h }
func (h *lines) Handle(_ context.Context, r slog.Record) error {
	text := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool { text += " " + a.Key + "=" + a.Value.String(); return true })
	h.mu.Lock()
	h.text = append(h.text, text)
	h.mu.Unlock()
	select {
	case h.more <- struct{}{}:
	default:
	}
	return nil
}

func (h *lines) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.text...)
}

// await blocks until a line contains want.
func (h *lines) await(t *testing.T, want string) string {
	t.Helper()
	limit := time.After(30 * time.Second)
	for {
		for _, l := range h.all() {
			if strings.Contains(l, want) {
				return l
			}
		}
		select {
		case <-h.more:
		case <-limit:
			t.Fatalf("no line with %q within 30 s; lines:\n%s", want, strings.Join(h.all(), "\n"))
		}
	}
}

func TestParseLine(t *testing.T) {
	for text, want := range map[string]line{
		`{"level":"warning","msg":"Current umask 0022","subsystem_name":"cli","a":"x \"y\""}`: {
			slog.LevelWarn, "Current umask 0022", []field{{"a", `x "y"`}, {"subsystem_name", "cli"}},
		},
		`{"level":"error","msg":"stopped"}`: {slog.LevelError, "stopped", nil},
		`{"level":"debug","msg":"hello","time":"x","pid":4194304,"a":"y","s":[{"type":"unix"}]}`: {
			slog.LevelDebug, "hello", []field{{"a", "y"}, {"pid", "4194304"}, {"s", `[{"type":"unix"}]`}},
		},
		`panic: a=b`:                             {slog.LevelInfo, `panic: a=b`, nil},
		`{"level":"info"}`:                       {slog.LevelInfo, `{"level":"info"}`, nil},
		`{"level":"info","m`:                     {slog.LevelInfo, `{"level":"info","m`, nil},
		`goroutine 1 [run]:`:                     {slog.LevelInfo, `goroutine 1 [run]:`, nil},
		`{"level":"info","msg":"a\nb\u001b[2J"}`: {slog.LevelInfo, "a\nb\x1b[2J", nil},
	} {
		if diff := cmp.Diff(want, parseLine(text), cmp.AllowUnexported(line{}, field{})); diff != "" {
			t.Errorf("parseLine(%q) (-want +got):\n%s", text, diff)
		}
	}
}

func TestLineString(t *testing.T) {
	l := line{slog.LevelError, "a\nb", []field{{"k", "x y"}, {"e", ""}, {"c", "\x1b[2J"}, {"p", "plain"}}}
	if got, want := l.String(), `error: "a\nb" k="x y" e="" c="\x1b[2J" p=plain`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func FuzzParseLine(f *testing.F) {
	f.Add(`{"level":"error","msg":null,"c":null}`)
	f.Add(`{"level":"info","msg":"x","y":{"z":[1]}}`)
	f.Fuzz(func(t *testing.T, s string) {
		if l := parseLine(s); len(l.fields) > maxFields {
			t.Errorf("%d fields of %q", len(l.fields), s)
		}
	})
}

func TestEachLine(t *testing.T) {
	var got []int
	eachLine(bytes.NewReader(append(bytes.Repeat([]byte("x"), maxLine+10), "\nabc\r\n\nend"...)), func(l string) { got = append(got, len(l)) })
	if diff := cmp.Diff([]int{maxLine, 10, 3, 0, 3}, got); diff != "" {
		t.Errorf("lengths of lines (-want +got):\n%s", diff)
	}
}

func shell(t *testing.T, h slog.Handler, script string) *spireChild {
	t.Helper()
	c, err := startChild(childSpec{Name: "shell", Path: "/bin/sh", Args: []string{"-c", script}, Log: slog.New(h), Grace: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestChildEnds(t *testing.T) {
	h := newLines()
	c := shell(t, h, `echo '{"level":"error","msg":"no way","error":"bad thing"}' >&2; echo plain; exit 3`)
	err := c.Err()
	if _, ok := errors.AsType[*childError](err); !ok {
		t.Fatalf("got %v, want a childError", err)
	}
	want := "shell ended: exit status 3; its last lines:\n  error: no way error=\"bad thing\"\n  plain"
	if err.Error() != want {
		t.Errorf("got\n%s\nwant\n%s", err, want)
	}
	if diff := cmp.Diff([]string{"ERROR no way logger=shell error=bad thing", "INFO plain logger=shell"}, h.all()); diff != "" {
		t.Errorf("logged (-want +got):\n%s", diff)
	}
	if err := c.Close(); err == nil {
		t.Error("Close forgot how the child ended")
	}
}

func TestChildClose(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "/run/x")
	t.Setenv("SWARM_NAME", "x")
	h := newLines()
	polite := shell(t, h, `trap 'echo bye; exit 0' TERM; echo "up $NOTIFY_SOCKET$SWARM_NAME."; while :; do sleep 0.05; done`)
	h.await(t, "up .")
	if err := polite.Close(); err != nil {
		t.Errorf("close a polite child: %v", err)
	}
	h.await(t, "bye")

	h = newLines()
	stubborn := shell(t, h, `trap '' TERM; echo up; while :; do sleep 0.05; done`)
	h.await(t, "up")
	if err := stubborn.Close(); err != nil {
		t.Errorf("close a stubborn child: %v", err)
	}
	if err := syscall.Kill(stubborn.PID(), 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the child is still there: %v", err)
	}
}

func TestChildMissing(t *testing.T) {
	if c, err := startChild(childSpec{Name: "ghost", Path: "/nonexistent/ghost", Log: slog.New(newLines())}); err == nil {
		c.Close()
		t.Fatal("a missing program started")
	}
}

// TestChildDiesWithParent kills a process that has a child and looks for the child.
func TestChildDiesWithParent(t *testing.T) {
	if os.Getenv("SPIRE_TEST_PARENT") != "" {
		c, err := startChild(childSpec{Name: "sleep", Path: "/bin/sleep", Args: []string{"600"}, Log: slog.New(newLines())})
		if err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("pid " + strconv.Itoa(c.PID()) + "\n")
		_ = c.Err() // until somebody kills this process
		return
	}
	parent := exec.Command(os.Args[0], "-test.run=^TestChildDiesWithParent$")
	parent.Env = append(os.Environ(), "SPIRE_TEST_PARENT=1")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = parent.Process.Kill(); _ = parent.Wait() })
	var pid int
	for s := bufio.NewScanner(out); s.Scan(); {
		if text, ok := strings.CutPrefix(s.Text(), "pid "); ok {
			if pid, err = strconv.Atoi(text); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	if pid == 0 {
		t.Fatal("the parent named no child")
	}
	_ = parent.Process.Kill()
	awaitGone(t, pid)
}

// awaitGone blocks until no process has this pid, or only a zombie that nobody reaps.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for tick := time.NewTicker(10 * time.Millisecond); ; <-tick.C {
		raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil || strings.Contains(string(raw), ") Z ") {
			return
		}
		if time.Now().After(deadline) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatalf("process %d outlived its parent", pid)
		}
	}
}
