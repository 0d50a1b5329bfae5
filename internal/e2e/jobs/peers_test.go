package jobs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

// sls starts an SL on each of the first hosts, which starts no program: rank 0 of a job comes to it.
func (h *hosts) sls(n int) (all []*e2etest.Proc) {
	h.T.Helper()
	for i := 1; i <= n; i++ {
		name := fmt.Sprintf("sl-%d", i)
		all = append(all, h.Start(20+i, name, append([]string{
			"swarmd", "run-sl", "--name", name, "--host-ip", h.Addr(20 + i), "--sn-ip", h.Addr(1), "--state-dir", h.Path(name), "--bridge-dir", h.Path("beside", name), "--attach", fmt.Sprintf("--expected-peers=%d", n),
		}, h.Identity("sl", i)...)...))
	}
	for _, sl := range all {
		sl.Sees("\nexport SWARM_BRIDGE_DIR=")
	}
	return all
}

// peer runs a job in the host's network whose rank 0 is beside SL i.
func (h *hosts) peer(name string, i int, lines string, env ...string) *e2etest.Proc {
	h.T.Helper()
	sl := fmt.Sprintf("sl-%d", i)
	env = append(env, "SWARM_PEER="+sl, "SWARM_BRIDGE_DIR="+h.Path("beside", sl))
	file := h.job(name, mirrored, "network: host\nresources: {cpu: 1}\nenv:\n  "+strings.ReplaceAll(strings.Join(env, "\n  "), "=", ": ")+"\n"+lines)
	for _, from := range []string{examples + "/digits-ranks/train.py", examples + "/digits-ranks/ray_train.py", "../ranks/testdata/sitecustomize.py"} {
		raw, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(h.Path(name, "source", filepath.Base(from)), raw, 0o600)
		}
		if err != nil {
			h.T.Fatal(err)
		}
	}
	if err := os.WriteFile(h.Path(name, "source", "horovod_peer.py"), []byte(hvdPeer), 0o600); err != nil {
		h.T.Fatal(err)
	}
	return h.swarmctl("run", "job", "-f", file)
}

// oneOfThree holds that three ranks say that they have one model.
func oneOfThree(t *testing.T, said string) {
	t.Helper()
	models := regexp.MustCompile(`(rank \d of \d).* model ([0-9a-f]{64})`).FindAllStringSubmatch(said, -1)
	if len(models) != 3 || models[0][1] == models[1][1] || models[0][2] != models[1][2] || models[0][2] != models[2][2] {
		t.Errorf("models %q, want one of three ranks", models)
	}
}

// haveTrained holds that SLs had one session each, and stops them.
func (h *hosts) haveTrained(sls []*e2etest.Proc) {
	h.T.Helper()
	for _, sl := range sls {
		if got := strings.Count(sl.Output(), "session opened"); got != 1 {
			h.T.Errorf("an SL opened %d sessions, want 1:\n%s", got, e2etest.Last(sl.Output(), 20))
		}
		sl.Stop()
	}
}

// mirrored trains on data of each worker's own, in a loop of its own.
const mirrored = `import hashlib
import numpy as np
import tensorflow as tf
from swarmlearning.tf import SwarmCallback

strategy = tf.distribute.MultiWorkerMirroredStrategy()
me = strategy.cluster_resolver
tf.keras.utils.set_random_seed(1)
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(4), tf.keras.layers.Dense(1)])
    optimizer = tf.keras.optimizers.SGD(0.1)
    model.compile(optimizer, loss="mse")
swarm = SwarmCallback(syncFrequency=3, minPeers=2, totalEpochs=2, model=model)
x = np.random.default_rng(len(me.task_type)).normal(size=(40, 4)).astype("float32")
y = x.sum(axis=1, keepdims=True)

@tf.function
def step(x, y):
    def replica(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2) / strategy.num_replicas_in_sync
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    strategy.run(replica, (x, y))

swarm.on_train_begin()
for epoch in range(2):
    for batch in range(10):
        part = slice(4 * batch, 4 * batch + 4)
        step(tf.constant(x[part]), tf.constant(y[part]))
        swarm.on_batch_end(samples=4)
    swarm.on_epoch_end(epoch)
swarm.on_train_end()
digest = hashlib.sha256(b"".join(weight.tobytes() for weight in model.get_weights())).hexdigest()
print("rank", me.task_id, "of", strategy.num_replicas_in_sync, "has after", swarm.round, "rounds model", digest)
`

