package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
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
	return w.originalRuns(i, "train", dialect, extra...)
}

// model is the model directory of SL i with such a program.
func (w *swarm) model(i int) string { return w.Path(fmt.Sprintf("original%d", i)) }

// originalRuns starts SL i with a module of testdata/original and its argument.
func (w *swarm) originalRuns(i int, module, argument string, extra ...string) *e2etest.Proc {
	w.T.Helper()
	model := w.model(i)
	if err := os.MkdirAll(model, 0o755); err != nil {
		w.T.Fatal(err)
	}
	files, _ := filepath.Glob("testdata/original/*.py")
	for _, f := range files {
		if err := os.Symlink(mustAbs(w.T, f), filepath.Join(model, filepath.Base(f))); err != nil && !errors.Is(err, fs.ErrExist) {
			w.T.Fatal(err)
		}
	}
	run := fmt.Sprintf("import sys, %[1]s; sys.argv[1:] = [%[2]q]; %[1]s.main()\n", module, argument)
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
	content, err := os.ReadFile(filepath.Join(w.model(i), "result.json"))
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

// TestTheOriginalsClientEnds: peers that finish first, in each way, and one that is told that training is over, all come to the same model.
func TestTheOriginalsClientEnds(t *testing.T) {
	e2etest.NeedPython(t)
	t.Parallel()
	w := newSwarm(t)
	w.one()
	var sls []*e2etest.Proc
	for i, how := range [][]string{{"CHECKIN=active", "ROUNDS=3"}, {"CHECKIN=inactive", "ROUNDS=5"}, {"CHECKIN=snapshot", "ROUNDS=6"}, {"ROUNDS=200"}} {
		sls = append(sls, w.original(i+1, "2.3", append(how, "--ml-client=original", "--expected-peers=4", "MIN_PEERS=3")...))
	}
	finish(t, sls...)
	last := w.trained(4)
	if !last.TrainingOver || last.Merges < 6 {
		t.Errorf("who trained longest has %+v, want it to be told that training is over", last)
	}
	for i := 1; i <= 3; i++ {
		if r := w.trained(i); r.SHA256 != last.SHA256 || r.TrainingOver {
			t.Errorf("sl-%d has %+v, want the model of %+v", i, r, last)
		}
	}
}

// TestTheOriginalsClientMisbehaves: what is wrong is said in one line, in the program too where it can hear it, and nothing is executed.
func TestTheOriginalsClientMisbehaves(t *testing.T) {
	e2etest.NeedPython(t)
	t.Parallel()
	w := newSwarm(t)
	w.one()
	mark := w.Path("executed")
	pipe := w.Path("a-file")
	if err := os.WriteFile(pipe, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	const sl = "swarmd ml-client: "
	tests := []struct {
		dialect, setting string
		said             []string // by what serves the client, and by the client
	}{
		{"2.3", "FAULT=pickle", []string{sl + "weights in ", "it names posix.system", "SwarmError: SL error: weights in "}},
		{"2.2", "FAULT=version", []string{sl + "Mismatch in the Swarm API version", "SwarmError: SL error: Mismatch in the Swarm API version between ML and SL containers. Expected version 2, but the version received from the header is 7"}},
		{"2.3", "FAULT=twice", []string{sl + "session ", "is open at this node", "SwarmError: SL error: session "}},
		{"2.0", "FAULT=huge", []string{sl + "a message of type 2 has 4294967295 bytes, want at most 65536"}},
		{"2.2", "FAULT=die", []string{sl + "read a message of "}},
		{"2.3", "SL_REQUEST_CHANNEL=" + pipe, []string{sl + pipe + " is there and is no named pipe: remove it, or name another path in SL_REQUEST_CHANNEL"}},
		{"2.3", "METHOD=nonsense", []string{sl, "SwarmError: SL error: ", "nonsense"}},
	}
	var started []*e2etest.Proc
	for i, tt := range tests {
		started = append(started, w.original(i+1, tt.dialect, tt.setting, "FAULT_MARK="+mark, "MIN_PEERS=1", "CONTRACT=wrong-"+strconv.Itoa(i), "--ml-client=original"))
	}
	for i, tt := range tests {
		p := started[i]
		if code := p.Exits(); code == 0 {
			t.Errorf("%s: exit code 0", tt.setting)
		}
		lines := 0
		for line := range strings.Lines(p.Output()) {
			// Python writes its traceback in pieces, and the line may come between two of them.
			if strings.HasPrefix(line, "program | ") && strings.Contains(line, sl) {
				lines++
			}
		}
		if lines != 1 {
			t.Errorf("%s: %d lines of what serves the client, want 1", tt.setting, lines)
		}
		for _, want := range tt.said {
			if !strings.Contains(p.Output(), want) {
				t.Errorf("%s: nobody says %q", tt.setting, want)
			}
		}
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("a pickle was executed")
	}
}

// TestTheOriginalsPackageBesideAProgram is served though nobody said so, and refused where only this project's is wanted.
func TestTheOriginalsPackageBesideAProgram(t *testing.T) {
	e2etest.NeedPython(t)
	t.Parallel()
	w := newSwarm(t)
	w.one()
	dir := filepath.Join(w.model(1), "swarmlearning")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"__init__.py", "swifrpc_pb2.py"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w.original(1, "2.2", "MIN_PEERS=1", "ROUNDS=2", "--ml-client=swarmlearning").Fails("the program beside it would import it", "--ml-client original")
	p := w.original(1, "2.2", "MIN_PEERS=1", "ROUNDS=2")
	finish(t, p)
	if r := w.trained(1); r.Merges != 3 || !strings.Contains(p.Output(), "the program would import the original's client, which is served") {
		t.Errorf("%+v", r)
	}
}
