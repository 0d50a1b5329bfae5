package jobs_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

// examples are the folders of examples/.
const examples = "../../../examples"

// TestRayTrainForMinutes: a job of Ray on two hosts, whose workers of Ray Train are one peer: rank 0 is beside the head, in a container that has the
// bridge of the SL on its host. A job of PyTorch on the other host is a second peer, and both come to one model.
func TestRayTrainForMinutes(t *testing.T) {
	if os.Getenv("SWARM_TEST_LONG") == "" {
		t.Skip("trains peers with Ray: SWARM_TEST_LONG=1 or make test-long")
	}
	enginetest.NeedImage(t, enginetest.Engine(t), engine.ImagePYT, "scripts/images pyt")
	venv := filepath.Dir(filepath.Dir(e2etest.Environment(t, "ray")))
	h := newHosts(t, 1)
	h.digits(2)
	policy := "limits:\n  networks: [host]\nfolders:\n  venv: " + venv + "\n  data: " + h.Path("data") + "\n  beside: {path: " + h.Path("beside") + ", use: write}\n  runs: {path: " + h.Path("runs") + ", use: runs}\n" + anything
	h.withPolicy(1, policy, engine.ImagePYT)
	h.withPolicy(2, policy, engine.ImagePYT)
	var sls []*e2etest.Proc
	for i := 1; i <= 2; i++ {
		sls = append(sls, h.sl(i))
	}
	h.serve()
	for _, sl := range sls {
		sl.Sees("\nexport SWARM_BRIDGE_DIR=")
	}
	other := h.peer("other", 2, "framework: pytorch\ncommand: train.py\nhosts: [swop-2]\n")
	ranks := h.peer("ranks", 1, `framework: ray
command: ray_train.py
work_dir: runs
groups:
- {name: head, args: [--object-store-memory, 100000000, --resources, '{"swarm": 1}']}
- {name: worker, args: [--object-store-memory, 100000000]}
`, "PATH=/venv/bin:/usr/bin:/bin", "PYTHONPATH=/run/swarm/source", "RAY_DEDUP_LOGS=0", "MODEL_DIR=${SWARM_WORK_DIR}")
	ranks.Ends(3 * e2etest.Timeout)
	other.Ends(e2etest.Timeout)
	models := regexp.MustCompile(`rank (\d) of (\d): final test accuracy: (\S+) of model ([0-9a-f]{64})`).FindAllStringSubmatch(ranks.Output()+other.Output(), -1)
	if len(models) != 3 || models[0][1] == models[1][1] || models[0][4] != models[1][4] || models[0][4] != models[2][4] {
		t.Errorf("models %q, want one of three ranks", models)
	}
	h.holds("run job", ranks.Output(), "swop-1 has head/0; swop-2 has worker/1", "job ranks succeeded")
	for _, sl := range sls {
		if got := strings.Count(sl.Output(), "session opened"); got != 1 {
			t.Errorf("an SL opened %d sessions, want 1:\n%s", got, e2etest.Last(sl.Output(), 20))
		}
		sl.Stop()
	}
	h.stop()
	h.LeavesNothing()
}

// digits divides handwritten digits among peers.
func (h *hosts) digits(peers int) {
	h.T.Helper()
	python := e2etest.Environment(h.T, "tf") // which has scikit-learn
	split := exec.CommandContext(h.T.Context(), python, filepath.Join(examples, "digits-pyt", "split.py"), "--peers", fmt.Sprint(peers), "--out", h.Path("data"))
	if out, err := split.CombinedOutput(); err != nil {
		h.T.Fatalf("%v: %s", err, out)
	}
	if err := errors.Join(os.Mkdir(h.Path("beside"), 0o700), os.Mkdir(h.Path("runs"), 0o700)); err != nil {
		h.T.Fatal(err)
	}
}

// sl starts an SL on host i, which starts no program.
func (h *hosts) sl(i int) *e2etest.Proc {
	h.T.Helper()
	name := fmt.Sprintf("sl-%d", i)
	return h.Start(20+i, name, append([]string{
		"swarmd", "run-sl", "--name", name, "--host-ip", h.Addr(20 + i), "--sn-ip", h.Addr(1), "--state-dir", h.Path(name), "--bridge-dir", h.Path("beside", name), "--attach", "--expected-peers=2",
	}, h.Identity("sl", i)...)...)
}

// peer runs a job of containers whose rank 0 is beside SL i.
func (h *hosts) peer(name string, i int, lines string, env ...string) *e2etest.Proc {
	h.T.Helper()
	sl := fmt.Sprintf("sl-%d", i)
	env = append(env, "MIN_PEERS=2", "MAX_EPOCHS=5", "SWARM_PEER="+sl, "SWARM_BRIDGE_DIR="+h.Path("beside", sl), "DATA_DIR=/data/"+fmt.Sprint(i-1))
	file := h.job(name, "", "image: "+engine.ImagePYT+"\nnetwork: host\nresources: {cpu: 1}\nvolumes: ['venv:/venv', 'data:/data', 'beside:"+h.Path("beside")+":rw']\nenv:\n  "+strings.ReplaceAll(strings.Join(env, "\n  "), "=", ": ")+"\n"+lines)
	for _, from := range []string{examples + "/digits-ranks/train.py", examples + "/digits-ranks/ray_train.py", "../ranks/testdata/sitecustomize.py"} {
		raw, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(h.Path(name, "source", filepath.Base(from)), raw, 0o600)
		}
		if err != nil {
			h.T.Fatal(err)
		}
	}
	return h.swarmctl("run", "job", "-f", file)
}
