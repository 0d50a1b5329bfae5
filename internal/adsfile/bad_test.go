package adsfile_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/swarmd/swarmd/internal/adsfile"
)

// cluster is a train.yaml with lines of the cluster's spec, and of the runtime's.
func cluster(kind, spec, runtime string) string {
	return "kind: distributed\nspec:\n  cluster:\n    kind: " + kind + "\n    spec:\n      image: i\n      workDir: /w\n      " + spec + "\n  runtime:\n    kind: python\n    spec: {" + runtime + "}\n"
}

// job is a job of ADS with a runtime.
func job(runtime, spec string) string {
	return "kind: job\nspec:\n  name: x\n  runtime:\n    type: " + runtime + "\n    spec: {" + spec + "}\n"
}

// mounts is a job of ADS with two of them.
func mounts(one, two string) string {
	return strings.Replace(job("container", "image: i"), "  runtime:", "  infrastructure:\n    spec: {storageMount: [{src: "+one+"}, {src: "+two+"}]}\n  runtime:", 1)
}

// nodes is a job of the API with a group.
func nodes(group string) string {
	return `{"jobNodeConfigurationDetails": {"jobNodeGroupConfigurationDetailsList": [` + group + `]}}`
}

// What would do something else here is refused with its line and a remedy.
func TestRefuses(t *testing.T) {
	const worker = "worker: {replicas: 1}"
	for _, tt := range []struct{ file, want string }{
		{"kind: pipeline\nspec: {}\n", `f:1: kind "pipeline" is no job: files of ADS are read with kind: distributed or kind: job`},
		{"kind: distributed\nspec: []\n", "f:2: spec is a list: write its fields, one a line: infrastructure, cluster, runtime, name"},
		{"kind: distributed\nspec: {}\n", "f:2: spec.cluster is missing: write its kind, and its spec"},
		{cluster("mpi", worker, "entryPoint: a.py"), `f:4: spec.cluster.kind "MPI" is not known: use DASK, HOROVOD, PYTORCH, RAY or TENSORFLOW`},
		{cluster("PyTorch", "workr: {replicas: 1}", "entryPoint: a.py"), "f:8: unknown field workr in spec.cluster.spec: did you mean worker?"},
		{cluster("pytorch", "worker: {replicas: many}", "entryPoint: a.py"), `f:8: spec.cluster.spec.worker.replicas is text "many": give a number from 0 to 1024`},
		{cluster("pytorch", "ps: {replicas: 1}", "entryPoint: a.py"), "f:4: a cluster of pytorch has no ps: leave it out"},
		{cluster("pytorch", "certificate: {caCert: {id: x}}", "entryPoint: a.py"), "f:8: spec.cluster.spec.certificate has certificates of Oracle's vault, and members speak without TLS: leave it out, and have them on one host, in a network of their own (network: private)"},
		{cluster("pytorch", worker, "args: [a]"), "f:11: spec.runtime.spec.entryPoint is missing, and there are args: write the file that takes them"},
		{cluster("pytorch", worker, "entryPoint: a.py, uri: 'git@github.com:u/r.git'"), `f:11: spec.runtime.spec.uri is "git@github.com:u/r.git", and hosts fetch no program: fetch it into a folder beside this file and write that folder, or have it in the image and leave uri out`},
		{cluster("pytorch", worker, "entryPoint: a.py, args: [\"'x\"]"), "f:11: spec.runtime.spec.args[0]: a quote is not closed"},
		{cluster("pytorch", worker, "entryPoint: a.py, args: ['${A:-b}']"), `f:11: spec.runtime.spec.args[0] is "${A:-b}": it has ${ without a name and }: write ${NAME}, or $$ for a $ of the program's own`},
		{cluster("pytorch", worker, "entryPoint: a.py, env: [{name: A, value: '${B}'}, {name: B, value: '${A}'}]"), "f:4: spec.cluster.kind: A names itself, or is too long once its variables are filled in: write its value"},
		{cluster("pytorch", worker, "entryPoint: a.py, env: [{name: A-B, value: c}]"), `f:11: spec.runtime.spec.env has the name "A-B": use letters, digits and _`},
		{cluster("pytorch", worker, "entryPoint: a.py, env: [{name: A}, {name: A}]"), "f:11: spec.runtime.spec.env has A twice: write it once"},
		{cluster("pytorch", worker, "entryPoint: a.py, env: text"), "f:11: spec.runtime.spec.env is text: write a list of name and value"},
		{cluster("pytorch", worker, "entryPoint: a.py, env: {TIMEOUT: soon}"), `f:11: spec.runtime.spec.env: TIMEOUT is "soon": write a number of seconds, from 1 to 2592000`},
		{cluster("pytorch", worker, "entryPoint: /codegen/main.py, uri: src"), `f:11: spec.runtime.spec.entryPoint is "/codegen/main.py", and the program is in the folder that travels: write the path of a file in it`},
		{cluster("pytorch", worker, "entryPoint: /code/../main.py, uri: src"), `f:11: spec.runtime.spec.entryPoint is "/code/../main.py", and the program is in the folder that travels: write the path of a file in it`},
		{cluster("dask", worker, ""), "f:4: the cluster has no program: write runtime.spec.entryPoint, or ephemeral: false for one that others use"},
		{cluster("dask", "ephemeral: true", "entryPoint: a.py"), "f:4: the cluster has no workers: write cluster.spec.worker with its replicas"},
		{cluster("dask", "config: {startOptions: ['--tls-ca-file ca.pem']}\n      "+worker, "entryPoint: a.py"), "f:8: spec.cluster.spec.config.startOptions has --tls-ca-file: members speak without TLS: leave it out, and have them on one host, in a network of their own (network: private) (and 1 more of its lines are wrong)"},
		{cluster("horovod", worker, "entryPoint: a.py, env: {SLOTS: x}"), `f:11: spec.runtime.spec.env: SLOTS is "x": give a number from 1 to 64`},
		{strings.Replace(cluster("pytorch", worker, ""), "image: i", "image: '@image'", 1), `f:6: spec.cluster.spec.image is "@image", which stands for what ads opctl build-image has written to config.ini: write the image's name, or say it with --image NAME`},
		{strings.Replace(cluster("pytorch", worker, ""), "image: i", "image: 'registry.example/<tenancy>/x:1'", 1), `f:6: spec.cluster.spec.image is "registry.example/<tenancy>/x:1": write the name of an image, as torch:2 or with its digest, or say it with --image NAME`},
		{strings.Replace(cluster("pytorch", worker, ""), "image: i\n", "\n", 1), "f:7: spec.cluster.spec.image is missing: write the name of the cluster's image"},
		{strings.Replace(cluster("pytorch", worker, ""), "workDir: /w", "workDir: oci://", 1), `f:7: spec.cluster.spec.workDir is "oci://": write where it is, as oci://bucket@namespace/prefix or /folder`},
		{job("spark", ""), `f:5: spec.runtime.type "spark" is not known: use container, gitPython, notebook, pyTorchDistributed, python or script`},
		{job("container", ""), "f:6: spec.runtime.spec.image is missing: write the name of the image"},
		{job("container", "image: i, imageDigest: 123"), `f:6: spec.runtime.spec.imageDigest is "123": write sha256: and 64 digits`},
		{job("notebook", "notebookPathURI: a.ipynb"), "f:6: notebook a.ipynb can't be run: make a program of it with jupyter nbconvert --to script, and write it as type: python with scriptPathURI"},
		{job("gitPython", "url: 'https://github.com/u/r.git', entryPoint: a.py"), `f:6: spec.runtime.spec.url is "https://github.com/u/r.git", and hosts fetch no program: fetch it into a folder beside this file and write that folder, or have it in an image and write the job as type: container`},
		{job("gitPython", "url: r, entryPoint: a.py, entryFunction: main"), `f:6: spec.runtime.spec.entryFunction is "main": members run files: write one that calls it, as entryPoint`},
		{job("python", "scriptPathURI: 'oci://b@n/a.py'"), `f:6: spec.runtime.spec.scriptPathURI is "oci://b@n/a.py", and hosts fetch no program: fetch it into a folder beside this file and write that folder, or have it in an image and write the job as type: container`},
		{job("python", "scriptPathURI: src"), "f:6: spec.runtime.spec.scriptPathURI is a folder: write which of its files is to run, as entrypoint"},
		{job("python", "scriptPathURI: src.zip, entrypoint: a.py"), `f:6: spec.runtime.spec.scriptPathURI is "src.zip": unpack it into a folder, and write that`},
		{job("python", "scriptPathURI: src, entrypoint: a.py, workingDir: sub"), `f:6: spec.runtime.spec.workingDir is "sub": the working directory is the folder that travels with the job: write that folder, or change to it in the program`},
		{job("python", "scriptPathURI: src, entrypoint: ../a.py"), `f:6: spec.runtime.spec.entryPoint is "../a.py": write which of the files in the folder that travels is to run`},
		{job("python", "scriptPathURI: src, entrypoint: a.py, pythonPath: [lib]"), "f:6: spec.runtime.spec.pythonPath can't be set for processes of hosts: put those modules beside the program, or name an image with --image NAME"},
		{job("pyTorchDistributed", "command: deepspeed train.py"), "f:6: spec.runtime.spec.command is deepspeed, which starts the others by ssh, which members have not: launch with torchrun, and call deepspeed.init_distributed in the program"},
		{job("pyTorchDistributed", "command: 'torchrun a.py && echo ok'"), "f:6: spec.runtime.spec.command needs a shell, and a host runs no shell as a process: write variables under env, and the rest into a file of the source, or name an image with --image NAME"},
		{job("pyTorchDistributed", "image: i, scriptPathURI: code, command: torchrun code/a.py"), "f:6: spec.runtime.spec.command has code/a.py, and the working directory is the folder code itself: write paths as it has them, and workingDir: code"},
		{job("pyTorchDistributed", "command: torchrun a.py, deepspeed: true"), "f:6: spec.runtime.spec.deepspeed starts the others by ssh, which members have not: launch with torchrun, and call deepspeed.init_distributed in the program"},
		{job("pyTorchDistributed", "command: accelerate launch --use_deepspeed a.py"), "f:6: spec.runtime.spec.command has --use_deepspeed, which starts the others by ssh, which members have not: launch with torchrun, and call deepspeed.init_distributed in the program"},
		{job("pyTorchDistributed", "scriptPathURI: code, command: torchrun a.py, pythonPath: lib"), "f:6: spec.runtime.spec.pythonPath can't be set for processes of hosts: put those modules beside the program, or name an image with --image NAME"},
		{job("pyTorchDistributed", "command: NCCL_DEBUG=INFO torchrun a.py"), "f:6: spec.runtime.spec.command needs a shell, and a host runs no shell as a process: write variables under env, and the rest into a file of the source, or name an image with --image NAME"},
		{job("pyTorchDistributed", "image: i, command: 'A=1 accelerate launch a.py'"), "f:6: spec.runtime.spec.command has accelerate behind a shell, where it is not told of other members: write it alone, variables under env, and what is done beside it into the program"},
		{job("pyTorchDistributed", "command: torchrun a.py, inputs: {'oci://b@n/d': data/}"), "f:6: spec.runtime.spec.inputs are copied by nobody before the start: have each host's owner put them into a folder, and mount it with volumes in a job file"},
		{job("pyTorchDistributed", "command: torchrun a.py, git: {url: 'https://x/y.git'}"), `f:6: spec.runtime.spec.git.url is "https://x/y.git", and hosts fetch no program: fetch it into a folder beside this file and write that folder, or have it in an image and write the job as type: container`},
		{nodes(""), "f:1: jobNodeConfigurationDetails has 0 groups: write 1 to 16"},
		{nodes(`{"name": "a"}`), "f:1: jobNodeConfigurationDetails.jobNodeGroupConfigurationDetailsList[0]: there is no image: the program of such a job is an artifact that was uploaded: put it into an image and write jobEnvironmentConfigurationDetails, or name one with --image NAME"},
		{nodes(`{"name": "a", "replicas": 2, "minimumSuccessReplicas": 3, "jobEnvironmentConfigurationDetails": {"image": "i"}}`), `f:1: jobNodeConfigurationDetails.jobNodeGroupConfigurationDetailsList[0].minimumSuccessReplicas is a number "3": give a number from 1 to 2`},
		{nodes(`{"name": "A", "jobEnvironmentConfigurationDetails": {"image": "i"}}, {"name": "a", "jobEnvironmentConfigurationDetails": {"image": "i"}}`), "f:1: it becomes no job: groups[1] has the name a, which another group has: choose another"},
		{nodes(`{"name": "a", "name": "b"}`), "f:1: name stands in line 1 too: write it once"},
		{`{"jobNodeConfigurationDetails": {"startupOrder": "SOON", "jobNodeGroupConfigurationDetailsList": []}}`, `f:1: jobNodeConfigurationDetails.startupOrder is "SOON": write IN_ORDER or IN_PARALLEL (and 1 more of its lines are wrong)`},
		{nodes(`{"name": "a", "jobConfigurationDetails": {"environmentVariables": {"CLUSTER_TYPE": "DASK", "WORK_DIR": "/w"}}, "jobEnvironmentConfigurationDetails": {"image": "i"}}`), "f:1: jobNodeConfigurationDetails.jobNodeGroupConfigurationDetailsList[0].jobConfigurationDetails.environmentVariables: CLUSTER_TYPE=DASK makes a cluster of a job with one kind of nodes, and this one has groups: write it as a job without jobNodeConfigurationDetails, or leave the variable out"},
		{job("container", "image: i, env: {CLUSTER_TYPE: DASK, WORKER_COUNT: 3, ENTRY_POINT: /code/a.py}"), "f:6: spec.runtime.spec.env: CLUSTER_TYPE=DASK makes a cluster of the job, and there is no WORK_DIR, in which its nodes meet: write it, as oci://bucket@namespace/prefix, or leave CLUSTER_TYPE out"},
		{`{"jobConfigurationDetails": {"environmentVariables": {"JOB_RUN_ENTRYPOINT": "a.py"}, "commandLineArguments": "--x 1"}, "jobEnvironmentConfigurationDetails": {"image": "i"}}`, "f:1: jobConfigurationDetails.environmentVariables: JOB_RUN_ENTRYPOINT=a.py runs an artifact that was uploaded, which nobody fetches: put the program into an image, and write its entrypoint or cmd in jobEnvironmentConfigurationDetails"},
		{`{"jobConfigurationDetails": {"environmentVariables": {"CONTAINER_CMD": "a"}}, "jobEnvironmentConfigurationDetails": {"image": "i", "cmd": ["b"]}}`, "f:1: jobConfigurationDetails.environmentVariables: CONTAINER_CMD stands beside the same in jobEnvironmentConfigurationDetails: write one of them"},
		{job("container", "image: i, entrypoint: [/etc/datascience/run.sh], env: {CLUSTER_TYPE: DASK, WORK_DIR: /w, WORKER_COUNT: 1}"), "f:6: spec.runtime.spec.env CLUSTER_TYPE: the job has no ENTRY_POINT, which names the program that the cluster serves, as its image would start each node by itself: write it among the job's variables, as /code/main.py"},
		{mounts("'10.0.0.1:/data', dest: one", "'10.0.0.2:/data', dest: two"), "f:5: spec.infrastructure.spec.storageMount[1] 10.0.0.2:/data would be volume data, as another one is: a host has one folder under a name, so write the job as a job file, with volumes of two names"},
		{mounts("'oci://b@n/train', dest: one", "'oci://b@n/test', dest: two"), "f:5: spec.infrastructure.spec.storageMount[1] oci://b@n/test would be volume b, as another one is: a host has one folder under a name, so write the job as a job file, with volumes of two names"},
		{mounts("'oci://b@n', dest: ../../etc", "'oci://c@n', dest: two"), "f:5: spec.infrastructure.spec.storageMount[0] is at ../../etc: write a path without .., from the root or below /mnt"},
		{`{"jobConfigurationDetails": {"environmentVariables": {"CLUSTER_TYPE": "dask", "WORK_DIR": "/w", "ENTRY_POINT": "a.py", "WORKER_COUNT": "x", "DOCKER_CUSTOM_IMAGE": "i"}}}`, `f:1: jobConfigurationDetails.environmentVariables: WORKER_COUNT is "x": give a number from 0 to 1024`},
	} {
		if j, err := adsfile.Read("f", []byte(tt.file), adsfile.Images{}); fmt.Sprint(err) != tt.want {
			t.Errorf("%s\ngot  %v, %+v\nwant %s", tt.file, err, j, tt.want)
		}
	}
}

