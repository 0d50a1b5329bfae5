package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

// These tests run the real binaries at the machine's container engine.

const swarmdImage = "swarmd:latest"

func TestPromptInAContainer(t *testing.T) {
	bin := binary(t)
	e := enginetest.Engine(t)
	enginetest.NeedImage(t, e, swarmdImage, "scripts/images swarmd")
	enginetest.Clean(t, enginetest.Scope(t))
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	up := exec.CommandContext(t.Context(), bin, "local", "up", "--peers", "1")
	up.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	stdout, err := up.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = up.Process.Signal(syscall.SIGTERM)
		_ = up.Wait()
	}()
	if n, err := stdout.Read(make([]byte, 100)); err != nil || n == 0 {
		t.Fatalf("local up does not come up: %v", err)
	}
	usr := t.TempDir()
	for name, text := range map[string]string{
		"my-init": "# in the container\ncd /platform/swarm/usr\nls\nsleep 0.01\n",
		"data":    "x",
	} {
		if err := os.WriteFile(filepath.Join(usr, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name, typed string
		want        []string
		code        int
	}{
		{"a script, then what is piped in", "list nodes\nls absent\npwd\nexit\n", []string{
			"SWCI:0 > # in the container\nSWCI:0 > cd /platform/swarm/usr\nSWCI:0 > Current Directory : /platform/swci/usr\nSWCI:1 > ls\n    data\n    my-init\n",
			"SWCI:3 > list nodes\n    TYPE,", "    SENTINEL,127.0.0.1,", "\nERROR : stdin:2: list files: stat absent: no such file", "SWCI:6 > exit\n",
		}, 0},
		{"a failure that was not to be", "exit on failure\nlst nodes\npwd\n", []string{"ERROR : stdin:2: unknown command \"lst nodes\""}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			cmd := exec.CommandContext(t.Context(), bin, "run-swci", "--runtime", "docker", "--network=host", "--usr-dir", usr, "--init-script-name", "my-init")
			cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(tt.typed), &out, &errs
			if err := cmd.Run(); code(err) != tt.code {
				t.Errorf("exit code %d, want %d: %s", code(err), tt.code, &errs)
			}
			for _, want := range tt.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("no %q in:\n%s\n%s", want, &out, &errs)
				}
			}
		})
	}
}

// newDockerLab is newLab for programs in containers, of two peers.
func newDockerLab(t *testing.T) (*lab, *engine.Engine) {
	t.Helper()
	e := enginetest.Engine(t)
	l := newLab(t)
	var args []string
	for i := 0; i < len(l.args); i++ {
		switch l.args[i] {
		case "--python":
			i++
		case "--peers":
			i++
			args = append(args, "--peers", "2")
		default:
			args = append(args, l.args[i])
		}
	}
	l.args = append(args, "--runtime", "docker", "--ml-image", enginetest.TestImage)
	return l, e
}

var scopeLine = regexp.MustCompile(`scope (local-[a-z0-9]+)`)

// scope is what the run's containers are known by.
func (p *process) scope(t *testing.T) string {
	t.Helper()
	m := scopeLine.FindStringSubmatch(p.stderr.String())
	if m == nil {
		t.Fatalf("no scope is named:\n%s", p.stderr)
	}
	return m[1]
}

// scopeOf is the same while the run goes on.
func scopeOf(t *testing.T, pid int) string {
	t.Helper()
	owners, err := filepath.Glob("/dev/shm/swarm-*/owner")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range owners {
		owner, _ := os.ReadFile(file)
		scope, err := os.ReadFile(filepath.Join(filepath.Dir(file), "scope"))
		if strings.TrimSpace(string(owner)) == strconv.Itoa(pid) && err == nil {
			return strings.TrimSpace(string(scope))
		}
	}
	t.Fatalf("no folder of process %d names a scope", pid)
	return ""
}

func containerless(t *testing.T, e *engine.Engine, scope string) {
	t.Helper()
	if left := enginetest.Left(t, e, scope); len(left) > 0 {
		t.Errorf("left at the engine: %q", left)
	}
}

