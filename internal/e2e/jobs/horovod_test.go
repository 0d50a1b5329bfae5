package jobs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

// hvd trains a small model on data of which each rank has its own, and says which one it has in the end. With a word behind it a rank does that first.
const hvd = `import hashlib, os, pathlib, signal, sys, time
import torch, horovod.torch as hvd
hvd.init()
rank = hvd.rank()
print("rank", rank, "of", hvd.size(), "local", hvd.local_rank(), "of", hvd.local_size(), "on", os.environ.get("SWARM_NODE_IP"), flush=True)
torch.set_num_threads(1)
torch.manual_seed(7)
model = torch.nn.Sequential(torch.nn.Linear(32, 16), torch.nn.ReLU(), torch.nn.Linear(16, 8))
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
step = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), named_parameters=model.named_parameters())
torch.manual_seed(100 + rank)
do = sys.argv[1] if len(sys.argv) > 1 else ""
for i in range(20 if do not in ("waits", "stops") else 10**9):
    step.zero_grad()
    model(torch.randn(16, 32)).pow(2).mean().backward()
    step.step()
    if do == "dies" and rank == 1 and i == 5 and os.environ["SWARM_EPOCH"] == "0":
        os.kill(os.getpid(), signal.SIGKILL)
    if do == "stops" and rank == 1 and i == 5:
        pathlib.Path(os.environ["SWARM_WORK_DIR"], "stop").touch()
    if do in ("waits", "stops"):
        time.sleep(0.1)
print("model", hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest(), flush=True)
`

// modelOf is a line of a rank with its model.
var modelOf = regexp.MustCompile(`model ([0-9a-f]{64})`)

// ofHorovodrun is the model of two ranks that horovodrun starts.
func (h *hosts) ofHorovodrun(python string) string {
	h.T.Helper()
	file := h.Path("byhand.py")
	if err := os.WriteFile(file, []byte(hvd), 0o600); err != nil {
		h.T.Fatal(err)
	}
	run := filepath.Join(filepath.Dir(python), "horovodrun")
	p := e2etest.Start(h.T, "horovodrun", h.Dir, nil, run, "--gloo", "-np", "2", "-H", "localhost:2", python, file)
	p.Exits()
	all := modelOf.FindAllString(p.Output(), -1)
	if len(all) != 2 || all[0] != all[1] {
		h.T.Fatalf("horovodrun has no model:\n%s", p.Output())
	}
	return all[0]
}

