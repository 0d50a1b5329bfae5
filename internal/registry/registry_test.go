package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/swarmd/swarmd/internal/registry"
)

// This program plays a component when it is started as one: it registers, says so and runs until its input ends.
func TestMain(m *testing.M) {
	if os.Getenv("REGISTRY_TEST_COMPONENT") == "" {
		os.Exit(m.Run())
	}
	remove, err := registry.Add(registry.Entry{Role: strings.TrimPrefix(os.Args[1], "run-"), Name: os.Args[2], Platform: "PYT", StateDir: "/x", Scope: os.Args[3]})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("registered")
	_, _ = io.Copy(io.Discard, os.Stdin)
	if os.Getenv("REGISTRY_TEST_COMPONENT") == "tidy" {
		remove()
	}
}

// component is a process that plays one.
type component struct {
	cmd  *exec.Cmd
	stop func() // ends and reaps it
}

// start runs a component under the name of a program.
func start(t *testing.T, program, how, command, name, scope string) component {
	t.Helper()
	exe := filepath.Join(t.TempDir(), program)
	self, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(exe, self, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, command, name, scope)
	cmd.Env = append(os.Environ(), "REGISTRY_TEST_COMPONENT="+how)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := false
	c := component{cmd, func() {
		if !done {
			done = true
			_ = in.Close()
			_ = cmd.Wait()
		}
	}}
	t.Cleanup(c.stop)
	if _, err := io.ReadFull(out, make([]byte, len("registered\n"))); err != nil {
		t.Fatal(err)
	}
	return c
}

func list(t *testing.T, scope string) []registry.Entry {
	t.Helper()
	entries, err := registry.List(scope)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// runDir sets a directory of the test's own.
func runDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	t.Setenv("SWARM_RUN_DIR", dir)
	return dir
}

func TestComponentsAreListed(t *testing.T) {
	dir := runDir(t)
	if got := list(t, ""); len(got) != 0 {
		t.Fatalf("before the first: %+v", got)
	}
	b := start(t, "swarmd", "tidy", "run-sl", "sl-b", "one")
	a := start(t, "swarmd", "tidy", "run-sl", "sl-a", "one")
	start(t, "swarmd", "tidy", "run-sn", "sn-0", "two")
	want := []registry.Entry{
		{PID: a.cmd.Process.Pid, Role: "sl", Name: "sl-a", Platform: "PYT", StateDir: "/x", Scope: "one"},
		{PID: b.cmd.Process.Pid, Role: "sl", Name: "sl-b", Platform: "PYT", StateDir: "/x", Scope: "one"},
	}
	if d := cmp.Diff(want, list(t, "one"), cmpopts.IgnoreFields(registry.Entry{}, "StartTime"), cmpopts.IgnoreUnexported(registry.Entry{})); d != "" {
		t.Error(d)
	}
	if got := list(t, ""); len(got) != 3 {
		t.Errorf("all scopes: %+v", got)
	}
	for _, name := range append(files(t, dir), ".") {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %s", name, info.Mode())
		}
	}
	a.stop()
	if got := list(t, "one"); len(got) != 1 || len(files(t, dir)) != 2 {
		t.Errorf("after one ended: %+v, files %v", got, files(t, dir))
	}
}

func TestEntriesOfDeadProcessesGo(t *testing.T) {
	dir := runDir(t)
	a := start(t, "swarmd", "untidy", "run-sl", "sl-a", "one")
	e := list(t, "one")[0]
	a.stop()
	if len(files(t, dir)) != 1 {
		t.Fatal("the entry is gone already: the test shows nothing")
	}
	if _, err := e.Open(); !errors.Is(err, registry.ErrGone) {
		t.Errorf("Open of a dead process: %v", err)
	}
	if got := list(t, ""); len(got) != 0 || len(files(t, dir)) != 0 {
		t.Errorf("%+v, files %v", got, files(t, dir))
	}
}

func TestAddRemovesWhatEarlierOnesLeft(t *testing.T) {
	dir := runDir(t)
	start(t, "swarmd", "untidy", "run-sl", "sl-a", "one").stop()
	remove, err := registry.Add(registry.Entry{Role: "sn", Scope: "one"})
	if err != nil {
		t.Fatal(err)
	}
	if got := list(t, ""); len(got) != 1 || got[0].PID != os.Getpid() || len(files(t, dir)) != 1 {
		t.Errorf("%+v, files %v", got, files(t, dir))
	}
	remove()
	remove()
	if len(files(t, dir)) != 0 {
		t.Errorf("left: %v", files(t, dir))
	}
}

func TestSignalReachesTheComponent(t *testing.T) {
	runDir(t)
	a := start(t, "swarmd", "untidy", "run-sl", "sl-a", "one")
	p, err := list(t, "one")[0].Open()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := p.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) || p.Ended() {
		t.Errorf("Wait for one that runs: %v", err)
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(t.Context()); err != nil || !p.Ended() {
		t.Errorf("Wait: %v", err)
	}
	a.stop()
	if got := a.cmd.ProcessState.Sys().(syscall.WaitStatus); !got.Signaled() || got.Signal() != syscall.SIGTERM {
		t.Errorf("it ended with %v", a.cmd.ProcessState)
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("signal to one that has ended: %v", err)
	}
}

