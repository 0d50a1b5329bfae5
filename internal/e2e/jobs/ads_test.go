package jobs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

// runner is the entry point of images of ads opctl: its own ClusterRunner and ClusterProvider, as released. The classes for each framework are in archives of
// images and in no wheel; these start the same programs by the same methods.
const runner = `import os, socket, subprocess, sys
from ads.opctl.distributed.common.abstract_cluster_provider import ClusterProvider
from ads.opctl.distributed.common.cluster_provider_factory import ClusterProviderFactory
from ads.opctl.distributed.common.cluster_runner import ClusterRunner

class Provider(ClusterProvider):
    def entry(self, *front):
        try:
            subprocess.run([sys.executable, *front, os.environ["OCI__ENTRY_SCRIPT"], *os.environ.get("OCI__ENTRY_SCRIPT_ARGS", "").split()], check=True)
        finally:
            self.code_execution_complete = True

class Dask(Provider):
    def configuration(self, conf={}):
        conf = self.basic_configuration()
        if self.mode == "MAIN":
            conf["SCHEDULER_IP"] = self.ip
        return conf
    def start_main(self):
        self.export_configuration(self.export_config_files())
        self.process = subprocess.Popen([sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", self.ip, "--no-dashboard", "--pid-file", "main_pid"])
    def start_worker(self):
        self.export_configuration(self.export_config_files())
        self.process = subprocess.Popen([sys.executable, "-m", "distributed.cli.dask_worker", os.environ["SCHEDULER_IP"] + ":8786", "--host", self.ip, "--no-dashboard", "--no-nanny", "--nthreads", "1"])
    def run_code(self):
        if self.mode == "MAIN":
            self.entry()
    def stop(self):
        super().stop()
        self.process.terminate()

class PyTorch(Provider):
    def configuration(self, conf={}):
        conf = self.basic_configuration()
        if self.mode == "MAIN":
            conf["MASTER_ADDR"] = self.ip
        return conf
    def start_main(self):
        self.export_configuration(self.export_config_files())
    start_worker = start_main
    def run_code(self):
        os.environ["WORLD_SIZE"] = str(1 + self.expected_worker_count())
        os.environ["MASTER_PORT"] = "29400"
        self.entry()

ClusterProviderFactory.register("DASK", Dask)
ClusterProviderFactory.register("PYTORCH", PyTorch)
ClusterRunner().run()
`

// grid is a program that Dask's workers carry out.
const grid = `import os, sys
from distributed import Client
with Client(os.environ["SCHEDULER_IP"] + ":8786", timeout=120) as c:
    c.wait_for_workers(1, timeout=120)
    print("sum", sum(c.gather(c.map(lambda x: x * x, range(10)))), "by", len(c.scheduler_info()["workers"]), "worker", flush=True)
sys.exit(int(sys.argv[1]))
`

// store is a program of which each process meets the others by MASTER_ADDR, as torch's do, without torch: rank 0 serves there.
const store = `import os, socket, sys, time
at = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if os.environ["RANK"] == "0":
    s = socket.create_server(("", at[1]))
    c, _ = s.accept()
    print("rank 0 of", os.environ["WORLD_SIZE"], "met", c.recv(9).decode(), flush=True)
    c.sendall(b"rank 0")
else:
    for i in range(60):
        try:
            c = socket.create_connection(at)
            break
        except OSError:
            time.sleep(1)
    c.sendall(b"rank 1")
    print("rank 1 met", c.recv(9).decode(), flush=True)
sys.exit(int(sys.argv[1]))
`

// adsJob writes a job whose members start their cluster by the runner of ads, with a program that ends with a code.
func (h *hosts) adsJob(name, kind, program, code, lines string) string {
	h.T.Helper()
	file := h.job(name, runner, "work_dir: my-bucket\ncompat: oci\ncommand: python3 p.py\n"+
		"env: {CLUSTER_TYPE: "+kind+", ENTRY_SCRIPT: entry.py, ENTRY_SCRIPT_ARGS: '"+code+"'}\ngroups: [{name: main}, {name: worker}]\n"+lines)
	if err := os.WriteFile(h.Path(name, "source", "entry.py"), []byte(program), 0o600); err != nil {
		h.T.Fatal(err)
	}
	return file
}

