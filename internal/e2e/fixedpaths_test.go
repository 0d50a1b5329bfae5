package e2e_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// TestProgramsThatOpenFixedPaths: two at once on one machine that has no such paths, each with its own directories there, alone and in
// the swarm.
func TestProgramsThatOpenFixedPaths(t *testing.T) {
	e2etest.NeedPython(t)
	t.Parallel()
	_, before := os.Stat("/platform")
	dir := t.TempDir()
	starts := []string{"1.0 2.0 3.0", "3.0 6.0 3.0"}
	for i, start := range starts {
		data := filepath.Join(dir, "data", "01"[i:i+1])
		if err := errors.Join(os.MkdirAll(data, 0o755), os.WriteFile(filepath.Join(data, "start.txt"), []byte(start), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	run := e2etest.Start(t, "local", dir, []string{"XDG_RUNTIME_DIR=" + dir, "XDG_STATE_HOME=" + dir}, "swarmctl", "local", "run", "--peers", "2", "--platform", "PYT",
		"--python", e2etest.Python, "--model-dir", mustAbs(t, "testdata/fixedpaths"), "--model-program", "program.py", "--data-dir", filepath.Join(dir, "data", "{peer}"),
		"--out", filepath.Join(dir, "out"), "--baseline", "--verbose")
	code := run.Exits()
	if strings.Contains(run.Output(), "makes no mount namespace") {
		t.Skip("this machine lets this user make no mount namespace")
	}
	if code != 9 {
		t.Fatalf("exit code %d, want 9, as the program trains nothing", code)
	}
	for i, start := range starts {
		out := filepath.Join(dir, "out", "sl-"+"01"[i:i+1])
		for where, want := range map[string]string{out: "2.0 4.0 3.0", filepath.Join(out, "local-only"): start} {
			merged, err := os.ReadFile(filepath.Join(where, "merged.txt"))
			if got := strings.Join(strings.Fields(string(merged)), " "); err != nil || got != want {
				t.Errorf("%s: merged %q, want %q; %v", where, got, want, err)
			}
			said, err := os.ReadFile(filepath.Join(where, "program.log"))
			if err != nil || !strings.Contains(string(said), "data: Read-only file system") {
				t.Errorf("%s: the program could write its data, or %v: %s", where, err, said)
			}
		}
	}
	if _, after := os.Stat("/platform"); errors.Is(before, fs.ErrNotExist) && !errors.Is(after, fs.ErrNotExist) {
		t.Errorf("the machine has a directory /platform now: %v", after)
	}
}

func mustAbs(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}
