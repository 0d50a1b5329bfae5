package jobs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

// tensorflow are two hosts on whose processes TensorFlow's programs run.
func tensorflow(t *testing.T) *hosts {
	t.Helper()
	python := e2etest.Environment(t, "tf")
	h := newHosts(t, 1)
	h.before = withPython(python)
	policy := h.withRuns()
	h.swop(1, policy)
	h.swop(2, policy)
	h.serve()
	return h
}

// withPython are the words that start a SWOP whose processes run with a Python.
func withPython(python string) []string { return []string{"/usr/bin/env", "SWARM_PYTHON=" + python} }

// begun is the file of a new job of a framework.
func (h *hosts) begun(name, framework string) string {
	h.T.Helper()
	h.says(0, "init job --process --framework "+framework+" "+h.Path(name), "has a job of framework "+framework)
	return h.Path(name, "job.yaml")
}

// results are what the workers of the job that init job writes say: their last loss and their model.
func results(said string) (all []string) {
	for _, m := range regexp.MustCompile(`(?:epoch 3, loss|: model|fitted model) (\S+)`).FindAllStringSubmatch(said, -1) {
		all = append(all, m[1])
	}
	slices.Sort(all)
	return all
}

// TestTensorFlowJob: the job that init job begins for TensorFlow runs as two processes on two hosts, which train one model.
func TestTensorFlowJob(t *testing.T) {
	h := tensorflow(t)
	h.trained()
	h.stop()
	h.LeavesNothing()
}

