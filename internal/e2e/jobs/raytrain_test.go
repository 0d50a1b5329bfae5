package jobs_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	if err := os.Mkdir(h.Path("beside"), 0o700); err != nil {
		t.Fatal(err)
	}
	policy := "limits:\n  networks: [host]\nfolders:\n  venv: " + venv + "\n  data: " + h.Path("data") + "\n  beside: {path: " + h.Path("beside") + ", use: write}\n  runs: {path: " + h.Path("runs") + ", use: runs}\n" + anything
	h.withPolicy(1, policy, engine.ImagePYT)
	h.withPolicy(2, policy, engine.ImagePYT)
	sls := h.sls(2)
	image := "image: " + engine.ImagePYT + "\nvolumes: ['venv:/venv', 'data:/data', 'beside:" + h.Path("beside") + ":rw']\n"
	env := []string{"MIN_PEERS=2", "MAX_EPOCHS=5"}
	other := h.peer("other", 2, image+"framework: pytorch\ncommand: train.py\nhosts: [swop-2]\n", append(env, "DATA_DIR=/data/1")...)
	ranks := h.peer("ranks", 1, image+`framework: ray
command: ray_train.py
work_dir: runs
groups:
- {name: head, args: [--object-store-memory, 100000000, --resources, '{"swarm": 1}']}
- {name: worker, args: [--object-store-memory, 100000000]}
`, append(env, "DATA_DIR=/data/0", "PATH=/venv/bin:/usr/bin:/bin", "PYTHONPATH=/run/swarm/source", "RAY_DEDUP_LOGS=0", "MODEL_DIR=${SWARM_WORK_DIR}")...)
	ranks.Ends(3 * e2etest.Timeout)
	other.Ends(e2etest.Timeout)
	oneOfThree(t, ranks.Output()+other.Output())
	h.holds("run job", ranks.Output(), "swop-1 has head/0; swop-2 has worker/1", "job ranks succeeded")
	h.haveTrained(sls)
	h.inPrivate()
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
	if err := os.Mkdir(h.Path("runs"), 0o700); err != nil {
		h.T.Fatal(err)
	}
}

// inPrivate runs the job that init job begins in containers of one host, in a network of its own.
func (h *hosts) inPrivate() {
	h.T.Helper()
	h.says(0, "init job --framework ray "+h.Path("grid"), "has a job of framework ray")
	file := h.Path("grid", "job.yaml")
	raw, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, append(raw, "volumes: ['venv:/venv']\nresources: {cpu: 1, shm: 256MB}\n"...), 0o600)
	}
	if err != nil {
		h.T.Fatal(err)
	}
	h.says(0, "run job -f --replicas 1 --image "+engine.ImagePYT+" -e PATH=/venv/bin:/usr/bin:/bin "+file, "swop-1 has head/0 worker/1", "swop-1/head/0: 2 nodes, best 1.5 with 0.0000", "job grid succeeded")
}
