package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
)

// TestJobsOfContainers: the job that init job begins for PyTorch runs as two containers on one host; the host's network is given by its owner alone,
// and members that a killed SWOP leaves are adopted by the next one. They have the folders that its policy names, and a file in that of the run ends them.
func TestJobsOfContainers(t *testing.T) {
	e, scope := enginetest.Engine(t), enginetest.Scope(t)
	enginetest.NeedImage(t, e, engine.ImagePYT, "scripts/images pyt")
	w := newSwarm(t)
	w.authority()
	w.SN(1).Sees(apiMarker)
	policy := "folders: {data: " + w.Path("data") + ", runs: {path: " + w.Path("runs") + ", use: runs}}\nsentences:\n" +
		"- Allow spiffe://swarm.learning/swarm/swci to use host where all {runtime='docker', task.type='RUN_JOB', image.reference in ('" + engine.ImagePYT + "', 'two-images:allowed')}\n" +
		"- Allow spiffe://swarm.learning/swarm/swci to use secret where secret.name in (KEY, GONE)\n" +
		"forwards: [spiffe://swarm.learning/swarm/swci]\n"
	if err := errorOf(os.Mkdir(w.Path("data"), 0o755), os.WriteFile(w.Path("data", "x"), []byte("of the host"), 0o644), os.Mkdir(w.Path("runs"), 0o755)); err != nil {
		t.Fatal(err)
	}
	secrets := w.secrets(map[string]string{"KEY": "hunter2-hunter2"})
	swop := w.owned(policy, "--ml-runtime", "docker", "--secrets-dir", secrets, "--metrics", w.metricsAt(21))
	ctl := func(code int, args ...string) string {
		t.Helper()
		got, out := w.swarmctl(args...)
		if got != code {
			t.Fatalf("%q: exit code %d, want %d\n%s", args, got, code, out)
		}
		return out
	}
	job := func(name string, lines ...string) string {
		t.Helper()
		dir := w.Path(name)
		if err := os.MkdirAll(dir+"/source", 0o700); err != nil {
			t.Fatal(err)
		}
		program := "import time, torch, torch.distributed as dist\ndist.init_process_group('gloo')\nx = torch.ones(1)\ndist.all_reduce(x)\nprint('sum', x.item(), flush=True)\n" +
			"import os, sys\nif 'SWARM_SECRETS' in os.environ: print('secret of', len(open(os.environ['SWARM_SECRETS'] + '/KEY').read()), flush=True)\n" +
			"if 'SWARM_ARTIFACTS' in os.environ: open(os.environ['SWARM_ARTIFACTS'] + '/epoch', 'w').write(os.environ['SWARM_EPOCH'])\n" +
			"if os.path.exists('/mnt/data'): print(open('/mnt/data/x').read(), flush=True)\ntime.sleep(float(sys.argv[1]))\n"
		text := "name: " + name + "\nframework: pytorch\nreplicas: 2\nsource: source\nimage: " + engine.ImagePYT + "\n" + strings.Join(lines, "\n") + "\n"
		file := filepath.Join(dir, "job.yaml")
		if err := errorOf(os.WriteFile(dir+"/source/train.py", []byte(program), 0o600), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		return file
	}
	out := ctl(0, "run", "job", "-f", job("ranks", "command: train.py 0", "secrets: [{name: KEY, as: file}]", "volumes: ['data:/mnt/data']", "artifacts: {dir: /opt/out}"))
	w.fetched("ranks", map[string]string{"swop/node/0": "0", "swop/node/1": "0"})
	if strings.Count(out, "secret of 15") != 2 {
		t.Errorf("a secret as a file:\n%s", out)
	}
	for name, want := range map[string]string{"OTHER": `the secret "OTHER", which this host does not give`, "GONE": `this host has no secret "GONE"`} {
		if out := ctl(1, "run", "job", "-f", job("lacks", "command: train.py 0", "secrets: ["+name+"]")); !strings.Contains(out, want) {
			t.Errorf("%s:\n%s", name, out)
		}
		if out := ctl(0, "get", "job", "status", "lacks"); !strings.Contains(out, "end         refused") {
			t.Errorf("%s:\n%s", name, out)
		}
	}
	if !strings.Contains(out, "swop/node/0: sum 2.0") || !strings.Contains(out, "swop/node/1: sum 2.0") || !strings.Contains(out, "swop/node/1: of the host") {
		t.Errorf("ranks of PyTorch:\n%s", out)
	}
	if out := ctl(1, "run", "job", "-f", job("open", "command: train.py 0", "network: host")); !strings.Contains(out, `asks for the network "host"`) {
		t.Errorf("the host's network:\n%s", out)
	}
	if out := ctl(0, "get", "job", "status", "open"); !strings.Contains(out, "end         refused") || !says(ctl(0, "audit"), "failed", "open.", "refused: ") {
		t.Errorf("a job that its host refused:\n%s", out)
	}
	w.ofTwoImages(e)
	w.importsNodes()

	if out := ctl(1, "run", "job", "-f", job("more", "command: train.py 0", "volumes: ['data:/mnt/data:rw']")); !strings.Contains(out, `asks for volume "data" to write to, and this host gives it to read alone`) {
		t.Errorf("a folder to write to:\n%s", out)
	}

	ctl(0, "run", "job", job("long", "command: train.py 1000", "grace: 1s", "work_dir: runs"))
	ready := func() bool { return strings.Count(ctl(0, "get", "job", "status", "long"), " ready ") == 2 }
	w.Until("both ranks to be ready", ready)
	w.Until("the ranks to meet", func() bool { return strings.Count(ctl(0, "get", "logs", "long"), ": sum 2.0") == 2 })
	forwarded, _ := w.forward("long", "0:29400") // where they do
	if out := ctl(6, "forward", "long", "node/1:29400"); !strings.Contains(out, "the address of this member in its network: a program that listens on its container's loopback alone is not reached") {
		t.Errorf("a port at which nothing listens:\n%s", out)
	}
	forwarded.Kill()
	w.tellsOfMembers(2)
	swop.Kill()
	swop = w.owned(policy, "--ml-runtime", "docker", "--secrets-dir", secrets, "--metrics", w.metricsAt(21))
	w.Until("both ranks to be found again", ready)
	w.tellsOfMembers(2)
	folders, err := filepath.Glob(w.Path("runs", "long-*"))
	if err != nil || len(folders) != 1 {
		t.Fatalf("folders of runs: %q, %v", folders, err)
	}
	if err := os.WriteFile(filepath.Join(folders[0], "stop"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.Until("its end", func() bool { return strings.Contains(ctl(0, "get", "job", "status", "long"), "end         stop_file") })
	w.Until("nothing to be left", func() bool { return len(enginetest.Left(t, e, scope)) == 0 })
	w.tellsOfMembers(0)
	w.lint(w.metricsAt(21))
	swop.Stop()
}

// tellsOfMembers waits until the SWOP's metrics have so many containers of jobs that are ready, and an engine that answers.
func (w *swarm) tellsOfMembers(n int) {
	w.T.Helper()
	want := fmt.Sprintf("\nswarmd_task_members{state=\"ready\",task_type=\"RUN_JOB\"} %d\n", n)
	w.Until(want, func() bool {
		told := w.scrape(w.metricsAt(21))
		return strings.Contains(told, want) && strings.Contains(told, "\nswarmd_task_look_failed{task_type=\"RUN_JOB\"} 0\n")
	})
}

// nodesFile is a job with several nodes as Oracle's API has it. Its nodes read the file that names all where those of Oracle do.
const nodesFile = `{"displayName": "Two Groups", "jobConfigurationDetails": {"jobType": "EMPTY"}, "jobNodeConfigurationDetails": {
  "jobNodeType": "MULTI_NODE", "startupOrder": "IN_ORDER", "maximumRuntimeInMinutes": 5, "jobNetworkConfiguration": {"jobNetworkType": "DEFAULT_NETWORK"},
  "jobNodeGroupConfigurationDetailsList": [
    {"name": "NODE_GROUP_1", "replicas": 1, "jobConfigurationDetails": {"jobType": "DEFAULT", "environmentVariables": {"ROLE": "first"},
      "startupProbeDetails": {"jobProbeCheckType": "EXEC", "command": ["test", "-f", "/tmp/up"], "periodInSeconds": 1}},
     "jobEnvironmentConfigurationDetails": {"jobEnvironmentType": "OCIR_CONTAINER", "image": "swarm-ml-pyt:latest", "entrypoint": ["sh", "-c"], "cmd": ["sleep 1; touch /tmp/up; sleep 3; echo $ROLE is done"]}},
    {"name": "NODE_GROUP_0", "replicas": 2, "minimumSuccessReplicas": 1, "jobConfigurationDetails": {"jobType": "DEFAULT", "environmentVariables": {"ROLE": "second"}, "commandLineArguments": "a 'b c'"},
     "jobEnvironmentConfigurationDetails": {"jobEnvironmentType": "OCIR_CONTAINER", "image": "swarm-ml-pyt:latest", "entrypoint": ["python3", "-c",
       "import json, os, sys; at = '/home/datascience/job_run_cluster_metadata.json'; nodes = json.load(open(at)); assert nodes == json.load(open(os.environ['CLUSTER_NODES_METADATA_FILE'])); print(os.environ['ROLE'], sys.argv[1:], [(n['FQDN'], n['Rank'], n['NodeGroupName'], n['IpAddress'] == n['IPAddress']) for n in nodes]); sys.exit(os.environ['NODE_RANK'] == '2')"]}}
  ]}}
`

// importsNodes runs that job, in one network on one host: its second group starts when the first one's probe has succeeded, and one of its nodes is enough.
func (w *swarm) importsNodes() {
	w.T.Helper()
	file := w.Path("nodes.json")
	if err := os.WriteFile(file, []byte(nodesFile), 0o600); err != nil {
		w.T.Fatal(err)
	}
	const nodes = " ['a', 'b c'] [('node-0', '0', 'node-group-1', True), ('node-1', '1', 'node-group-0', True), ('node-2', '2', 'node-group-0', True)]"
	w.says(0, "run job -f --network private "+file, "/node-group-0/1: second"+nodes, "/node-group-1/0: first is done", "job two-groups succeeded")
	w.says(0, "get job status two-groups", "end         entry_done", "node-group-0  2     swop  exited  -      1 ")
}

// secrets is a folder of a host's.
func (w *swarm) secrets(values map[string]string) string {
	w.T.Helper()
	dir := w.Path("secrets")
	err := os.MkdirAll(dir, 0o700)
	for name, value := range values {
		err = errorOf(err, os.WriteFile(filepath.Join(dir, name), []byte(value), 0o600))
	}
	if err != nil {
		w.T.Fatal(err)
	}
	return dir
}