func TestLocalRunInContainers(t *testing.T) {
	l, e := newDockerLab(t)
	p := l.start(t, "--baseline", "-o", "json")
	if err := p.Wait(); err != nil {
		t.Fatalf("local run: %v\n%s", err, p.stderr)
	}
	var s struct {
		Rounds      int
		ModelsEqual bool `json:"models_equal"`
		Runtime     string
		Peers       []struct {
			Isolation     string
			ModelSHA256   string   `json:"model_sha256"`
			LocalAccuracy *float64 `json:"local_accuracy"`
			SwarmAccuracy *float64 `json:"swarm_accuracy"`
		}
	}
	if err := json.Unmarshal(p.stdout.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	if s.Rounds < 5 || !s.ModelsEqual || s.Runtime != "docker" || len(s.Peers) != 2 {
		t.Errorf("summary: %s", p.stdout)
	}
	for i, x := range s.Peers {
		if len(x.ModelSHA256) != 64 || x.ModelSHA256 != s.Peers[0].ModelSHA256 || x.LocalAccuracy == nil || x.SwarmAccuracy == nil || x.Isolation != "container, no network" {
			t.Errorf("peer %d: %s", i, p.stdout)
		}
	}
	info, err := os.Stat(filepath.Join(l.dir, "out", "sl-1", "w.npy"))
	if err != nil {
		t.Fatal(err)
	}
	if uid := info.Sys().(*syscall.Stat_t).Uid; int(uid) != os.Geteuid() {
		t.Errorf("the model belongs to user %d", uid)
	}
	containerless(t, e, p.scope(t))
	l.nothingLeft(t)
}

func TestLocalRunInContainersIsStopped(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			l, e := newDockerLab(t)
			p := l.start(t, "-e", "EPOCHS=1000", "-e", "SLEEP=0.01")
			until(t, "first round", l.trained)
			scope := scopeOf(t, p.Process.Pid)
			if n := len(enginetest.Left(t, e, scope)); n != 2 {
				t.Errorf("%d things at the engine while two programs run", n)
			}
			if err := p.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			if err := p.Wait(); sig == syscall.SIGINT && code(err) != 130 {
				t.Errorf("exit code %d, want 130\n%s", code(err), p.stderr)
			}
			if sig == syscall.SIGKILL {
				// Its programs live on in their containers until the next run, this one or another test's, removes them.
				until(t, "end of its daemons", func() bool { return len(l.processes()) == 0 })
				if next := l.start(t); next.Wait() != nil {
					t.Errorf("next run:\n%s", next.stderr)
				} else {
					containerless(t, e, next.scope(t))
				}
			}
			containerless(t, e, scope)
			l.nothingLeft(t)
		})
	}
}

func TestLocalRunInContainersNamesWhatIsWrong(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		args       []string
	}{
		{"image that is not there", "swarmctl: the container engine has no image no-such-image\nhint: ", []string{"--ml-image", "no-such-image"}},
		{"program that fails", "ended with exit code 1, its last line: ValueError: the data is torn", []string{"-e", "FAIL=sl-1"}},
		{"alone", "swarmctl: sl-1 alone ended with exit code 1", []string{"-e", "FAIL=sl-1", "--baseline"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, e := newDockerLab(t)
			p := l.start(t, tt.args...)
			if err := p.Wait(); code(err) != 1 {
				t.Errorf("exit code %d, want 1", code(err))
			}
			if !strings.Contains(p.stderr.String(), tt.want) {
				t.Errorf("no %q in:\n%s", tt.want, p.stderr)
			}
			if m := scopeLine.FindStringSubmatch(p.stderr.String()); m != nil {
				containerless(t, e, m[1])
			}
			l.nothingLeft(t)
		})
	}
}

// TestLocalRunWithNodesInContainers kills one swarm of containers and brings up the next.
func TestLocalRunWithNodesInContainers(t *testing.T) {
	l, e := newDockerLab(t)
	enginetest.NeedImage(t, e, swarmdImage, "scripts/images swarmd")
	l.args = append(l.args, "--containers", "--sns", "2")
	first := l.start(t, "-e", "EPOCHS=1000", "-e", "SLEEP=0.01")
	until(t, "first round", l.trained)
	scope := scopeOf(t, first.Process.Pid)
	left := strings.Join(enginetest.Left(t, e, scope), "\n")
	for _, want := range []string{"container sn-0 (running)", "container sn-1 (running)", "container sl-0 (running)", "container sl-1 (running)", "network " + scope} {
		if !strings.Contains(left, want) {
			t.Errorf("no %q among:\n%s", want, left)
		}
	}
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait()
	until(t, "end of its launchers", func() bool { return len(l.processes()) == 0 })
	second := l.start(t)
	if err := second.Wait(); err != nil {
		t.Errorf("next run: %v\n%s", err, second.stderr)
	}
	if !strings.Contains(second.stdout.String(), "all final models are the same bytes") {
		t.Errorf("next run:\n%s", second.stdout)
	}
	containerless(t, e, scope)
	containerless(t, e, second.scope(t))
	l.nothingLeft(t)
}
