package ranks_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

// hvd is a peer's program, of ranks of Horovod or of one process without.
const hvd = `import hashlib, os, time
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
swarm = SwarmCallback(syncFrequency=4, minPeers=2, trainingContract="digits", model=model, totalEpochs=30)
swarm.on_train_begin()
torch.manual_seed(100 + rank)
for epoch in range(30):
    for _ in range(8):
        x = torch.randn(16, 8)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), (x.sum(dim=1) > 0).long()).backward()
        optimizer.step()
        swarm.on_batch_end(samples=16)
        time.sleep(0.05)
    swarm.on_epoch_end(epoch)
swarm.on_train_end()
print("rank", rank, "of", ranks, "ends with", hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest(), flush=True)
`

// endsWith is what a rank of Horovod says at its end.
var endsWith = regexp.MustCompile(`rank (\d) of (\d) ends with ([0-9a-f]{64})`)

// TestHorovodRanksOfAnSLForMinutes: an SL whose ranks are Horovod's, one of its own and one on a host, is one peer beside one of a single process, and all
// come to one model. When a rank is killed both are started again, and meet at a store that begins empty.
func TestHorovodRanksOfAnSLForMinutes(t *testing.T) {
	if os.Getenv("SWARM_TEST_LONG") == "" {
		t.Skip("builds Horovod: SWARM_TEST_LONG=1 or make test-long")
	}
	python := e2etest.Environment(t, "horovod")
	w := &ofSLs{swarm: withoutSLs(t, 2), python: python}
	w.swop(1, "sentences:\n- Allow spiffe://swarm.learning/swarm/sl to use host where all {task.type='RUN_JOB'}\n", []string{"SWARM_PYTHON=" + python})
	w.swops[0].Sees("Ready for Task Execution!")
	start := func(i int, more ...string) *e2etest.Proc {
		return w.Start(10+i, fmt.Sprintf("sl-%d", i), append(append(w.args(i, hvd), "--python", python, "--expected-peers=2"), more...)...)
	}
	peer, single := start(1, "--ranks=2", "--framework=horovod", "--restarts=1"), start(2)
	peer.Sees("round 2: ")
	w.onePeer()
	if err := syscall.Kill(w.process("SWARM_JOB_NAME=sl-1-ranks", "HOROVOD_RANK=1", "HOROVOD_GLOO_RENDEZVOUS_ADDR="+w.Addr(11)), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	peer.Ends(limit)
	single.Ends(limit)
	peer.Sees("all are started again restart=1 of=1")
	said := peer.Output() + w.swarmctl("get", "logs", "sl-1-ranks") + single.Output()
	models, ranks := map[string]bool{}, map[string]bool{}
	for _, m := range endsWith.FindAllStringSubmatch(said, -1) {
		models[m[3]], ranks[m[1]+" of "+m[2]] = true, true
	}
	if len(models) != 1 || len(ranks) != 3 {
		t.Errorf("ranks %v end with models %v, want one of all three\n%s", ranks, models, e2etest.Last(said, 60))
	}
	if strings.Contains(said, "refused a connection") {
		t.Error("a rank was refused")
	}
	w.stop()
}

// TestHorovodRanksInContainersForMinutes: rank 0 beside its SL and rank 1 on a host are containers, and come to one model.
func TestHorovodRanksInContainersForMinutes(t *testing.T) {
	if os.Getenv("SWARM_TEST_LONG") == "" {
		t.Skip("builds Horovod: SWARM_TEST_LONG=1 or make test-long")
	}
	const image = "swarm-test-horovod-ranks:latest"
	enginetest.WithPackages(t, engine.ImagePYT, image, e2etest.Environment(t, "horovod"))
	e, scope := enginetest.Engine(t), enginetest.Scope(t)
	w := &ofSLs{swarm: withoutSLs(t, 2)}
	env := []string{"DOCKER_HOST=" + os.Getenv("DOCKER_HOST"), "SWARM_SCOPE=" + scope}
	w.swop(1, "limits:\n  networks: [host]\nsentences:\n- Allow spiffe://swarm.learning/swarm/sl to use host where all {task.type='RUN_JOB'}\n", env, "--ml-runtime", "docker")
	w.swops[0].Sees("Ready for Task Execution!")
	peer := e2etest.Start(t, "sl-1", w.Dir, env, append(w.args(1, strings.NewReplacer("minPeers=2", "minPeers=1", "range(30)", "range(5)").Replace(hvd)),
		"--expected-peers=1", "--ml-runtime=docker", "--ml-network=host", "--ml-image="+image, "--ranks=2", "--framework=horovod", "--rank-image="+image)...)
	peer.Ends(limit)
	said := peer.Output() + w.swarmctl("get", "logs", "sl-1-ranks")
	all := endsWith.FindAllStringSubmatch(said, -1)
	if len(all) != 2 || all[0][1] == all[1][1] || all[0][2] != "2" || all[0][3] != all[1][3] {
		t.Errorf("ranks end with %q, want one model of two\n%s", all, e2etest.Last(said, 60))
	}
	w.Until("nothing to be left", func() bool { return len(enginetest.Left(t, e, scope)) == 0 })
	if err := os.Remove(w.Path("sl1/bridge-slots")); err != nil { // the node keeps it for its program's next container: nothing is in it
		t.Error(err)
	}
	w.stop()
}
