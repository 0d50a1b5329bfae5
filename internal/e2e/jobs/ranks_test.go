package jobs_test

import (
	"regexp"
	"testing"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

// ddp trains a small model on data of which each rank has its own, and says which one it has in the end, and by what the ranks met.
const ddp = `import hashlib, os, socket, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
print("rank", rank, "of", dist.get_world_size(), "by", os.environ["GLOO_SOCKET_IFNAME"], "peers", [socket.gethostbyname("node-%d" % i) for i in range(2)] == os.environ["SWARM_NODE_IPS"].split())
torch.manual_seed(7)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(32, 8))
step = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(100 + rank)
for _ in range(20):
    step.zero_grad()
    model(torch.randn(16, 32)).pow(2).mean().backward()
    step.step()
print("model", hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest())
`

// TestRanksOnTwoHosts: PyTorch's ranks in containers on two hosts, which have an engine each, meet in the hosts' network and train to one model. In a network
// that both engines have, and their owners give, ranks find each other at its addresses; in no other one.
func TestRanksOnTwoHosts(t *testing.T) {
	enginetest.NeedImage(t, enginetest.Engine(t), engine.ImagePYT, "scripts/images pyt")
	h := newHosts(t, 1)
	one, two := h.withEngine(1, engine.ImagePYT, enginetest.TestImage), h.withEngine(2, engine.ImagePYT, enginetest.TestImage)
	h.serve()
	out := h.says(0, "run job -f "+h.job("ddp", ddp, "framework: pytorch\nimage: "+engine.ImagePYT+"\ncommand: p.py\nnetwork: host\nreplicas: 2\n"),
		"swop-1/node/0: rank 0 of 2 by eth0 peers True", "swop-2/node/1: rank 1 of 2 by eth0 peers True", "job ddp succeeded")
	models := regexp.MustCompile(`swop-(\d)/node/\d: model ([0-9a-f]{64})`).FindAllStringSubmatch(out, -1)
	if len(models) != 2 || models[0][1] == models[1][1] || models[0][2] != models[1][2] {
		t.Fatalf("models %q, want one of both hosts\n%s", models, out)
	}
	h.importsTraining(models[0][2])
	h.lab(one, two)
	h.says(0, "run job -f "+h.job("lab", meets, "image: "+enginetest.TestImage+"\ncommand: p.py\nnetwork: lab\nreplicas: 2\n"),
		"swop-1/node/0: rank 0 at 10.99.0.", "swop-2/node/1: rank 1 at 10.99.0.", "heard hello", "job lab succeeded")
	h.says(1, "run job -f "+h.job("labs", meets, "image: "+enginetest.TestImage+"\ncommand: p.py\nnetwork: labs\nreplicas: 2\n"), `asks for the network "labs"`)
	h.atTheStore()
	if n := len(ofMembers(t, one)) + len(ofMembers(t, two)); n != 0 {
		t.Errorf("%d containers are left", n)
	}
	h.stop()
	h.LeavesNothing()
}
