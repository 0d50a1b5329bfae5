package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// hostsOf starts an SN and SWOPs that carry jobs out as processes; stop ends all and holds that nothing is left.
func (w *swarm) hostsOf(n int) (hosts []*e2etest.Proc, stop func()) {
	w.T.Helper()
	authority := w.authority()
	sn := w.SN(1)
	sn.Sees(apiMarker)
	for i := range n {
		hosts = append(hosts, w.swop(i+1))
	}
	for _, h := range hosts {
		h.Sees("Ready for Task Execution!")
	}
	return hosts, func() {
		w.T.Helper()
		for _, p := range append(hosts, sn, authority) {
			p.Stop()
		}
		w.LeavesNothing()
	}
}

// says runs a command of swarmctl and holds its exit code and what it prints.
func (w *swarm) says(code int, command string, wants ...string) string {
	w.T.Helper()
	got, out := w.swarmctl(strings.Fields(command)...)
	if got != code {
		w.T.Errorf("%s: exit code %d, want %d\n%s", command, got, code, out)
	}
	for _, want := range wants {
		if !strings.Contains(out, want) {
			w.T.Errorf("%s: %q is missing:\n%s", command, want, out)
		}
	}
	w.T.Logf("$ swarmctl %s\n%s", command, out)
	return out
}

// begun is the file of a new job of a framework, with lines added to it.
func (w *swarm) begun(name, framework, lines string) string {
	w.T.Helper()
	dir := w.Path(name)
	w.says(0, "init job --process --framework "+framework+" "+dir, "has a job of framework "+framework)
	file := filepath.Join(dir, "job.yaml")
	raw, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, append(raw, lines...), 0o600)
	}
	if err != nil {
		w.T.Fatal(err)
	}
	return file
}

// TestJobsOfProcesses is what a new user does: begins a job, reads what it would be, runs it on one host and on three, and sees how it ended.
func TestJobsOfProcesses(t *testing.T) {
	t.Parallel()
	needsRclone(t)
	w := newSwarm(t)
	_, stop := w.hostsOf(3)
	file := w.begun("primes", "none", "")
	w.says(0, "explain job "+file, "hosts: those that take jobs then")
	out := w.says(0, "run job -f "+file, "hosts     swop-1 swop-2 swop-3", "swop-1 has node/0; swop-2 has node/1; swop-3 has node/2", "swop-1/node/0: primes below 100000: 9592", "swop-3/node/2: rank 2 of 3: ", "job primes succeeded")
	if strings.Contains(out, "node-") {
		t.Errorf("members are called as hosts call them:\n%s", out)
	}
	w.says(0, "get job status primes", "end         entry_done", "node   1     swop-2  exited  -      0 ")
	w.says(0, "get logs primes", "swop-1/node/0: primes below 100000: 9592")
	w.says(0, "list jobs", "primes", "succeeded  entry_done")
	one := w.begun("alone", "none", "hosts: [swop-2]\n")
	w.says(0, "run job -f "+one, "swop-2 has node/0 node/1 node/2", "swop-2/node/0: primes below 100000: 9592")
	w.says(1, "run job -f --arg --nonsense "+one, "changed   args is [\"--nonsense\"]; the file has ", "error: unrecognized arguments: --nonsense", "job alone failed: ")
	w.says(0, "get job status alone", "end         member_failed", "exited  -      2 ")
	w.says(6, "cancel job alone", "it has ended already")
	w.ranksMeet()
	w.endsOtherwise()
	w.endsByAFile()
	w.meetsAsOracles()
	w.endsInTime()
	w.copiesArtifacts()
	stop()
}

// written is a file of a job whose members run a program.
func (w *swarm) written(name, lines, program string) string {
	w.T.Helper()
	file := w.Path(name, "job.yaml")
	if err := errorOf(
		os.MkdirAll(w.Path(name, "source"), 0o700), os.WriteFile(w.Path(name, "source", "p.py"), []byte(program), 0o600),
		os.WriteFile(file, []byte("name: "+name+"\nsource: source\ncommand: p.py\n"+lines), 0o600),
	); err != nil {
		w.T.Fatal(err)
	}
	return file
}

