package component_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/swarmd/swarmd/identity/spire"
	"github.com/swarmd/swarmd/internal/launch/component"
	"github.com/swarmd/swarmd/internal/launch/engine"
)

// launcherVar makes this test binary a launcher of the Spec in it.
const launcherVar = "TEST_LAUNCH_SPEC"

// tokenVar names the container of a SPIRE server that the launcher asks for a join token; "": it looks for one.
const tokenVar = "TEST_LAUNCH_TOKEN"

// sent is the part of a Spec that reaches a launcher of its own.
type sent struct {
	Options           component.Options
	Role, Node, Scope string
	Program, Args     []string
}

func encoded(t *testing.T, s component.Spec) string {
	t.Helper()
	raw, err := json.Marshal(sent{Options: s.Options, Role: s.Role, Node: s.Node, Scope: s.Scope, Program: s.Program, Args: s.Args})
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestMain(m *testing.M) {
	if raw := os.Getenv(launcherVar); raw != "" {
		os.Exit(launch(raw))
	}
	os.Exit(m.Run())
}

func launch(raw string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var given sent
	if err := json.Unmarshal([]byte(raw), &given); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 99
	}
	s := component.Spec{Options: given.Options, Role: given.Role, Node: given.Node, Scope: given.Scope, Program: given.Program, Args: given.Args}
	if server, ok := os.LookupEnv(tokenVar); ok {
		s.Agent = &spire.AgentConfig{ServerAddress: "127.0.0.1", GenJoinToken: &spire.TokenSource{Docker: server, Wait: time.Hour}}
	}
	e, err := engine.Open(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 99
	}
	defer e.Close()
	code, err := component.Run(ctx, e, s, component.IO{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 98
	}
	return code
}

// launcher is Run in a process of its own.
func (b *bench) launcher(s component.Spec) *exec.Cmd {
	b.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), launcherVar+"="+encoded(b.t, s))
	cmd.Stdout, cmd.Stderr = &b.out, &b.errors
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

func kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// TestServerOfLater has a server's address that is given, and a server's container that starts after the launcher.
func TestServerOfLater(t *testing.T) {
	b := newBench(t)
	t.Setenv(tokenVar, "")
	b.launcher(b.shell("n", "echo done", nil))
	b.await("the launcher to wait", func() bool {
		return strings.Contains(b.errors.String(), "container of a SPIRE server on this host: none runs")
	})
	server := b.shell("spire", "sleep 1000", nil)
	server.Role = engine.RoleSpireServer
	id := b.detached(server)
	b.await("the server to be asked, which is none", func() bool {
		return regexp.MustCompile("docker exec [^ ]+: spire-server: there is no such program").MatchString(b.errors.String())
	})
	if !b.running(id) {
		t.Error("the container that stands for a server has ended")
	}
}

// TestKilledBeforeStart kills a launcher that has made a container and waits for its join token.
func TestKilledBeforeStart(t *testing.T) {
	b := newBench(t)
	s := b.shell("n", "echo done", nil)
	t.Setenv(tokenVar, b.scope+"-nobody")
	volume := "volume " + component.StateVolume(b.scope, "n")
	cmd := b.launcher(s)
	b.await("a container that is not started", func() bool {
		return slices.ContainsFunc(b.left(), func(l string) bool { return strings.HasSuffix(l, "(created)") })
	})
	kill(cmd)
	if len(b.left()) != 2 {
		t.Fatalf("left: %q", b.left())
	}
	// One that is asked to end takes with it what it made.
	b.errors.b.Reset()
	cmd = b.launcher(s)
	b.await("the next launcher to wait", func() bool { return strings.Contains(b.errors.String(), "waiting for a SPIRE server") })
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if got := b.left(); !slices.Equal(got, []string{volume}) { // made by the one that was killed
		t.Errorf("left: %q\n%s", got, b.errors.String())
	}
	s.Remove = true
	if code, err := b.run(s); err != nil || code != 0 || !strings.Contains(b.out.String(), "done") {
		t.Errorf("afterwards: %d, %v", code, err)
	}
	if got := b.left(); !slices.Equal(got, []string{volume}) {
		t.Errorf("left: %q", got)
	}
}