// starts runs clusters that start themselves, of which each has a program that succeeds and one that fails.
func (h *hosts) starts(kind, program, lines string, wants ...string) {
	h.T.Helper()
	name := strings.ToLower(kind)
	h.says(0, "run job -f "+h.adsJob(name, kind, program, "0", lines), append(wants, "Signalling Stop!!!", "swop-1/main/0: Exiting with exit code: 0", "job "+name+" succeeded")...)
	out := h.says(0, "get job status "+name, "end         entry_done")
	if strings.Contains(out, "stopped") {
		h.T.Errorf("a member was ended, and ends by itself:\n%s", out)
	}
	runs, err := filepath.Glob(h.Path("bucket", name+"-*", "stop"))
	if err != nil || len(runs) != 1 {
		h.T.Errorf("files stop: %q, %v", runs, err)
	}
	h.says(1, "run job -f "+h.adsJob(name+"-fails", kind, program, "3", lines), "Signalling Stop!!!", "job "+name+"-fails failed: ")
	h.says(0, "get job status "+name+"-fails", "end         member_failed", "exited with code 1")
}

// TestAdsImagesForMinutes: the runner of Oracle's ads opctl starts clusters by itself, as processes of two hosts, in a folder that these share. A program that fails has its job fail, though the runner writes stop.
func TestAdsImagesForMinutes(t *testing.T) {
	if os.Getenv("SWARM_TEST_LONG") == "" {
		t.Skip("takes minutes: SWARM_TEST_LONG=1 or make test-long")
	}
	python := e2etest.Environment(t, "ads")
	h := newHosts(t, 1)
	h.before = withPython(python)
	if err := os.MkdirAll(h.Path("bucket"), 0o700); err != nil {
		t.Fatal(err)
	}
	policy := anything + "folders: {my-bucket: {path: " + h.Path("bucket") + ", use: runs}}\n"
	h.swop(1, policy)
	h.swop(2, policy)
	h.serve()
	h.starts("DASK", grid, "", "swop-1/main/0: IP address: "+h.Addr(21), "swop-2/worker/1: IP address: "+h.Addr(22), "swop-1/main/0: sum 285 by 1 worker", "swop-2/worker/1: Stopping the process. Reason: Stop file found")
	h.starts("PYTORCH", store, "", "swop-1/main/0: rank 0 of 2 met rank 1", "swop-2/worker/1: rank 1 met rank 0")
	h.stop()
	h.LeavesNothing()
}

// TestAdsImagesInContainersForMinutes: the same runner in an image, on two hosts with an engine each, in a network that the hosts share and in their own.
func TestAdsImagesInContainersForMinutes(t *testing.T) {
	if os.Getenv("SWARM_TEST_LONG") == "" {
		t.Skip("takes minutes: SWARM_TEST_LONG=1 or make test-long")
	}
	const image = "swarm-test-ads-jobs:latest"
	enginetest.WithPackages(t, enginetest.TestImage, image, e2etest.Environment(t, "ads"))
	h := newHosts(t, 1)
	engines := []*engine.Engine{h.withEngine(1, image), h.withEngine(2, image)}
	h.serve()
	h.lab(engines...)
	h.starts("DASK", grid, "image: "+image+"\nnetwork: lab\n", "swop-1/main/0: IP address: 10.99.0.", "swop-2/worker/1: IP address: 10.99.0.", "swop-1/main/0: sum 285 by 1 worker", "swop-2/worker/1: Stopping the process. Reason: Stop file found")
	h.starts("PYTORCH", store, "image: "+image+"\nnetwork: host\n", "swop-1/main/0: IP address: "+h.Addr(21), "swop-1/main/0: rank 0 of 2 met rank 1", "swop-2/worker/1: rank 1 met rank 0")
	for i, e := range engines {
		if n := len(ofMembers(t, e)); n != 0 {
			t.Errorf("%d containers are left on host %d", n, i+1)
		}
	}
	h.stop()
	h.LeavesNothing()
}