// endsOtherwise runs jobs that do not come to their end: one is placed anew and fails again, one is refused, one is cancelled while another waits for room in vain.
func (w *swarm) endsOtherwise() {
	w.T.Helper()
	const program = "import os, sys, time\nrank, epoch = os.environ['SWARM_NODE_RANK'], os.environ['SWARM_EPOCH']\nprint(rank, 'in epoch', epoch)\nopen(os.environ['SWARM_ARTIFACTS'] + '/epoch', 'w').write(epoch)\nif rank == '1': sys.exit('broken')\ntime.sleep(3600)\n"
	w.says(1, "run job -f "+w.written("fails", "replicas: 3\nrestarts: 1\nartifacts: {dir: /opt/out}\n", program), "/node/1: 1 in epoch 0", "placed again, restart 1 of 1: ", "/node/0: 0 in epoch 1", "/node/1: broken", "job fails failed: ")
	w.says(0, "get job status fails", "restarts    1 of 1", "end         member_failed")
	w.fetched("fails", map[string]string{"swop-1/node/0": "1", "swop-2/node/1": "1", "swop-3/node/2": "1"})
	w.says(6, "run job -f "+w.written("image", "image: i:1\n", ""), "no host takes jobs in containers now", "swarmd run-swop --ml-runtime docker")
	long := w.written("long", "replicas: 3\ngrace: 1s\nresources: {cpu: 0.1}\n", "import time\nprint('begun')\ntime.sleep(3600)\n")
	w.says(0, "run job "+long, "job long is assigned to swop-1 swop-2 swop-3")
	three := func(what string) func() bool {
		return func() bool {
			_, out := w.swarmctl("get", "job", "status", "long")
			return strings.Count(out, what) == 3
		}
	}
	w.Until("all members ready", three("ready  yes"))
	w.says(8, "run job --timeout 2s -f "+w.written("late", "", "print(1)\n"), "is busy with assignment", "job late failed: timed out after 2s")
	w.says(0, "get job status late", "end         no_capacity")
	w.says(0, "run job --resources cpu=0.1 -f "+w.written("beside", "", "import os\nprint('sees', repr(os.environ['CUDA_VISIBLE_DEVICES']))\n"), "swop-1/node/0: sees ''", "job beside succeeded")
	w.says(8, "run job --resources cpu=4096 --timeout 2s -f "+w.written("huge", "replicas: 2\n", "print(1)\n"), "waiting: hosts for 2 members with 4096 CPUs each: swop-1 offers ", "job huge failed: timed out after 2s")
	w.says(0, "cancel job long because enough", "job long is cancelled")
	w.Until("end of the job that was cancelled", three("stopped"))
	w.says(0, "get job status long", "cancelled: enough", "end         cancelled")
}

// ranksMeet runs ranks of Horovod as far as its library would, which need not be there: rank 0 serves the values that ranks tell each other.
func (w *swarm) ranksMeet() {
	w.T.Helper()
	const program = "#!/usr/bin/env python3\nimport os, time, urllib.error, urllib.request\nrank = os.environ['HOROVOD_RANK']\n" +
		"at = 'http://%s:%s/global/' % (os.environ['HOROVOD_GLOO_RENDEZVOUS_ADDR'], os.environ['HOROVOD_GLOO_RENDEZVOUS_PORT'])\n" +
		"web = urllib.request.build_opener(urllib.request.ProxyHandler({}))\n" +
		"def ask(method, key, body=None):\n    try: return web.open(urllib.request.Request(at + key, body, method=method), timeout=10).read()\n    except urllib.error.HTTPError as e: assert e.code == 404\n" +
		"ask('PUT', rank, b'here')\nwhile not all(ask('GET', str(i)) for i in range(3)): time.sleep(.1)\nask('PUT', 'met' + rank, b'x')\n" +
		"if rank == '0':\n    while not all(ask('GET', 'met' + str(i)) for i in range(3)): time.sleep(.1)\nprint('rank', rank, 'has met all', flush=True)\n"
	file := w.written("meet", "framework: horovod\nreplicas: 3\nresources: {cpu: 0.1}\n", program)
	if err := os.Chmod(w.Path("meet", "source", "p.py"), 0o700); err != nil {
		w.T.Fatal(err)
	}
	if raw, err := os.ReadFile(file); err != nil || os.WriteFile(file, []byte(strings.Replace(string(raw), "command: p.py", "command: ./p", 1)), 0o600) != nil ||
		os.Rename(w.Path("meet", "source", "p.py"), w.Path("meet", "source", "p")) != nil {
		w.T.Fatal(err)
	}
	w.says(0, "run job -f "+file, "swop-1/node/0: rank 0 has met all", "swop-2/node/1: rank 1 has met all", "swop-3/node/2: rank 2 has met all", "job meet succeeded")
}

