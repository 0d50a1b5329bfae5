package swci_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/swci/exit"
)

func TestNewWritesAProjectAndSaysWhatIsNext(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mine")
	out, next := must(t, "new", dir, "--framework", "sklearn")
	if want := dir + " has a scikit-learn program for a swarm: README.md, run.sh, model/train.py, model/data.py\n"; out != want {
		t.Errorf("says %q, want %q", out, want)
	}
	if want := "next: " + filepath.Join(dir, "run.sh") + "\n"; next != want {
		t.Errorf("says %q, want %q", next, want)
	}
	// This test's own binary is not the swarmctl of PATH: run.sh calls it by its path.
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if run, err := os.ReadFile(filepath.Join(dir, "run.sh")); err != nil || !strings.Contains(string(run), "SWARMCTL='"+own+"'") {
		t.Errorf("run.sh, %v:\n%s", err, run)
	}
	if _, _, err := certRun(t, "new", dir); exit.Code(err) != exit.Conflict {
		t.Errorf("a second time: exit code %d, %v", exit.Code(err), err)
	}
}

func TestNewInJSON(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mine")
	out, _ := must(t, "new", dir, "-o", "json")
	var got map[string]any
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"dir": dir, "framework": "pyt", "files": []any{"README.md", "run.sh", "model/train.py", "model/data.py"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("new -o json (-want +got):\n%s", diff)
	}
}
