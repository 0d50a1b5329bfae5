package ranks_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// TestRayTrainForMinutes: the workers of a Ray cluster are one peer, and come to the same model as one that torchrun has started.
func TestRayTrainForMinutes(t *testing.T) {
	if os.Getenv("SWARM_TEST_LONG") == "" {
		t.Skip("starts a Ray cluster: SWARM_TEST_LONG=1 or make test-long")
	}
	needTorchrun(t)
	python := e2etest.Environment(t, "ray")
	w := newSwarm(t, 2)
	cluster := w.ray(filepath.Join(filepath.Dir(python), "ray"))
	site, err := filepath.Abs("testdata") // lets Debian's torch 1.13 import what Ray imports
	if err != nil {
		t.Fatal(err)
	}
	train := `env PYTHONPATH="$PYTHONPATH:` + site + `" ` + python + " ray_train.py"
	env := []string{"MIN_PEERS=2", "MAX_EPOCHS=15"}
	other := w.shell(2, "peer 2", true, oneHost, env...)
	ranks := w.shell(1, "peer 1", true, train, append(env, "RAY_ADDRESS="+cluster, "RAY_DEDUP_LOGS=0", "RAY_USAGE_STATS_ENABLED=0")...)
	ranks.Ends(limit)
	other.Ends(limit)
	all := append(results(t, ranks.Output(), 2), results(t, other.Output(), 2)...)
	for _, r := range all {
		if r != all[0] || r.accuracy <= 0.93 {
			t.Errorf("a rank ends with %v, another with %v; want one model of more than 0.93", r, all[0])
		}
	}
}

// ray starts a Ray cluster of this host and returns its address. It ends with the test.
func (w *swarm) ray(program string) string {
	w.T.Helper()
	port := freePort(w.T)
	p := e2etest.Start(w.T, "ray", w.Dir, []string{"TMPDIR=" + w.Dir}, program, "start", "--head", "--block", "--port="+port,
		"--num-cpus=4", `--resources={"swarm": 1}`, "--object-store-memory=100000000", "--include-dashboard=false", "--disable-usage-stats", "--temp-dir="+w.Path("ray"))
	w.T.Cleanup(func() { // its children are in groups of their own
		_ = p.Cmd.Process.Signal(syscall.SIGTERM)
		p.Exits()
	})
	p.Sees("Ray runtime started.")
	return "127.0.0.1:" + port
}
