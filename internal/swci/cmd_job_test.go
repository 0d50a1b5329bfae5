package swci_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/jobs"
)

func TestJobIsBegunAndExplained(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "grid")
	out, next := must(t, "init", "job", dir, "--framework", "dask")
	if want := dir + " has a job of framework dask: Dockerfile, source/grid.py, job.yaml\n"; out != want {
		t.Errorf("says %q, want %q", out, want)
	}
	file := filepath.Join(dir, "job.yaml")
	if want := "next: swarmctl explain job " + file + ", then: swarmctl run job " + file + " -f\n"; next != want {
		t.Errorf("says %q, want %q", next, want)
	}
	out, _ = must(t, "explain", "job", file, "--replicas", "3", "-e", "A=1,2", "--arg", "--points", "--arg", "5", "--image", "grid:2", "--resources", "cpu=2,memory=4GB", "--timeout", "1h")
	for _, want := range []string{
		"job grid: 5 members, ", "changed: replicas is 3; the file has 2\n", "changed: env.A is 1,2; the file has nothing\n", "changed: args is [\"--points\" \"5\"]; the file has nothing\n",
		"changed: image is grid:2; the file has grid:1\n", "changed: resources is cpu=2,memory=4GB; the file has nothing\n", "changed: timeout is 1h; the file has 30m\n",
		"for each member of worker: cpu=2, memory=4GB\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing:\n%s", want, out)
		}
	}
	if _, _, err := certRun(t, "init", "job", dir); exit.Code(err) != exit.Conflict {
		t.Errorf("a second time: exit code %d, %v", exit.Code(err), err)
	}
}

func TestExplainJobInJSON(t *testing.T) {
	file := filepath.Join(t.TempDir(), "job.yaml")
	if err := os.WriteFile(file, []byte("name: x\nframework: pytorch\nimage: i\ncommand: train.py\nreplicas: 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _ := must(t, "explain", "job", file, "-o", "json")
	var got jobs.Explained
	if err := json.Unmarshal([]byte(out), &got); err != nil || got.Name != "x" || len(got.Members) != 2 || got.Members[1].Command[1] != "train.py" || got.DoneWhen != "all" {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestWhatIsSaidKeepsItsBlanks: variables and arguments are a program's, and blanks mean something to it.
func TestWhatIsSaidKeepsItsBlanks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "job.yaml")
	if err := os.WriteFile(file, []byte("name: x\nimage: i\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _ := must(t, "explain", "job", file, "-e", "A= b ", "--arg", " c, d ", "-o", "json")
	var got jobs.Explained
	if err := json.Unmarshal([]byte(out), &got); err != nil || got.Members[0].Args[0] != " c, d " || !slices.Contains(got.Members[0].Env, jobs.Variable{Name: "A", Value: " b "}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestExplainJobRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "job.yaml")
	for _, tt := range []struct{ body, options, want string }{
		{"name: x\nreplica: 2\n", "", "explain job: " + file + ":2: unknown field replica: did you mean replicas?"},
		{"name: x\n", "", "explain job: " + file + ": group node has neither a command nor an image whose own it runs: write command"},
		{"name: x\nimage: i\n", "--replicas a=2", "explain job: " + file + `: replicas of "a": the job has no groups: write the number alone`},
	} {
		if err := os.WriteFile(file, []byte(tt.body), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := certRun(t, append([]string{"explain", "job", file}, strings.Fields(tt.options)...)...); err == nil || err.Error() != tt.want || exit.Code(err) != exit.Failed {
			t.Errorf("%q: got %v, exit code %d", tt.body, err, exit.Code(err))
		}
	}
	if _, _, err := certRun(t, "explain", "job", file+"x"); exit.Code(err) != exit.NotFound {
		t.Errorf("no file: %v", err)
	}
}
