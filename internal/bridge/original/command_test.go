package original_test

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/bridge/original"
)

// TestMain lets the test binary be the executable that runs a program.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == original.Command {
		os.Exit(original.RunProgram(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// wrapped is a command behind the test binary, at a bridge that is not there.
func wrapped(t *testing.T, o original.Options, words ...string) *exec.Cmd {
	t.Helper()
	line := o.Wrap("/proc/self/exe", words)
	cmd := exec.CommandContext(t.Context(), line[0], line[1:]...)
	cmd.Env = []string{"SWARM_BRIDGE_DIR=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0"}
	return cmd
}

// TestRunProgram: the program has its arguments, its streams and its variables, and its exit code is the whole's. Nothing is left behind.
func TestRunProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, tt := range map[string]struct {
		words []string
		code  int
		said  string // on both streams
	}{
		"exit code":      {[]string{"sh", "-c", "exit 7"}, 7, ""},
		"by a signal":    {[]string{"sh", "-c", "kill -9 $$"}, 128 + 9, ""},
		"not there":      {[]string{"/no/such/program"}, 1, "swarmd ml-client: start /no/such/program: fork/exec /no/such/program: no such file or directory\n"},
		"pipes":          {[]string{"sh", "-c", `[ -p "$SL_REQUEST_CHANNEL" ] && [ -p "$SL_RESPONSE_CHANNEL" ] && echo pipes`}, 0, "pipes\n"},
		"weight files":   {[]string{"sh", "-c", `cd "$1" && stat -c '%n %a %s' *.pkl`, "sh", dir}, 0, "merged_weights.pkl 777 0\ntrained_weights.pkl 777 0\n"},
		"standard input": {[]string{"cat"}, 0, "what was typed"},
	} {
		cmd := wrapped(t, original.Options{Folder: dir}, tt.words...)
		cmd.Stdin = strings.NewReader("what was typed")
		out, err := cmd.CombinedOutput()
		if err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		if code := cmd.ProcessState.ExitCode(); code != tt.code || string(out) != tt.said {
			t.Errorf("%s: exit code %d, want %d; it said %q, want %q", name, code, tt.code, out, tt.said)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s: %v is left, %v", name, left, err)
		}
	}
}

// TestRefusals: each is one line.
func TestRefusals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := errors.Join(os.WriteFile(file, nil, 0o644), os.Mkdir(filepath.Join(dir, "trained_weights.pkl"), 0o755)); err != nil {
		t.Fatal(err)
	}
	noBridge := wrapped(t, original.Options{Folder: t.TempDir()}, "true")
	noBridge.Env = []string{"PATH=" + os.Getenv("PATH")}
	pipe := wrapped(t, original.Options{Folder: t.TempDir()}, "true")
	pipe.Env = append(pipe.Env, "SL_RESPONSE_CHANNEL="+file)
	for want, cmd := range map[string]*exec.Cmd{
		"usage: swarmd ml-client -folder=DIR":                wrapped(t, original.Options{Folder: dir}),
		"SWARM_BRIDGE_DIR is not set":                        noBridge,
		file + " is there and is no named pipe: remove it, ": pipe,
		file + " is there and is no directory: ":             wrapped(t, original.Options{Folder: t.TempDir(), Link: file}, "true"),
		"trained_weights.pkl: is a directory":                wrapped(t, original.Options{Folder: dir}, "true"),
	} {
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(string(out), want) || strings.Count(string(out), "\n") != 1 {
			t.Errorf("exit code %d, it said %q, want one line with %q", code, out, want)
		}
	}
}

// TestLink: it leads to the folder, once and again; a directory that is there already is the folder.
func TestLink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder, link, mounted := filepath.Join(dir, "folder"), filepath.Join(dir, "link"), filepath.Join(dir, "mounted")
	if err := os.Mkdir(mounted, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{link, link, mounted} {
		out, err := wrapped(t, original.Options{Folder: folder, Link: at}, "sh", "-c", `ls "$1"/*.pkl`, "sh", at).CombinedOutput()
		want := at + "/merged_weights.pkl\n" + at + "/trained_weights.pkl\n"
		if diff := cmp.Diff(string(out), want); diff != "" || err != nil {
			t.Errorf("%v (-got +want):\n%s", err, diff)
		}
	}
}

// TestSignals reach the program where nobody else sends them there, and it decides what they mean.
func TestSignals(t *testing.T) {
	t.Parallel()
	cmd := wrapped(t, original.Options{Folder: t.TempDir(), Forward: true}, "sh", "-c", `trap 'echo heard; exit 5' TERM; echo ready; while :; do sleep 0.01; done`)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Scan()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	lines.Scan()
	if _ = cmd.Wait(); lines.Text() != "heard" || cmd.ProcessState.ExitCode() != 5 {
		t.Errorf("it said %q and ended with %d", lines.Text(), cmd.ProcessState.ExitCode())
	}
}