// TestHorovodForMinutes: ranks of Horovod on two hosts, without horovodrun, come to the model of horovodrun. A rank that is killed ends all; with restarts
// they meet anew. Each of the ends of a job is one of theirs too.
func TestHorovodForMinutes(t *testing.T) {
	if os.Getenv("SWARM_TEST_LONG") == "" {
		t.Skip("builds Horovod: SWARM_TEST_LONG=1 or make test-long")
	}
	python := e2etest.Environment(t, "horovod")
	h := newHosts(t, 1)
	h.before = withPython(python)
	if err := os.Mkdir(h.Path("runs"), 0o700); err != nil {
		t.Fatal(err)
	}
	policy := anything + "folders: {runs: {path: " + h.Path("runs") + ", use: runs}}\n"
	h.swop(1, policy)
	h.swop(2, policy)
	h.serve()
	const two = "framework: horovod\nreplicas: 2\ngrace: 1s\n"
	out := h.says(0, "run job -f "+h.job("hvd", hvd, two+"command: p.py\n"),
		"swop-1/node/0: rank 0 of 2 local 0 of 1 on "+h.Addr(21), "swop-2/node/1: rank 1 of 2 local 0 of 1 on "+h.Addr(22), "job hvd succeeded")
	models := append(modelOf.FindAllString(out, -1), h.ofHorovodrun(python))
	if len(models) != 3 || len(slices.Compact(models)) != 1 {
		t.Errorf("models %q, want that of horovodrun on both hosts\n%s", models, out)
	}
	out = h.says(0, "run job -f "+h.job("together", hvd, two+"command: p.py\nhosts: [swop-1]\n"), "swop-1/node/1: rank 1 of 2 local 0 of 1", "job together succeeded")
	if got := modelOf.FindString(out); got != models[0] {
		t.Errorf("on one host %s, want %s", got, models[0])
	}
	h.says(0, "init job --process --framework horovod "+h.Path("begun"))
	h.says(0, "run job -f "+h.Path("begun", "job.yaml"), "swop-1/node/0: rank 0 of 2: epoch 3, loss ", "swop-2/node/1: rank 1 of 2: epoch 3, loss ", "job begun succeeded")
	h.says(1, "run job -f "+h.job("dies", hvd, two+"command: p.py dies\n"), "job dies failed: ")
	h.says(0, "get job status dies", "end         member_failed", "exited with code ")
	h.says(0, "run job -f "+h.job("again", hvd, two+"command: p.py dies\nrestarts: 1\n"), "restart 1 of 1", "swop-2/node/1: "+models[0], "job again succeeded")
	h.says(0, "run job -f "+h.job("stops", hvd, two+"command: p.py stops\nwork_dir: runs\n"), "job stops succeeded")
	h.says(0, "get job status stops", "end         stop_file")
	h.says(0, "run job -f "+h.job("lives", hvd, two+"command: p.py waits\nends: {ttl: 5s}\n"), "job lives succeeded")
	h.says(0, "get job status lives", "end         ttl")
	const never = "ready: {port: 9999, period: 1s}"
	h.says(8, "run job -f "+h.job("main", hvd, two+"command: p.py waits\nready_timeout: 6s\n"+never+"\n"), "job main failed: ")
	h.says(0, "get job status main", "end         main_timeout")
	h.says(8, "run job -f "+h.job("late", hvd, "framework: horovod\ngrace: 1s\ncommand: p.py waits\nready_timeout: 6s\ngroups: [{name: first}, {name: second, "+never+"}]\n"), "job late failed: ")
	h.says(0, "get job status late", "end         ready_timeout")
	follow := h.swarmctl("run", "job", "-f", h.job("cut", hvd, two+"command: p.py waits\n"))
	follow.Sees("swop-1/node/0: rank 0 of 2", "swop-2/node/1: rank 1 of 2")
	h.isCutOff(2, "cut", follow)
	h.stop()
	h.LeavesNothing()
}

// TestHorovodInContainersForMinutes: ranks of Horovod in containers come to one model in each network that they may have.
func TestHorovodInContainersForMinutes(t *testing.T) {
	if os.Getenv("SWARM_TEST_LONG") == "" {
		t.Skip("builds Horovod: SWARM_TEST_LONG=1 or make test-long")
	}
	const image = "swarm-test-horovod-jobs:latest"
	enginetest.WithPackages(t, engine.ImagePYT, image, e2etest.Environment(t, "horovod"))
	h := newHosts(t, 1)
	one, two := h.withEngine(1, image), h.withEngine(2, image)
	h.serve()
	h.lab(one, two)
	var models []string
	for name, network := range map[string]string{"own": "network: host\n", "shared": "network: lab\n", "private": "hosts: [swop-1]\n"} {
		out := h.says(0, "run job -f "+h.job(name, hvd, "framework: horovod\nreplicas: 2\nimage: "+image+"\ncommand: p.py\n"+network),
			"/node/0: rank 0 of 2 local 0 of 1 on ", "/node/1: rank 1 of 2 local 0 of 1 on ", "job "+name+" succeeded")
		models = append(models, modelOf.FindAllString(out, -1)...)
	}
	if len(models) != 6 || len(slices.Compact(slices.Clone(models))) != 1 {
		t.Errorf("models %q, want one of all ranks", models)
	}
	h.says(1, "run job -f "+h.job("dies", hvd, "framework: horovod\nreplicas: 2\nimage: "+image+"\ncommand: p.py dies\nnetwork: lab\n"), "job dies failed: ")
	h.says(0, "get job status dies", "end         member_failed")
	if n := len(ofMembers(t, one)) + len(ofMembers(t, two)); n != 0 {
		t.Errorf("%d containers are left", n)
	}
	h.stop()
	h.LeavesNothing()
}