// TestTensorFlowPeersForMinutes: the workers of a job of TensorFlow on two hosts are one peer, whose chief has the bridge of the SL on its host; a job of one
// member on the other host is a second. They come to one model.
func TestTensorFlowPeersForMinutes(t *testing.T) {
	if os.Getenv("SWARM_TEST_LONG") == "" {
		t.Skip("trains peers with TensorFlow: SWARM_TEST_LONG=1 or make test-long")
	}
	enginetest.NeedImage(t, enginetest.Engine(t), engine.ImageTF, "scripts/images tf")
	h := newHosts(t, 1)
	if err := os.Mkdir(h.Path("beside"), 0o700); err != nil {
		t.Fatal(err)
	}
	policy := "limits:\n  networks: [host]\nfolders:\n  beside: {path: " + h.Path("beside") + ", use: write}\n" + anything
	h.withPolicy(1, policy, engine.ImageTF)
	h.withPolicy(2, policy, engine.ImageTF)
	sls := h.sls(2)
	h.serve()
	lines := "framework: tensorflow\nimage: " + engine.ImageTF + "\ncommand: p.py\nvolumes: ['beside:" + h.Path("beside") + ":rw']\n"
	other := h.peer("other", 2, lines+"hosts: [swop-2]\n", "WORKER_PORT=22345")
	ranks := h.peer("ranks", 1, lines+"replicas: 2\n")
	ranks.Ends(3 * e2etest.Timeout)
	other.Ends(e2etest.Timeout)
	oneOfThree(t, ranks.Output()+other.Output())
	h.holds("run job", ranks.Output(), "swop-1 has worker/0; swop-2 has worker/1", "job ranks succeeded")
	h.haveTrained(sls)
	h.stop()
	h.LeavesNothing()
}

// hvdPeer trains as ranks of Horovod, or as one process without.
const hvdPeer = `import hashlib, os
import torch
from swarmlearning.pyt import SwarmCallback
several = "HOROVOD_RANK" in os.environ
rank, ranks = 0, 1
if several:
    import horovod.torch as hvd
    hvd.init()
    rank, ranks = hvd.rank(), hvd.size()
torch.set_num_threads(1)
torch.manual_seed(7)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if several:
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
swarm = SwarmCallback(syncFrequency=4, minPeers=2, model=model, totalEpochs=2)
swarm.on_train_begin()
torch.manual_seed(100 + rank)
for epoch in range(2):
    for _ in range(8):
        x = torch.randn(16, 8)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), (x.sum(dim=1) > 0).long()).backward()
        optimizer.step()
        swarm.on_batch_end(samples=16)
    swarm.on_epoch_end(epoch)
swarm.on_train_end()
print("rank", rank, "of", ranks, "has after", swarm.round, "rounds model", hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest(), flush=True)
`

// TestHorovodPeersForMinutes: the ranks of a job of Horovod on two hosts are one peer, whose rank 0 has the bridge of the SL on its host; a job of one process
// on the other host is a second. They come to one model.
func TestHorovodPeersForMinutes(t *testing.T) {
	if os.Getenv("SWARM_TEST_LONG") == "" {
		t.Skip("builds Horovod: SWARM_TEST_LONG=1 or make test-long")
	}
	const image = "swarm-test-horovod-peers:latest"
	enginetest.WithPackages(t, engine.ImagePYT, image, e2etest.Environment(t, "horovod"))
	h := newHosts(t, 1)
	if err := os.Mkdir(h.Path("beside"), 0o700); err != nil {
		t.Fatal(err)
	}
	policy := "limits:\n  networks: [host]\nfolders:\n  beside: {path: " + h.Path("beside") + ", use: write}\n" + anything
	h.withPolicy(1, policy, image)
	h.withPolicy(2, policy, image)
	sls := h.sls(2)
	h.serve()
	lines := "image: " + image + "\ncommand: horovod_peer.py\nvolumes: ['beside:" + h.Path("beside") + ":rw']\n"
	other := h.peer("other", 2, lines+"hosts: [swop-2]\n")
	ranks := h.peer("ranks", 1, lines+"framework: horovod\nreplicas: 2\n")
	ranks.Ends(3 * e2etest.Timeout)
	other.Ends(e2etest.Timeout)
	oneOfThree(t, ranks.Output()+other.Output())
	h.holds("run job", ranks.Output(), "swop-1 has node/0; swop-2 has node/1", "job ranks succeeded")
	h.haveTrained(sls)
	h.stop()
	h.LeavesNothing()
}
