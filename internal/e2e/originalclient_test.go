package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// TestOriginalClient has the client that stands for the original's check itself: its frames against examples, and its
// conversations with a server of a few lines.
func TestOriginalClient(t *testing.T) {
	e2etest.NeedPython(t)
	t.Parallel()
	if out, err := exec.Command(e2etest.Python, "-B", "testdata/original/selftest.py").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// original starts SL i with a program that has the original's client, of a dialect, and no other.
func (w *swarm) original(i int, dialect string, extra ...string) *e2etest.Proc {
	w.T.Helper()
	model := w.Path(fmt.Sprintf("original%d", i))
	if err := os.CopyFS(model, os.DirFS("testdata/original")); err != nil {
		w.T.Fatal(err)
	}
	run := "import sys, train; sys.argv[1:] = [" + strconv.Quote(dialect) + "]; train.main()\n"
	if err := os.WriteFile(filepath.Join(model, "program.py"), []byte(run), 0o644); err != nil {
		w.T.Fatal(err)
	}
	return w.alone(i, append([]string{
		"--model-dir=" + model, "--model-program=program.py",
		fmt.Sprintf("PEER=%d", i), "POLL=0.05",
	}, extra...)...)
}

// trained is what such a program wrote at its end.
type trained struct {
	SHA256       string    `json:"sha256"`
	Syncs        int       `json:"syncs"`
	Merges       int       `json:"merges"`
	TrainingOver bool      `json:"training_over"`
	Batches      int       `json:"num_batches_tracked"`
	Losses       []float64 `json:"losses"`
}

func (w *swarm) trained(i int) (r trained) {
	w.T.Helper()
	content, err := os.ReadFile(filepath.Join(w.Path(fmt.Sprintf("original%d", i)), "result.json"))
	if err == nil {
		err = json.Unmarshal(content, &r)
	}
	if err != nil {
		w.T.Fatal(err)
	}
	return r
}

// TestProgramsWithTheOriginalsClient: two programs of each release merge twelve times and at their ends, and come to the same model.
func TestProgramsWithTheOriginalsClient(t *testing.T) {
	e2etest.NeedPython(t)
	t.Parallel()
	w := newSwarm(t)
	w.one()
	for first, dialect := range map[int]string{1: "2.0", 3: "2.2", 5: "2.3"} {
		var sls []*e2etest.Proc
		for i := first; i < first+2; i++ {
			sls = append(sls, w.original(i, dialect, "CONTRACT=release-"+dialect, "--ml-client=original"))
		}
		finish(t, sls...)
		a, b := w.trained(first), w.trained(first+1)
		if a.SHA256 != b.SHA256 || a.Merges < 12 || a.Syncs != 12 && !a.TrainingOver {
			t.Errorf("release %s: %+v and %+v, want 12 merges and one model", dialect, a, b)
		}
	}
}