// TestTensorFlowContainersForMinutes: the job that init job begins comes to the same in containers on two hosts, in their network, and on one host in a network of its own.
func TestTensorFlowContainersForMinutes(t *testing.T) {
	if os.Getenv("SWARM_TEST_LONG") == "" {
		t.Skip("runs TensorFlow in containers: SWARM_TEST_LONG=1 or make test-long")
	}
	enginetest.NeedImage(t, enginetest.Engine(t), engine.ImageTF, "scripts/images tf")
	h := newHosts(t, 1)
	one, two := h.withEngine(1, engine.ImageTF), h.withEngine(2, engine.ImageTF)
	h.serve()
	h.says(0, "init job --framework tensorflow "+h.Path("tf"), "has a job of framework tensorflow")
	file := h.Path("tf", "job.yaml")
	raw, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(h.Path("tf", "open.yaml"), append(raw, "network: host\n"...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	apart := results(h.says(0, "run job --image "+engine.ImageTF+" -f "+h.Path("tf", "open.yaml"), "swop-1/worker/0: worker 0 of 2: epoch 3", "swop-2/worker/1: worker 1 of 2: epoch 3", "job tf succeeded"))
	together := results(h.says(0, "run job --image "+engine.ImageTF+" -f "+file, "swop-1/worker/0: worker 0 of 2: epoch 3", "swop-1/worker/1: worker 1 of 2: epoch 3", "job tf succeeded"))
	if len(apart) != 4 || apart[0] != apart[1] || apart[2] != apart[3] || !slices.Equal(apart, together) {
		t.Errorf("on two hosts the workers end with %q, on one with %q", apart, together)
	}
	if n := len(ofMembers(t, one)) + len(ofMembers(t, two)); n != 0 {
		t.Errorf("%d containers are left", n)
	}
	h.stop()
	h.LeavesNothing()
}

// trained runs the job that init job begins, and returns its program and what its workers said in the end.
func (h *hosts) trained() (program string, all []string) {
	h.T.Helper()
	file := h.begun("tf", "tensorflow")
	out := h.says(0, "run job -f "+file, "swop-1/worker/0: worker 0 of 2: epoch 3", "swop-2/worker/1: worker 1 of 2: epoch 3", "job tf succeeded")
	if all = results(out); len(all) != 4 || all[0] != all[1] || all[2] != all[3] {
		h.T.Errorf("the workers end with %q, want one loss and one model", all)
	}
	return filepath.Join(filepath.Dir(file), "source", "train.py"), all
}

// TestTensorFlowForMinutes: a job comes to what its program comes to that is started by hand with TF_CONFIG, and one that loses a rank ends with that.
func TestTensorFlowForMinutes(t *testing.T) {
	if os.Getenv("SWARM_TEST_LONG") == "" {
		t.Skip("runs TensorFlow many times: SWARM_TEST_LONG=1 or make test-long")
	}
	h := tensorflow(t)
	program, want := h.trained()
	if got := h.byHand(e2etest.Environment(t, "tf"), program); !slices.Equal(got, want) {
		t.Errorf("by hand the workers end with %q, in the job with %q", got, want)
	}
	h.losesRank()
	h.servesChief()
	h.fits()
	const chiefAndWorker = "groups: [{name: chief%s}, {name: worker%s}]\n"
	h.comesTo("ttl", 0, "tensorflow", sleeps, "replicas: 2\nends: {ttl: 1s}\n")
	h.comesTo("stop_file", 0, "tensorflow", stops, "replicas: 2\nwork_dir: runs\n")
	h.comesTo("main_timeout", 8, "tensorflow", sleeps, "ready_timeout: 4s\n"+fmt.Sprintf(chiefAndWorker, ", ready: {port: 1}", ""))
	h.comesTo("ready_timeout", 8, "tensorflow", sleeps, "ready_timeout: 4s\n"+fmt.Sprintf(chiefAndWorker, "", ", ready: {port: 1}"))
	follow := h.swarmctl("run", "job", "-f", h.job("cut", steps, "framework: tensorflow\ncommand: p.py\nreplicas: 2\ngrace: 2s\n"))
	follow.Sees("swop-1/worker/0: steps with 2.0", "swop-2/worker/1: steps with 2.0")
	h.isCutOff(2, "cut", follow)
	h.stop()
	h.LeavesNothing()
}

// byHand starts the program of a job on both hosts as TensorFlow's guide does.
func (h *hosts) byHand(python, program string) []string {
	h.T.Helper()
	var ranks []*e2etest.Proc
	for i := range 2 {
		config := fmt.Sprintf(`TF_CONFIG={"cluster": {"worker": ["%s:12345", "%s:12345"]}, "task": {"type": "worker", "index": %d}}`, h.Addr(21), h.Addr(22), i)
		ranks = append(ranks, h.Start(21+i, fmt.Sprintf("worker %d by hand", i), "/usr/bin/env", config, python, program, "--epochs", "3"))
	}
	said := ""
	for _, p := range ranks {
		p.Ends(3 * e2etest.Timeout)
		said += p.Output()
	}
	return results(said)
}

// steps adds up a number of all workers for ever.
const steps = `import os
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
one = tf.constant(1.0)
@tf.function
def step():
    return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(lambda: one), axis=None)
n = 0
while True:
    total = step().numpy()
    n += 1
    if n == 3:
        print("steps with", total, "of process", os.getpid(), flush=True)
`

// losesRank kills a worker. The chief fails by that too, or would wait for it: the job ends, and its status says which member was killed.
func (h *hosts) losesRank() {
	h.T.Helper()
	follow := h.swarmctl("run", "job", "-f", h.job("lost", steps, "framework: tensorflow\ncommand: p.py\nreplicas: 2\ngrace: 2s\n"))
	follow.Sees("swop-1/worker/0: steps with 2.0", "swop-2/worker/1: steps with 2.0")
	var pid int
	m := regexp.MustCompile(`worker/1: steps with 2.0 of process (\d+)`).FindStringSubmatch(follow.Output())
	if _, err := fmt.Sscan(m[1], &pid); err != nil {
		h.T.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		h.T.Fatal(err)
	}
	if code := follow.Exits(); code != 1 {
		h.T.Errorf("exit code %d of run job -f, want 1", code)
	}
	h.holds("run job", follow.Output(), "job lost failed: member ")
	out := h.says(0, "get job status lost", "end         member_failed")
	if !regexp.MustCompile(`worker +1 +swop-2 +exited +- +137 `).MatchString(out) {
		h.T.Errorf("the status does not say that the worker was killed:\n%s", out)
	}
}

// coordinates has a chief count with a worker what a parameter server keeps.
const coordinates = `import os
import tensorflow as tf
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type in ("worker", "ps"):
    server = tf.distribute.Server(resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc")
    print(resolver.task_type, "serves", flush=True)
    server.join()
strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    total = tf.Variable(0.0)
@tf.function
def add():
    total.assign_add(1.0)
for _ in range(10):
    coordinator.schedule(add)
coordinator.join()
print("counted", total.numpy(), "on", total.device, flush=True)
`

// servesChief has the chief of a job use a worker and a parameter server, which share a host and are ended after it.
func (h *hosts) servesChief() {
	h.T.Helper()
	file := h.job("served", coordinates, "framework: tensorflow\ncommand: p.py\ngrace: 2s\ngroups: [{name: chief}, {name: worker, env: {WORKER_PORT: 12346}}, {name: ps, env: {WORKER_PORT: 12347}}]\n")
	h.says(0, "run job -f "+file, "swop-1/chief/0: counted 10.0 on /job:ps/", "worker/1: worker serves", "ps/2: ps serves", "job served succeeded")
	out := h.says(0, "get job status served", "end         entry_done")
	if strings.Count(out, "stopped") != 2 {
		h.T.Errorf("the worker and the parameter server are not stopped:\n%s", out)
	}
}

// fit has Keras itself train.
const fit = `import hashlib
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
me = strategy.cluster_resolver
tf.keras.utils.set_random_seed(1)
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.InputLayer((4,)), tf.keras.layers.Dense(4), tf.keras.layers.Dense(1)])
    model.compile(tf.keras.optimizers.SGD(0.1), loss="mse")
x = np.random.default_rng(len(me.task_type)).normal(size=(40, 4)).astype("float32")
model.fit(x, x.sum(axis=1, keepdims=True), batch_size=8, epochs=2, steps_per_epoch=5, verbose=0)
print("fitted model", hashlib.sha256(b"".join(weight.tobytes() for weight in model.get_weights())).hexdigest(), flush=True)
`

// fits has fit of Keras 2 train one model, where that of Keras 3 fails.
func (h *hosts) fits() {
	h.T.Helper()
	lines := "framework: tensorflow\ncommand: p.py\nreplicas: 2\ngrace: 2s\n"
	out := h.says(0, "run job -f "+h.job("keras-2", fit, lines+"env: {TF_USE_LEGACY_KERAS: 1}\n"), "job keras-2 succeeded")
	if all := results(out); len(all) != 2 || all[0] != all[1] {
		h.T.Errorf("the workers end with %q, want one model", all)
	}
	h.says(1, "run job -f "+h.job("keras-3", fit, lines), "PerReplica", "job keras-3 failed: ")
}
