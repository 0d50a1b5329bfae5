package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/pkg/stdcopy"
	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

// lab is a scope and a network at the machine's engine, and the scripts that are called there.
type lab struct {
	t      *testing.T
	engine *engine.Engine
	scope  string
	bin    string // swarmd of this tree, which is put over the image's
	root   string // of the repository
}

func newLab(t *testing.T) *lab {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{t: t, root: root, bin: filepath.Join(root, "bin", "swarmd")}
	if _, err := os.Stat(l.bin); err != nil {
		t.Skip("skipped: bin/swarmd is not built (make build)")
	}
	l.engine = enginetest.Engine(t)
	enginetest.NeedImage(t, l.engine, engine.ImageSwarmd, "scripts/images swarmd")
	l.scope = enginetest.Scope(t)
	_, err = l.engine.NetworkCreate(t.Context(), l.scope, network.CreateOptions{Labels: map[string]string{engine.LabelRole: "test", engine.LabelScope: l.scope}})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("SWARM_STATE_DIR", "")
	t.Setenv("SPIFFE_ENDPOINT_SOCKET", "")
	return l
}

// script calls one of the scripts, without a terminal.
func (l *lab) script(name string, args ...string) (code int, stdout, stderr string) {
	l.t.Helper()
	cmd := exec.CommandContext(l.t.Context(), filepath.Join(l.root, "scripts", name), args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		l.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// start calls a script that starts a container in the background, and returns the container.
func (l *lab) start(name string, args ...string) container.InspectResponse {
	l.t.Helper()
	code, stdout, stderr := l.script(name, append(args, "-v", l.bin+":/usr/local/bin/swarmd:ro")...)
	id := strings.TrimSpace(stdout)
	if code != 0 || len(id) != 64 || strings.Count(stdout, "\n") != 1 {
		l.t.Fatalf("%s: exit code %d, want the container's ID\n%s\n%s", name, code, stdout, stderr)
	}
	c, err := l.engine.ContainerInspect(l.t.Context(), id)
	if err != nil {
		l.t.Fatal(err)
	}
	return c
}

// says waits for a line of a container's log.
func (l *lab) says(id, want string) {
	l.t.Helper()
	logs, err := l.engine.ContainerLogs(l.t.Context(), id, container.LogsOptions{ShowStdout: true, ShowStderr: true, Follow: true})
	if err != nil {
		l.t.Fatal(err)
	}
	defer logs.Close()
	stop := time.AfterFunc(enginetest.Timeout, func() { _ = logs.Close() })
	defer stop.Stop()
	said := &watcher{want: want}
	if _, err := stdcopy.StdCopy(said, said, logs); !errors.Is(err, io.EOF) || !said.found() {
		l.t.Fatalf("%s does not say %q (%v):\n%s", id[:12], want, err, said.b.String())
	}
}

// watcher ends a copy when it has seen what it waits for.
type watcher struct {
	want string
	b    bytes.Buffer
}

func (w *watcher) found() bool { return strings.Contains(w.b.String(), w.want) }

func (w *watcher) Write(p []byte) (int, error) {
	w.b.Write(p)
	if w.found() {
		return 0, io.EOF
	}
	return len(p), nil
}

// TestScriptsMakeTheOriginalsContainers starts server and Sentinel as the seed's page does, and compares what the engine was
// told with what the original's scripts tell it. The Sentinel gets its join token from the server's container.
func TestScriptsMakeTheOriginalsContainers(t *testing.T) {
	l := newLab(t)
	server := l.start("run-spire-server", "--name="+l.scope+"-spire", "--network", l.scope, "-l", "a=b", "-e", "X=1,2", "-p", "127.0.0.1::8081",
		"--restart=on-failure:2", "-logLevel=DEBUG")
	if server.Name != "/"+l.scope+"-spire" || server.Config.Hostname != l.scope+"-spire" || server.Config.Labels["a"] != "b" || !slices.Contains(server.Config.Env, "X=1,2") {
		t.Errorf("server: %s, host %s, labels %v, variables %v", server.Name, server.Config.Hostname, server.Config.Labels, server.Config.Env)
	}
	if p := server.HostConfig.RestartPolicy; p.Name != "on-failure" || p.MaximumRetryCount != 2 {
		t.Errorf("server: restart policy %v", p)
	}
	if ports := server.HostConfig.PortBindings["8081/tcp"]; len(ports) != 1 || ports[0].HostIP != "127.0.0.1" || len(server.HostConfig.PortBindings) != 1 {
		t.Errorf("server: ports %v", server.HostConfig.PortBindings)
	}
	l.says(server.ID, "SPIRE server is ready")

	sn := l.start("run-sn", "--host-ip=sn1", "--sentinel-ip=sn1", "--network="+l.scope, "--hostname", "sn1", "--name", l.scope+"-sn", "-serverAddress", l.scope+"-spire",
		"-genJoinToken", "--spire-docker-name="+l.scope+"-spire", "--sn-p2p-port=10000", "--sn-api-port=10001", "--sn-fs-port=10002", "--sentinel-fs-port", "10002", "--apls-ip", "apls")
	var exposed []string
	for p := range sn.Config.ExposedPorts {
		exposed = append(exposed, string(p))
	}
	slices.Sort(exposed)
	got := []string{sn.Config.Hostname, sn.Config.Labels[engine.LabelRole], sn.Config.Labels[engine.LabelScope], strings.Join(exposed, " ")}
	if diff := cmp.Diff(got, []string{"sn1", "sn", l.scope, "10000/tcp 10001/tcp 10002/tcp"}); diff != "" {
		t.Error(diff)
	}
	if len(sn.HostConfig.PortBindings) != 0 {
		t.Errorf("sn1 is no name of this host and yet ports are published: %v", sn.HostConfig.PortBindings)
	}
	l.says(sn.ID, "swarm.SN : INFO : identity is valid")

	// A second one under the name is refused, and what can't work is said here and not in a log.
	model := t.TempDir()
	if err := os.WriteFile(filepath.Join(model, "train.py"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	sl := []string{"--name", l.scope + "-sl", "--network", l.scope, "--host-ip", "sl1", "--sn-ip", "sn1", "-serverAddress", l.scope + "-spire", "-genJoinToken", "--model-dir", model, "--model-program", "train.py"}
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"run-sn", []string{"--host-ip=sn1", "--sentinel-ip=sn1", "--identity=embedded=/none", "--name=xx"}, "run-sn: --identity: embedded=/none: bad directory: it does not exist; "},
		{"run-spire-server", []string{"--name=" + l.scope + "-spire"}, "runs already in container"},
		{"run-sl", append(sl, "--ml-image=none-such:1"), "run-sl: check ML program: image none-such:1 is not at the container engine"},
		{"run-sl", append(sl, "--data-dir=/none"), "run-sl: --data-dir: /none: bad path: it does not exist; "},
		{"run-sl", append(sl, "--ml-network=none-such", "--ml-image="+enginetest.TestImage), "run-sl: check ML program: network none-such does not exist"},
	} {
		code, stdout, stderr := l.script(tt.name, tt.args...)
		if code != 1 || stdout != "" || !strings.Contains(stderr, tt.want) {
			t.Errorf("%s %v: %d %q %q, want %q", tt.name, tt.args, code, stdout, stderr, tt.want)
		}
	}
	for _, left := range enginetest.Left(t, l.engine, l.scope) {
		if strings.Contains(left, l.scope+"-sl") {
			t.Errorf("a refused run-sl left %s", left)
		}
	}
}