// An image that is said is in the place of those that the file names, also of one that can't be.
func TestImageThatIsSaid(t *testing.T) {
	file := strings.Replace(cluster("pytorch", "worker: {replicas: 1}", "entryPoint: a.py"), "image: i", "image: '@image'", 1)
	got, err := adsfile.Read("f", []byte(file), adsfile.Images{Said: "mine:1"})
	if err != nil || got.Job.Image != "mine:1" {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = adsfile.Read("f", []byte(job("python", "scriptPathURI: src, entrypoint: a.py, pythonPath: [lib]")), adsfile.Images{Said: "mine:1"})
	if err != nil || got.Job.Image != "mine:1" || got.Job.Network != "private" {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err = adsfile.Read("f", []byte(nodes(`{"name": "a"}`)), adsfile.Images{Said: "mine:1"}); err != nil || got.Job.Groups[0].Image != "mine:1" {
		t.Errorf("%+v, %v", got, err)
	}
}

// What ads opctl has built is in the place of @image alone.
func TestImageThatWasBuilt(t *testing.T) {
	file := strings.Replace(cluster("tensorflow", "worker: {replicas: 1}\n      ps: {replicas: 1, image: 'ps:7'}", "entryPoint: a.py"), "image: i", "image: '@image'", 1)
	got, err := adsfile.Read("f", []byte(file), adsfile.Images{Built: "mine:1"})
	if err != nil || got.Job.Image != "mine:1" || got.Job.Groups[2].Image != "ps:7" {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err = adsfile.Read("f", []byte(file), adsfile.Images{Said: "said:2", Built: "mine:1"}); err != nil || got.Job.Image != "said:2" || got.Job.Groups[2].Image != "said:2" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err = adsfile.Read("f", []byte(file), adsfile.Images{Built: "<mine>:1"}); err == nil || !strings.Contains(err.Error(), `is what config.ini says, "<mine>:1"`) {
		t.Error(err)
	}
}

// What a file does not say of itself it does not do: one of which more is to be said than is kept is refused.
func TestNothingIsLeftUnsaid(t *testing.T) {
	var unknown strings.Builder
	for i := range 250 {
		fmt.Fprintf(&unknown, "      zz%d: 1\n", i)
	}
	file := "kind: job\nspec:\n  name: x\n  runtime:\n    type: container\n    spec:\n      image: i\n" + unknown.String() + "      probe: a\n"
	const want = "f:1: of the file 51 more things are ignored, or are another thing here, than are shown: leave out what nothing here has"
	if _, err := adsfile.Read("f", []byte(file), adsfile.Images{}); err == nil || err.Error() != want {
		t.Error(err)
	}
}

// The folder of the code is cut off as a folder, and no part of a name.
func TestEntryPointInItsFolder(t *testing.T) {
	for spec, want := range map[string]string{
		"entryPoint: /code/main.py":                 "main.py",
		"entryPoint: sub/main.py":                   "sub/main.py",
		"entryPoint: codes/main.py, codeDir: code":  "codes/main.py",
		"entryPoint: /opt/x/a.py, codeDir: /opt/x/": "a.py",
	} {
		got, err := adsfile.Read("f", []byte(cluster("pytorch", "worker: {replicas: 1}", "uri: src, "+spec)), adsfile.Images{})
		if err != nil || got.Entry != want || got.Job.Command[1] != want {
			t.Errorf("%s: %+v, %v", spec, got, err)
		}
	}
}

// A node that may take long to be up has that long.
func TestProbeHasItsTime(t *testing.T) {
	const probe = `{"name": "a", "jobConfigurationDetails": {"startupProbeDetails": {"command": ["true"], "initialDelayInSeconds": 10, "periodInSeconds": 30, "failureThreshold": 40}}, "jobEnvironmentConfigurationDetails": {"image": "i"}}`
	if got, err := adsfile.Read("f", []byte(nodes(probe)), adsfile.Images{}); err != nil || got.Job.ReadyTimeout != 20*time.Minute+10*time.Second {
		t.Errorf("%+v, %v", got, err)
	}
}

// Files of others are not taken.
func TestIsNot(t *testing.T) {
	for _, file := range []string{"", "name: x\ncommand: a\n", "- kind: job\n", "name: x\nkind: job\n", "Name: t\nTaskType: RUN_SWARM\n", "a: [", "text"} {
		if adsfile.Is([]byte(file)) {
			t.Errorf("%q is taken for a file of Oracle's", file)
		}
	}
}

// Whatever a file holds: it is refused with one line, or it becomes a job, in bounded time.
func FuzzRead(f *testing.F) {
	for _, name := range examples(f) {
		raw, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Add([]byte(cluster("pytorch", "worker: {replicas: 1}", "entryPoint: a.py, env: {A: '${B}${B}', B: '${C}${C}', C: '${D}${D}', D: ''}")))
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := adsfile.Read("f", raw, adsfile.Images{})
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q has several lines", err)
			}
			return
		}
		reads(t, got.Job)
	})
}

