package enginetest_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

// run starts a container of the test image and returns its ID.
func run(t *testing.T, e *engine.Engine, scope string, words ...string) string {
	t.Helper()
	c, err := e.ContainerCreate(t.Context(), &container.Config{
		Image: enginetest.TestImage, Cmd: words, StopSignal: "SIGKILL", Labels: map[string]string{engine.LabelScope: scope},
	}, &container.HostConfig{NetworkMode: "none"}, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := e.ContainerStart(t.Context(), c.ID, container.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	return c.ID
}

func output(t *testing.T, e *engine.Engine, id string) string {
	t.Helper()
	done, failed := e.ContainerWait(t.Context(), id, container.WaitConditionNotRunning)
	select {
	case <-done:
	case err := <-failed:
		t.Fatal(err)
	}
	r, err := e.ContainerLogs(t.Context(), id, container.LogsOptions{ShowStdout: true, ShowStderr: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var b bytes.Buffer
	if _, err := stdcopy.StdCopy(&b, &b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func running(t *testing.T, e *engine.Engine, id string) bool {
	t.Helper()
	c, err := e.ContainerInspect(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return c.State.Running
}

// TestScope leaves one of each and looks for them afterwards.
func TestScope(t *testing.T) {
	e := enginetest.Engine(t)
	var scope string
	t.Run("untidy", func(t *testing.T) {
		scope = enginetest.Scope(t)
		if got := os.Getenv("SWARM_SCOPE"); got != scope || engine.OSScope() != scope {
			t.Errorf("SWARM_SCOPE is %q, want %q", got, scope)
		}
		labels := map[string]string{engine.LabelScope: scope}
		run(t, e, scope, "sleep", "1000")
		if _, err := e.NetworkCreate(t.Context(), scope, network.CreateOptions{Driver: "bridge", Labels: labels}); err != nil {
			t.Fatal(err)
		}
		if _, err := e.VolumeCreate(t.Context(), volume.CreateOptions{Name: scope, Labels: labels}); err != nil {
			t.Fatal(err)
		}
		left := enginetest.Left(t, e, scope)
		if len(left) != 3 || !strings.HasSuffix(left[0], " (running)") || left[1] != "network "+scope || left[2] != "volume "+scope {
			t.Errorf("Left: %q, want a running container, a network and a volume", left)
		}
	})
	if left := enginetest.Left(t, e, scope); len(left) != 0 {
		t.Errorf("after the test: %q", left)
	}
}

// recorder is a test whose failure is wanted.
type recorder struct {
	testing.TB
	errors   []string
	cleanups []func()
}

func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

func (r *recorder) end() {
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
}

// TestClean shows that what is left fails a test that asks for it.
func TestClean(t *testing.T) {
	e := enginetest.Engine(t)
	scope := enginetest.Scope(t)
	for _, untidy := range []bool{false, true} {
		if untidy {
			run(t, e, scope, "true")
		}
		r := &recorder{TB: t}
		enginetest.Clean(r, scope)
		r.end()
		if failed := len(r.errors) > 0; failed != untidy {
			t.Errorf("untidy %v: failed %v: %q", untidy, failed, r.errors)
		}
	}
}

// TestPrivate stops, kills and restarts engines with a container in them. Afterwards no directory and no process is left.
func TestPrivate(t *testing.T) {
	before := links(t)
	var dir string
	t.Run("run", func(t *testing.T) {
		p := enginetest.Private(t)
		dir = filepath.Dir(strings.TrimPrefix(p.Host(), "unix://"))
		e := p.Engine()
		if got := output(t, e, run(t, e, "", "python3", "-c", "import numpy; print(40+2)")); got != "42\n" {
			t.Errorf("container says %q", got)
		}
		for _, live := range []bool{false, true} {
			if live {
				p.UseLiveRestore()
				p.Restart()
			}
			for name, again := range map[string]func(){"restart": p.Restart, "kill": func() { p.Kill(); p.Start() }} {
				id := run(t, e, "", "sleep", "1000")
				again()
				if got := running(t, e, id); got != live {
					t.Errorf("%s: container runs: %v, want %v", name, got, live)
				}
			}
		}
	})
	noneLeft(t, dir)
	if after := links(t); !after["docker0"] && before["docker0"] {
		t.Errorf("the machine's engine lost its bridge: %v, before: %v", after, before)
	}
}

func links(t *testing.T) map[string]bool {
	t.Helper()
	all, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, l := range all {
		names[l.Name] = true
	}
	return names
}

// noneLeft wants no directory, process or mount of an engine. It skips the test if none ran, as where a subtest that was to
// start it has skipped itself.
func noneLeft(t *testing.T, dir string) {
	t.Helper()
	if dir == "" {
		t.Skip("no engine ran")
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	groups, _ := filepath.Glob("/sys/fs/cgroup/*/swarmd-enginetest-*") // of other tests too: looked at by name below
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is left (%v)", dir, err)
	}
	if slices.ContainsFunc(groups, func(g string) bool { return filepath.Base(g) == filepath.Base(dir) }) {
		t.Errorf("cgroups of %s are left", dir)
	}
	if strings.Contains(string(mounts), dir) {
		t.Errorf("mounts under %s are left", dir)
	}
	for _, p := range lines {
		if line, err := os.ReadFile(p); err == nil && strings.Contains(string(line), dir) {
			t.Errorf("process %s is left: %q", p, line)
		}
	}
}

// TestPodman runs a container at Podman's socket.
func TestPodman(t *testing.T) {
	var dir, id string
	t.Run("run", func(t *testing.T) {
		host := enginetest.Podman(t) // skips where there is no Podman
		dir = filepath.Dir(strings.TrimPrefix(host, "unix://"))
		e := enginetest.Dial(t, host)
		if got := output(t, e, run(t, e, "", "python3", "-c", "import numpy; print(40+2)")); got != "42\n" {
			t.Errorf("container says %q", got)
		}
		id = run(t, e, "", "sleep", "1000")
	})
	noneLeft(t, dir)
	if groups, _ := filepath.Glob("/sys/fs/cgroup/*/libpod_parent/libpod-" + id); len(groups) > 0 { // a process keeps its cgroup
		t.Errorf("cgroups of a container are left: %q", groups)
	}
}
