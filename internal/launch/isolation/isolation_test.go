package isolation_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	enginecontainer "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"

	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/launch/container"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

// attempt is what ways.py says of one way.
type attempt struct {
	Way     string  `json:"way"`
	Out     bool    `json:"out"`
	How     string  `json:"how"`
	Seconds float64 `json:"seconds"`
}

// lines collects a program's output.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) add(_, line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, line)
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.all, "\n")
}

// attempts reads the output: every way must have been tried.
func attempts(t *testing.T, text string) map[string]attempt {
	t.Helper()
	all := map[string]attempt{}
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "WAY "); ok {
			var a attempt
			if err := json.Unmarshal([]byte(rest), &a); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			all[a.Way] = a
		}
	}
	for _, way := range ways {
		a, tried := all[way]
		if !tried {
			t.Fatalf("way %q was not tried:\n%s", way, text)
		}
		t.Logf("%-22s %-5v %4.1f s  %.200s", a.Way, a.Out, a.Seconds, a.How)
	}
	return all
}

func logger(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// spec is a program as run-sl starts it.
func spec(scope, user string, f folders) container.Spec {
	return container.Spec{
		Node: "isolation", Platform: "PYT", Scope: scope, Image: enginetest.TestImage, Program: "ways.py", User: user,
		DataDir: f.data, ModelDir: f.model, BridgeDir: f.bridge, LogTail: 5,
	}
}

// run runs a program to its end and returns what it said.
func run(t *testing.T, e *engine.Engine, s container.Spec) (launch.Exit, string) {
	t.Helper()
	var out lines
	s.Line = out.add
	p, err := container.New(e, logger(t)).Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	exit := p.Wait()
	return exit, out.text()
}

// TestNoWayOut tries all ways with the default isolation, as an ordinary user and as root, whose program has no right of root's.
func TestNoWayOut(t *testing.T) {
	e := enginetest.Engine(t)
	scope := enginetest.Scope(t)
	enginetest.Clean(t, scope)
	o := newOther(t, e, scope)
	for _, user := range []string{"1000:1000", "0:0"} {
		t.Run("user "+user, func(t *testing.T) { o.noWayOut(t, e, scope, user) })
	}
}

func (o *other) noWayOut(t *testing.T, e *engine.Engine, scope, user string) {
	t.Helper()
	uid, _ := strconv.Atoi(strings.Split(user, ":")[0])
	f := o.folders(t, uid)
	s := spec(scope, user, f)
	if got := s.Isolation(); got != "container, no network" {
		t.Errorf("isolation: %s", got)
	}
	exit, text := run(t, e, s)
	if exit.ExitCode != 0 {
		t.Fatalf("%s\n%s", exit, text)
	}
	all := attempts(t, text)
	for way, a := range all {
		if a.Out {
			t.Errorf("%s is a way out: %s", way, a.How)
		}
	}
	o.bounded(t, all["forks"])
	o.untouched(t, f)
}

// bounded wants the default limit to have stopped the fork bomb, and nothing before.
func (o *other) bounded(t *testing.T, forks attempt) {
	t.Helper()
	m := regexp.MustCompile(`(\d+) tasks`).FindStringSubmatch(forks.How)
	if m == nil {
		t.Fatalf("fork bomb: %s", forks.How)
	}
	if n, _ := strconv.Atoi(m[1]); n > defaultTop || n < defaultTop*3/4 && o.refused["forks"] == "" {
		t.Errorf("fork bomb: %d tasks, want %d at most, and nearly as many", n, defaultTop)
	}
}

// untouched looks from outside whether anything was changed.
func (o *other) untouched(t *testing.T, f folders) {
	t.Helper()
	names, err := os.ReadDir(f.data)
	if err != nil || len(names) != 1 {
		t.Errorf("data: %v, %v; want one file", names, err)
	}
	if text, err := os.ReadFile(filepath.Join(f.data, "data")); err != nil || string(text) != "data" {
		t.Errorf("data: %q, %v", text, err)
	}
}

// TestNoIsolation runs the same program without isolation: the ways are real.
func TestNoIsolation(t *testing.T) {
	e := enginetest.Engine(t)
	scope := enginetest.Scope(t)
	enginetest.Clean(t, scope)
	o := newOther(t, e, scope)
	all := attempts(t, o.withoutIsolation(t, e, scope, false))
	o.out(t, all)
}

// withoutIsolation runs the program with all that isolation keeps away, and returns its output. Docker gives a privileged container
// capabilities that the machine itself may not have, so it gets what privileged would give by name. Podman knows better, but
// has no other word for all devices.
func (o *other) withoutIsolation(t *testing.T, e *engine.Engine, scope string, privileged bool) string {
	t.Helper()
	f := o.folders(t, 0)
	socket := strings.TrimPrefix(e.DaemonHost(), "unix://")
	ctx, unlimited := t.Context(), int64(-1) // Podman has a limit of its own
	c, err := e.ContainerCreate(ctx, &enginecontainer.Config{
		Image: enginetest.TestImage, Cmd: []string{"python3", "-u", engine.ModelDir + "/ways.py"}, Labels: map[string]string{engine.LabelScope: scope},
		Env: []string{"DATA_DIR=" + engine.DataDir, "SWARM_BRIDGE_DIR=" + engine.BridgeDir},
	}, &enginecontainer.HostConfig{
		Privileged: privileged, NetworkMode: "host", PidMode: "host", IpcMode: "host", ReadonlyPaths: []string{}, MaskedPaths: []string{},
		SecurityOpt: []string{"seccomp=unconfined", "apparmor=unconfined"},
		CapAdd:      []string{"SYS_ADMIN", "SYS_PTRACE", "SYS_RAWIO", "SYSLOG", "MKNOD", "NET_RAW", "NET_ADMIN", "DAC_READ_SEARCH", "SETUID", "SETGID"},
		Binds: []string{
			f.data + ":" + engine.DataDir, f.model + ":" + engine.ModelDir, socket + ":/var/run/docker.sock", "/dev/shm:/dev/shm",
		},
		Resources: enginecontainer.Resources{DeviceCgroupRules: []string{"a *:* rwm"}, PidsLimit: &unlimited},
	}, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := e.ContainerStart(ctx, c.ID, enginecontainer.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	done, failed := e.ContainerWait(ctx, c.ID, enginecontainer.WaitConditionNotRunning)
	select {
	case <-done:
	case err := <-failed:
		t.Fatal(err)
	}
	text := logs(t, e, c.ID)
	if err := e.ContainerRemove(ctx, c.ID, enginecontainer.RemoveOptions{}); err != nil {
		t.Error(err)
	}
	return text
}

// out wants every way to lead out that the machine allows.
func (o *other) out(t *testing.T, all map[string]attempt) {
	t.Helper()
	n := 0
	for way, a := range all {
		switch why, refused := o.refused[way]; {
		case a.Out:
			n++
		case refused:
			t.Logf("%s: the machine does not allow it: %s", way, why)
		default:
			t.Errorf("%s does not lead out even without isolation: %s", way, a.How)
		}
	}
	if n < 8 {
		t.Errorf("%d ways lead out without isolation, want 8 at least: the test can not fail", n)
	}
}

// TestNetwork opens the network, and with it nothing else.
func TestNetwork(t *testing.T) {
	e := enginetest.Engine(t)
	scope := enginetest.Scope(t)
	enginetest.Clean(t, scope)
	o := newOther(t, e, scope)
	net, err := e.NetworkCreate(t.Context(), scope, network.CreateOptions{Labels: map[string]string{engine.LabelScope: scope}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.NetworkRemove(context.Background(), net.ID); err != nil {
			t.Error(err)
		}
	})
	o.opened(t, e, scope, scope)
}

func (o *other) opened(t *testing.T, e *engine.Engine, scope, name string) {
	t.Helper()
	f := o.folders(t, 1000)
	s := spec(scope, "1000:1000", f)
	s.Network = name
	if got, want := s.Isolation(), "container, open: network "+name; got != want {
		t.Errorf("isolation: %q, want %q", got, want)
	}
	exit, text := run(t, e, s)
	if exit.ExitCode != 0 {
		t.Fatalf("%s\n%s", exit, text)
	}
	for way, a := range attempts(t, text) {
		switch network := way == "dns" || way == "tcp" || way == "metadata"; {
		case a.Out && !network:
			t.Errorf("%s is a way out: %s", way, a.How)
		case !a.Out && network && o.refused[way] == "":
			t.Errorf("%s does not lead into the network: %s", way, a.How)
		}
	}
	o.untouched(t, f)
}