// A command of ADS's is run by a shell where one does more with it than divide it into words.
func TestCommandsOfShells(t *testing.T) {
	for command, shell := range map[string]bool{
		"torchrun train.py --lr 0.1":         false,
		"python train.py ${NODE_RANK}":       false,
		`python train.py "a * b" 'c;d' e\;f`: false,
		"python train.py $NODE_RANK":         true,
		`python train.py "$NODE_RANK"`:       true,
		`python train.py '$5'`:               false,
		`python train.py '${A}'`:             true,
		`python train.py \$A`:                true,
		"python train.py *.csv":              true,
		"python train.py >out.log":           true,
		"python train.py 2>/dev/null":        true,
		"a|b":                                true,
		"python train.py `date`":             true,
		"python train.py ~/data":             true,
		"NCCL_DEBUG=INFO torchrun train.py":  true,
		"torchrun train.py A=b":              false,
		"cd sub && torchrun train.py":        true,
	} {
		got, err := adsfile.Read("f", []byte("kind: job\nspec:\n  runtime:\n    type: pyTorchDistributed\n    spec:\n      image: i\n      args: [x]\n      command: |-\n        "+command+"\n"), adsfile.Images{})
		if err != nil {
			t.Errorf("%s: %v", command, err)
			continue
		}
		if words := got.Job.Command; (words[0] == "sh") != shell || shell && words[2] != strings.ReplaceAll(command, "$", "$$") || len(got.Job.Args) > 0 {
			t.Errorf("%s: %q, %q", command, words, got.Job.Args)
		}
	}
}
