package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// needsRclone skips a test without it.
func needsRclone(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("rclone"); err != nil {
		t.Skip("needs rclone: apt-get install rclone")
	}
}

// targets are those of the policies of hosts that swop starts. There are remotes for the first two.
const targets = "targets: {lab: 'lab:models', shut: 'shut:models', broken: 'nowhere:models'}\n"

// copiesArtifacts runs jobs whose artifacts are copied: the last copy is there when the job has succeeded, and one that fails is why its job does.
func (w *swarm) copiesArtifacts() {
	w.T.Helper()
	config := w.Path(".config/rclone/rclone.conf") // where the SWOPs' home is
	if err := errorOf(os.MkdirAll(filepath.Dir(config), 0o700), os.WriteFile(config, []byte("[lab]\ntype = alias\nremote = "+w.Path("bucket")+"\n[shut]\ntype = alias\nremote = "+w.Path("shut")+"\n"), 0o600)); err != nil {
		w.T.Fatal(err)
	}
	const program = "import os\nopen(os.environ['SWARM_ARTIFACTS'] + '/epoch', 'w').write(os.environ['SWARM_NODE_RANK'])\n"
	copied := w.written("copied", "replicas: 2\nresources: {cpu: 0.1, disk: 1MB}\nartifacts: {dir: /opt/out, to: lab, every: 5s}\n", program)
	w.says(0, "run job -f "+copied, "job copied succeeded")
	for _, rank := range []string{"0", "1"} {
		found, err := filepath.Glob(w.Path("bucket/models/copied-*/0/node", rank, "epoch"))
		if err != nil || len(found) != 1 {
			w.T.Fatalf("copied: %q, %v", found, err)
		}
		if got, err := os.ReadFile(found[0]); string(got) != rank || err != nil {
			w.T.Errorf("copied: %q, %v", got, err)
		}
	}
	w.fetched("copied", map[string]string{"swop-1/node/0": "0", "swop-2/node/1": "1"})
	w.says(1, "run job -f "+w.written("uncopied", "artifacts: {dir: /opt/out, to: broken}\n", program),
		"didn't find section in config file", "what it has left could not be copied to target broken: rclone ended with code 1", "job uncopied failed")
	w.says(0, "get job status uncopied", "end         member_failed")
	// When it is ended nobody can write there any more: its program has seen to that once something was copied.
	const shuts = "import glob, os, time\nopen(os.environ['SWARM_ARTIFACTS'] + '/epoch', 'w').write('1')\n" +
		"while not glob.glob('%[1]s/models/*/0/node/0/epoch'):\n    time.sleep(0.1)\ntime.sleep(2)  # until that copy is over\n" +
		"os.rename('%[1]s', '%[1]s.old')\nopen('%[1]s', 'w').close()\ntime.sleep(3600)\n"
	w.says(1, "run job -f "+w.written("shut", "ends: {ttl: 15s}\nartifacts: {dir: /opt/out, to: shut, every: 5s}\n", fmt.Sprintf(shuts, w.Path("shut"))), "was ended: ", "not a directory", "job shut succeeded, and not all")
	w.says(0, "get job status shut", "end         ttl", "stopped", "what it has left could not be copied to target shut: rclone ended with code 1")
	w.says(0, "run job --resources disk=900TB "+copied, "no host that may have it offers what a member of group node needs")
	w.says(0, "cancel job copied")
	w.says(1, "run job -f "+w.written("nowhere", "artifacts: {dir: /opt/out, to: labs}\n", program), `it asks to have artifacts copied to "labs", and this host has no target of that name`)
}
