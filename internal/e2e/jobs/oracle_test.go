package jobs_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// bootstrap is what nodes of ads opctl do once they have signed in at OCI's API, which is not here: they wait until the main node has written where it is, and have
// each of its keys as a variable.
const bootstrap = `import json, os, sys, time
folder = os.path.join(os.environ["OCI__WORK_DIR"], os.environ["JOB_OCID"])
until = time.time() + int(os.environ["OCI__TIMEOUT"])
while not os.path.exists(folder + "/MAIN_config.json"):
    if time.time() > until: sys.exit("no main node")
    time.sleep(1)
keys = json.load(open(folder + "/MAIN_config.json"))
os.environ.update(keys)
print(os.environ["OCI__MODE"], "met by", sorted(keys), keys["MASTER_ADDR"] == os.environ["OCI__MAIN_IP"], keys["tmpdir"] == folder, os.environ["HELLO"], sys.argv[1:])
open(os.environ["OCI__SYNC_DIR"] + "/node", "w").write(os.environ["JOB_RUN_OCID"])
`

// trainFile is as the documentation of ads opctl has it.
const trainFile = `kind: distributed
apiVersion: v1.0
spec:
  infrastructure:
    kind: infrastructure
    type: dataScienceJob
    apiVersion: v1.0
    spec:
      projectId: oci.xxxx.<project_ocid>
      compartmentId: oci.xxxx.<compartment_ocid>
      displayName: PyTorch-Distributed
      logGroupId: oci.xxxx.<log_group_ocid>
      subnetId: oci.xxxx.<subnet-ocid>
      shapeName: VM.Standard2.4
      blockStorageSize: 50
  cluster:
    kind: PYTORCH
    apiVersion: v1.0
    spec:
      image: swarm-ml-pyt
      workDir: "oci://my-bucket@my-namespace/pytorch/1"
      config:
        env:
          - name: HELLO
            value: WORLD
          - name: SYNC_ARTIFACTS
            value: 1
      main:
        name: main
        replicas: 1
      worker:
        name: worker
        replicas: 1
  runtime:
    kind: python
    apiVersion: v1.0
    type: remote
    spec:
      uri: ./src
      entryPoint: train.py
      args: [--epochs, "5"]
      kwargs: "--lr 0.1"
`

// importsTraining runs a train.yaml unchanged on two hosts. Its nodes meet by the files by which those of ads opctl do, and come to the model that the
// same program came to as a job of ours.
func (h *hosts) importsTraining(model string) {
	h.T.Helper()
	file := h.Path("ads", "train.yaml")
	if err := errors.Join(
		os.MkdirAll(h.Path("ads", "src"), 0o700), os.WriteFile(h.Path("ads", "src", "train.py"), []byte(bootstrap+ddp), 0o600), os.WriteFile(file, []byte(trainFile), 0o600),
	); err != nil {
		h.T.Fatal(err)
	}
	const met = " met by ['MASTER_ADDR', 'OCI__MAIN_IP', 'tmpdir'] True True WORLD ['--epochs', '5', '--lr', '0.1']"
	h.says(0, "run job -f "+file, ", line 11: spec.infrastructure.spec.displayName \"PyTorch-Distributed\" becomes pytorch-distributed", "swop-1/main/0: MAIN"+met, "swop-2/worker/1: WORKER"+met,
		"swop-1/main/0: model "+model, "swop-2/worker/1: model "+model, "job pytorch-distributed succeeded")
	runs, err := filepath.Glob(h.Path("bucket", "pytorch-distributed-*"))
	if err != nil || len(runs) != 1 {
		h.T.Fatalf("folders of runs: %q, %v", runs, err)
	}
	run := filepath.Base(runs[0])
	keysOf(h.T, filepath.Join(runs[0], "WORKER_"+run+"-1_config.json"), "OCI__WORKER_IP")
	to := h.Path("left")
	h.says(0, "get artifacts pytorch-distributed --to "+to)
	for member, want := range map[string]string{"swop-1/main/0": run + "-0", "swop-2/worker/1": run + "-1"} {
		if got, err := os.ReadFile(filepath.Join(to, member, "node")); err != nil || string(got) != want {
			h.T.Errorf("%s has left %q, want %q, %v", member, got, want, err)
		}
	}
}

// keysOf holds that a file of a node has a key.
func keysOf(t *testing.T, file, key string) {
	t.Helper()
	raw, err := os.ReadFile(file)
	keys := map[string]string{}
	if err := errors.Join(err, json.Unmarshal(raw, &keys)); err != nil || keys[key] == "" {
		t.Errorf("%s: %q, %v", file, raw, err)
	}
}
