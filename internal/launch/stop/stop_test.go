package stop_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/stop"
	"github.com/swarmd/swarmd/internal/registry"
)

// This program plays a component when it is started as one: it registers, says so and runs until SIGTERM, or, if it is deaf,
// until it is killed.
func TestMain(m *testing.M) {
	how := os.Getenv("STOP_TEST_COMPONENT")
	if how == "" {
		os.Exit(run(m))
	}
	sigs := make(chan os.Signal, 1)
	signal.Notify(sigs, syscall.SIGTERM)
	_, err := registry.Add(registry.Entry{
		Role: strings.TrimPrefix(os.Args[1], "run-"), Name: os.Args[2], Platform: os.Args[3], Scope: os.Getenv("SWARM_SCOPE"),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("registered")
	for range sigs {
		if how != "deaf" {
			os.Exit(0)
		}
	}
}

// program is a copy of this program under the name of a component's.
var program string

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "stop-test-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "swarmd")
	self, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = os.WriteFile(program, self, 0o700)
	}
	if err != nil {
		panic(err)
	}
	return e2etest.Main(m)
}

// process starts a component as a process; the function reports whether it runs.
func process(t *testing.T, how, role, name, platform string) func() bool {
	t.Helper()
	cmd := exec.Command(program, "run-"+role, name, platform)
	cmd.Env = append(os.Environ(), "STOP_TEST_COMPONENT="+how)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done
	})
	_, err = io.ReadFull(out, make([]byte, len("registered\n")))
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	if err != nil {
		t.Fatal(err)
	}
	return func() bool { // one that was not waited for yet does not run
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
		return err == nil && !strings.Contains(string(stat), ") Z ")
	}
}

// runDir sets a directory of the test's own for the list of processes.
func runDir(t *testing.T) { t.Setenv("SWARM_RUN_DIR", filepath.Join(t.TempDir(), "run")) }

// call runs stop with options as typed and returns what it said, its lines sorted and numbers and IDs replaced.
func call(t *testing.T, e *engine.Engine, scope string, grace time.Duration, args ...string) (string, error) {
	t.Helper()
	o, err := stop.Parse(args)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = stop.Run(t.Context(), stop.Config{Options: o, Scope: scope, Engine: e, Grace: grace, Out: &out})
	return out.String(), err
}

func TestProcessesAreStopped(t *testing.T) {
	runDir(t)
	t.Setenv("SWARM_SCOPE", "mine")
	runs := map[string]func() bool{
		"SN sn-0":         process(t, "polite", "sn", "sn-0", ""),
		"SL sl-0":         process(t, "polite", "sl", "sl-0", "PYT"),
		"SL sl-1":         process(t, "polite", "sl", "sl-1", "TF"),
		"SPIRE server ":   process(t, "polite", "spire-server", "", ""),
		"job member of 7": process(t, "polite", "member", "of 7", ""),
		"SWCI by prompt":  process(t, "polite", "swci", "by prompt", ""),
	}
	t.Setenv("SWARM_SCOPE", "others")
	other := process(t, "polite", "sl", "sl-0", "PYT")
	for _, step := range []struct {
		args  string
		stops []string
	}{
		{"--sl-pyt", []string{"SL sl-0"}},
		{"--swop --spire-server", []string{"job member of 7", "SPIRE server "}},
		{"--apls", nil},
		{"--keep", []string{"SWCI by prompt", "SL sl-1", "SN sn-0"}}, // in this order
	} {
		out, err := call(t, nil, "mine", 0, strings.Fields(step.args)...)
		if err != nil {
			t.Errorf("%s: %v", step.args, err)
		}
		var said []string
		for line := range strings.Lines(out) {
			if what, ok := strings.CutPrefix(line, "Stopping "); ok {
				if !strings.HasSuffix(line, ") … stopped\n") {
					t.Errorf("%s: %q", step.args, line)
				}
				said = append(said, what[:strings.LastIndex(what, "(process")])
			}
		}
		var want []string
		for _, name := range step.stops {
			if runs[name]() {
				t.Errorf("%s: %s still runs", step.args, name)
			}
			delete(runs, name)
			want = append(want, strings.TrimSpace(name)+" ")
		}
		if d := cmp.Diff(want, said); d != "" {
			t.Errorf("%s: said\n%s", step.args, d)
		}
		for name, alive := range runs {
			if !alive() {
				t.Errorf("%s stopped %s", step.args, name)
			}
		}
	}
	for args, want := range map[string]string{
		"": "No running components found\n", "--all": "No running components found\n", "--sn": "No running SN found\n", "--apls --sn": "No running SN found\n",
		"--sl-pyt --swop": "No running SWOP, PyTorch SL found\n", "--apls": "No license server is needed, so none runs\n",
	} {
		if out, err := call(t, nil, "mine", 0, strings.Fields(args)...); err != nil || out != want {
			t.Errorf("again %q: %q, %v", args, out, err)
		}
	}
	if !other() {
		t.Error("a process of another scope was stopped")
	}
}

func TestDeafProcessIsKilled(t *testing.T) {
	runDir(t)
	t.Setenv("SWARM_SCOPE", "mine")
	alive := process(t, "deaf", "sl", "sl-0", "PYT")
	out, err := call(t, nil, "mine", 300*time.Millisecond)
	if err != nil || alive() || !strings.HasSuffix(out, " … killed (it did not stop in time)\n") {
		t.Errorf("%q, %v, alive %t", out, err, alive())
	}
}

// An entry that points at a stranger stops nobody, and is said.
func TestForgedEntryStopsNobody(t *testing.T) {
	runDir(t)
	t.Setenv("SWARM_SCOPE", "mine")
	alive := process(t, "polite", "sn", "sn-0", "")
	dir := os.Getenv("SWARM_RUN_DIR")
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	path := filepath.Join(dir, files[0].Name())
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.Replace(text, []byte(`"role":"sn"`), []byte(`"role":"sl"`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := call(t, nil, "mine", 0)
	var failed *stop.Error
	if !errors.As(err, &failed) || !slices.ContainsFunc(failed.What, func(w string) bool { return strings.HasPrefix(w, "SL sn-0 (process ") }) || !errors.Is(err, registry.ErrStranger) {
		t.Errorf("%q, %v", out, err)
	}
	if !alive() {
		t.Error("the process was stopped")
	}
}

func TestRunNeedsAScope(t *testing.T) {
	if err := stop.Run(t.Context(), stop.Config{Out: io.Discard}); err == nil {
		t.Error("no error without a scope")
	}
}

func TestOpenSaysWhyThereIsNoEngine(t *testing.T) {
	env := func(host string) func(string) string {
		return func(k string) string {
			if k == "DOCKER_HOST" {
				return host
			}
			return ""
		}
	}
	t.Setenv("DOCKER_HOST", "unix:///nowhere/x.sock")
	if _, err := stop.Open(t.Context(), env("unix:///nowhere/x.sock")); err == nil || errors.Is(err, stop.ErrNoEngine) {
		t.Errorf("a socket that was named and is not there: %v", err)
	}
}

// cleaning bounds what is done when a test has ended.
func cleaning() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 30*time.Second)
}