// TestKilledAttached kills a launcher whose component runs: that goes on, keeps its node's name, and is taken away when it
// has ended.
func TestKilledAttached(t *testing.T) {
	b := newBench(t)
	s := b.shell("n", "echo up; exec sleep 1000", nil)
	cmd := b.launcher(s)
	b.await("the component", func() bool { return strings.Contains(b.out.String(), "up") })
	var id string
	mine := func() bool { // what it says may come before the engine calls it running
		found, err := b.engine.ContainerList(t.Context(), container.ListOptions{})
		i := slices.IndexFunc(found, func(c container.Summary) bool { return c.Labels[engine.LabelScope] == b.scope })
		if err != nil || i < 0 {
			return false
		}
		id = found[i].ID
		return true
	}
	b.await("the engine to call it running", mine)
	kill(cmd)
	if !mine() {
		t.Fatal("the component ended with its launcher")
	}
	if _, err := b.run(s); err == nil || !strings.Contains(err.Error(), "node n runs already in container "+id[:12]) {
		t.Errorf("got %v", err)
	}
	if err := b.engine.ContainerKill(t.Context(), id, "KILL"); err != nil {
		t.Fatal(err)
	}
	b.await("its end", func() bool { return !b.running(id) })
	s.Args, s.Remove = []string{"true"}, true
	if _, err := b.run(s); err != nil || !strings.Contains(b.log.String(), id[:12]) {
		t.Errorf("afterwards: %v\n%s", err, b.log.String())
	}
	if got := b.left(); len(got) != 1 {
		t.Errorf("left: %q", got)
	}
}

// TestSignal gives a launcher a signal, as Ctrl-C does: the component ends with its own code.
func TestSignal(t *testing.T) {
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM} {
		b := newBench(t)
		s := b.shell("n", `trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.1; done`, nil)
		cmd := b.launcher(s)
		b.await("the component", func() bool { return strings.Contains(b.out.String(), "up") })
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 5 || !strings.Contains(b.out.String(), "bye") {
			t.Errorf("%v: exit code %d, output %q %q", sig, code, b.out.String(), b.errors.String())
		}
	}
}

// TestTTY gives the launcher a terminal, which is the component's then: echo, size and Ctrl-C.
func TestTTY(t *testing.T) {
	script, err := exec.LookPath("script")
	if err != nil {
		t.Skip("needs the program script (util-linux)")
	}
	b := newBench(t)
	s := b.shell("n", `until [ "$(stty size)" = "33 77" ]; do sleep 0.05; done; echo sized; read -r a; echo "got $a"; trap 'echo interrupted; exit 4' INT; echo ready; while :; do sleep 0.1; done`, func(s *component.Spec) {
		s.Attach = false // a terminal is there
	})
	cmd := exec.Command(script, "-qec", "stty rows 33 cols 77; exec "+os.Args[0], "/dev/null")
	cmd.Env = append(os.Environ(), launcherVar+"="+encoded(t, s), "SHELL=/bin/sh")
	cmd.Stdout, cmd.Stderr = &b.out, &b.errors
	keys, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kill(cmd) })
	b.await("the component", func() bool { return strings.Contains(b.out.String(), "sized\r\n") })
	fmt.Fprint(keys, "hello\n")
	b.await("the answer", func() bool { return strings.Contains(b.out.String(), "got hello\r\nready") })
	fmt.Fprint(keys, "\x03")
	_ = cmd.Wait()
	if out := b.out.String(); cmd.ProcessState.ExitCode() != 4 || !strings.Contains(out, "interrupted") {
		t.Errorf("exit code %d, output %q %q", cmd.ProcessState.ExitCode(), out, b.errors.String())
	}
}