// endsByAFile runs a job whose members meet in a folder that their hosts share, where one of them ends it with success.
func (w *swarm) endsByAFile() {
	w.T.Helper()
	const program = "import os, pathlib, time\nat, rank = pathlib.Path(os.environ['SWARM_WORK_DIR']), os.environ['SWARM_NODE_RANK']\n(at / rank).touch()\n" +
		"while len(list(at.glob('[0-9]'))) < 3: time.sleep(.1)\nprint('all are here')\nif rank == '1': (at / 'stop').touch()\ntime.sleep(3600)\n"
	if err := os.Mkdir(w.Path("runs"), 0o700); err != nil {
		w.T.Fatal(err)
	}
	file := w.written("stops", "replicas: 3\ngrace: 1s\nwork_dir: runs\n", program)
	w.says(0, "explain job "+file, "ends with success when there is: a file named stop in the folder of the run")
	w.says(0, "run job -f "+file, "/node/0: all are here", "/node/2: all are here", "job stops succeeded")
	w.says(0, "get job status stops", "end         stop_file", "stopped")
	w.says(1, "run job -f "+w.written("lost", "work_dir: none\n", "print(1)\n"), `it asks for volume "none", and this host has none of that name; add none: {path: /PATH, use: runs} to folders`, "job lost failed: ")
}

// meetsAsOracles runs a job as processes, whose program is made for nodes of ADS: they find each other by the files in WORK_DIR, and the main one ends all.
func (w *swarm) meetsAsOracles() {
	w.T.Helper()
	const program = `import glob, json, os, socket, time
folder = os.path.join(os.environ["WORK_DIR"], os.environ["JOB_OCID"])
main = json.load(open(folder + "/MAIN_config.json"))
nodes = json.load(open(os.environ["CLUSTER_NODES_METADATA_FILE"]))
assert [n["IPAddress"] for n in nodes] == [n["IpAddress"] for n in nodes] and len(nodes) == int(os.environ["INITIAL_CLUSTER_SIZE"])
if os.environ["MODE"] == "MAIN":
    workers = [json.load(open(f))["OCI__WORKER_IP"] for f in sorted(glob.glob(folder + "/WORKER_*_config.json"))]
    s = socket.create_server((main["OCI__MAIN_IP"], 29411))
    all = [s.accept()[0] for _ in range(int(os.environ["WORKER_COUNT"]))]
    print("main node met", len(all), "of", sorted(workers) == sorted(n["IpAddress"] for n in nodes[1:]))
    open(folder + "/stop", "w").write("stop")
    time.sleep(3600)
for _ in range(600):
    try:
        c = socket.create_connection((main["OCI__MAIN_IP"], 29411), 1)
        break
    except OSError:
        time.sleep(0.1)
print("worker", os.environ["RANK"], "of", os.environ["ENTRY_SCRIPT"], os.environ["ARGS"])
while not os.path.exists(folder + "/stop"): time.sleep(0.1)
time.sleep(3600)
`
	w.written("oracle", "compat: oci\nwork_dir: runs\nreplicas: 3\ngrace: 1s\nargs: [--cv, 5]\n", program)
	w.says(0, "run job -f "+w.Path("oracle", "job.yaml"), "/node/0: main node met 2 of True", "/node/1: worker 1 of p.py --cv 5", "/node/2: worker 2 of p.py --cv 5", "job oracle succeeded")
	w.says(0, "get job status oracle", "end         stop_file")
}

// fetched holds what members of a job have left in their file epoch, by HOST/GROUP/RANK.
func (w *swarm) fetched(job string, wants map[string]string) {
	w.T.Helper()
	to := w.Path("artifacts-of-" + job)
	w.says(0, "get artifacts "+job+" --to "+to)
	for member, want := range wants {
		if got, err := os.ReadFile(filepath.Join(to, member, "epoch")); err != nil || string(got) != want {
			w.T.Errorf("artifacts of %s: %q, %v", member, got, err)
		}
	}
	w.says(6, "get artifacts "+job+" --to "+to, "is there already")
}

// TestDaskJob runs Dask's own scheduler and workers, unchanged, on three hosts with a program, and ends them after it.
func TestDaskJob(t *testing.T) {
	if err := exec.Command("/usr/bin/python3", "-c", "import distributed").Run(); err != nil {
		t.Skip("needs Dask: apt-get install python3-distributed")
	}
	w := newSwarm(t)
	_, stop := w.hostsOf(3)
	file := w.begun("grid", "dask", "")
	w.says(0, "explain job "+file, "scheduler: 1 member, serving the others")
	w.says(0, "run job -f "+file, "swop-1 has scheduler/0 entry/3; swop-2 has worker/1; swop-3 has worker/2", "swop-1/entry/3: 2 workers, best 1.5 with 0.0000", "job grid succeeded")
	w.says(0, "get job status grid", "end         entry_done", "entry      3     swop-1  exited   -      0 ")
	w.says(0, "get logs grid", "/entry/3: 2 workers, best 1.5 with 0.0000", "swop-1/scheduler/0: ", "swop-2/worker/1: ")
	w.reachesDask()
	stop()
}