// Whatever an entry says, only a component of its owner is taken hold of.
func TestEntriesCanNotPointAtOthers(t *testing.T) {
	dir := runDir(t)
	stranger := start(t, "editor", "untidy", "run-sl", "sl-a", "one")
	wrong := start(t, "swarmd", "untidy", "run-sn", "sn-0", "one")
	genuine := map[int]registry.Entry{}
	for _, e := range list(t, "") {
		genuine[e.PID] = e
	}
	write := func(t *testing.T, e registry.Entry) string {
		t.Helper()
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "forged.json")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Remove(path) })
		return path
	}
	tests := []struct {
		name string
		e    registry.Entry
		user int // owner of the file
		want error
	}{
		{"init", registry.Entry{PID: 1, Role: "sl"}, 0, nil}, // not even listed
		{"no process", registry.Entry{PID: 0, Role: "sl"}, 0, nil},
		{"negative", registry.Entry{PID: -1, Role: "sl"}, 0, nil},
		{"ourselves", registry.Entry{PID: os.Getpid(), StartTime: ownStart(t), Role: "sl"}, 0, registry.ErrStranger},
		{"another program", genuine[stranger.cmd.Process.Pid], 0, registry.ErrStranger},
		{"another component", func() registry.Entry { e := genuine[wrong.cmd.Process.Pid]; e.Role = "sl"; return e }(), 0, registry.ErrStranger},
		{"another user's", genuine[wrong.cmd.Process.Pid], 12345, registry.ErrStranger},
		{"a number used again", func() registry.Entry { e := genuine[wrong.cmd.Process.Pid]; e.StartTime--; return e }(), 0, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := write(t, tt.e)
			if tt.user != 0 {
				if os.Geteuid() != 0 {
					t.Skip("needs root: to give a file to another user")
				}
				if err := os.Chown(path, tt.user, tt.user); err != nil {
					t.Fatal(err)
				}
			}
			found := 0
			for _, e := range list(t, "") {
				if e.PID != tt.e.PID || e.Role != tt.e.Role || e == genuine[e.PID] {
					continue
				}
				found++
				p, err := e.Open()
				if err == nil {
					p.Close()
				}
				if tt.want == nil || !errors.Is(err, tt.want) {
					t.Errorf("Open: %v, want %v", err, tt.want)
				}
			}
			if tt.want != nil && tt.name != "another program" && found == 0 {
				t.Error("the entry is not listed: the test shows nothing")
			}
		})
	}
	if _, err := genuine[stranger.cmd.Process.Pid].Open(); !errors.Is(err, registry.ErrStranger) {
		t.Errorf("a program of another name: %v", err)
	}
	e := genuine[wrong.cmd.Process.Pid]
	e.StartTime--
	if _, err := e.Open(); !errors.Is(err, registry.ErrGone) {
		t.Errorf("a number used again: %v", err)
	}
}

func ownStart(t *testing.T) uint64 {
	t.Helper()
	remove, err := registry.Add(registry.Entry{Role: "sn", Scope: "own"})
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	return list(t, "own")[0].StartTime
}

func TestHostileFilesArePassedOver(t *testing.T) {
	dir := runDir(t)
	a := start(t, "swarmd", "untidy", "run-sl", "sl-a", "one")
	good, err := os.ReadFile(filepath.Join(dir, files(t, dir)[0]))
	if err != nil {
		t.Fatal(err)
	}
	put := func(name, text string, mode os.FileMode) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	put("empty.json", "", 0o600)
	put("junk.json", "\x00\xff{", 0o600)
	put("long.json", `{"pid":`+strings.Repeat(" ", 1<<20)+"7}", 0o600)
	put("field.json", strings.Replace(string(good), `"sl-a"`, `"`+strings.Repeat("a", 5000)+`"`, 1), 0o600)
	put("unknown.json", strings.Replace(string(good), "{", `{"kill":"all",`, 1), 0o600)
	put("open.json", string(good), 0o666)
	put("entry.txt", string(good), 0o600)
	if err := os.Symlink(files(t, dir)[0], filepath.Join(dir, "link.json")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "dir.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := list(t, ""); len(got) != 1 || got[0].PID != a.cmd.Process.Pid {
		t.Errorf("listed: %+v", got)
	}
}

func TestDirectoryMustBeOnesOwn(t *testing.T) {
	for name, spoil := range map[string]func(dir string) error{
		"others may write": func(dir string) error { return os.Chmod(dir, 0o777) },
		"a file":           func(dir string) error { return errors.Join(os.Remove(dir), os.WriteFile(dir, nil, 0o600)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := runDir(t)
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := spoil(dir); err != nil {
				t.Fatal(err)
			}
			if _, err := registry.List(""); err == nil || !strings.Contains(err.Error(), dir) {
				t.Errorf("List: %v", err)
			}
			if _, err := registry.Add(registry.Entry{Role: "sl"}); err == nil {
				t.Error("Add goes on")
			}
		})
	}
}

func TestDir(t *testing.T) {
	home := "/home/u/.local/state/swarmd/components"
	root := os.Geteuid() == 0
	tests := []struct {
		name string
		env  map[string]string
		want string
	}{
		{"named", map[string]string{"SWARM_RUN_DIR": "/a", "XDG_RUNTIME_DIR": "/b"}, "/a"},
		{"of the session", map[string]string{"XDG_RUNTIME_DIR": "/run/user/7", "HOME": "/home/u"}, "/run/user/7/swarmd/components"},
		{"home", map[string]string{"XDG_RUNTIME_DIR": "relative", "HOME": "/home/u"}, home},
		{"nothing", nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if root && tt.env["SWARM_RUN_DIR"] == "" {
				tt.want = "/run/swarmd/components"
			}
			got, err := registry.Dir(func(k string) string { return tt.env[k] })
			if got != tt.want || (err != nil) != (tt.want == "") {
				t.Errorf("Dir = %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}
