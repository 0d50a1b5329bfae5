package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite golden files")

// masked is what differs from run to run in a transcript.
var masked = []struct {
	what *regexp.Regexp
	name string
}{
	{regexp.MustCompile(`\b12D3Koo\w+`), "PEERID"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\b`), "TIME"},
	{regexp.MustCompile(`(SWARM_ID +: )\w+`), "${1}HEX"},
	{regexp.MustCompile(`(IDENTITY +: ).*`), "${1}SOCKET"},
	{regexp.MustCompile(`(_VERSION +: )[^s].*`), "${1}VERSION"},
	{regexp.MustCompile(`\(\d+s\)`), "(SECONDS)"},
	{regexp.MustCompile(`(?s)(> HELP\n\n)Watch\n.*?\n\n(SWCI:)`), "${1}COMMANDS\n\n${2}"},
	{regexp.MustCompile(`(?m)^    #+\n`), ""}, // a slow machine waits longer
	{regexp.MustCompile(`(OPERATION_ID +: )\d+`), "${1}NUMBER"},
	{regexp.MustCompile(`PEERID,(TRUE|FALSE),`), "PEERID,BOOL,"}, // any SL may merge the first part
	{regexp.MustCompile(`(SL|SN|SWOP),127\.0\.0\.1,\d+`), "$1,127.0.0.1,NUMBER"},
}

// originalScripts runs scripts of every command of the original's releases against a real swarm of one SN and two SLs that
// is the current context, and compares transcripts.
func originalScripts(t *testing.T, env []string, port string) {
	t.Helper()
	usr, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{"pull_image.yaml": ".", "user_env_tf_build_task.yaml": "taskdefs", "swarm_mnist_task.yaml": "taskdefs"} {
		task, err := os.ReadFile(filepath.Join("testdata/originals", from))
		if err := errors.Join(err, os.MkdirAll(filepath.Join(usr, to), 0o755), os.WriteFile(filepath.Join(usr, to, from), task, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"release-0.3.cmd", "release-2.swci", "release-2-tasks.swci", "release-2-oddities.swci"} {
		compareTranscript(t, env, usr, name, port)
	}
}

// compareTranscript runs a script of testdata/originals in a user directory and compares what it shows.
func compareTranscript(t *testing.T, env []string, usr, name, port string) {
	t.Helper()
	golden := "testdata/originals/" + name
	script, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(usr, name), []byte(strings.ReplaceAll(string(script), "PORT", port)), 0o644); err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	cmd := exec.CommandContext(t.Context(), binary(t), "run-swci", "--usr-dir", usr, "--init-script-name", name)
	cmd.Env, cmd.Stderr = env, &stderr
	raw, err := cmd.Output()
	got := strings.ReplaceAll(strings.ReplaceAll(string(raw), usr, "USR"), port, "PORT")
	for _, m := range masked {
		got = m.what.ReplaceAllString(got, m.name)
	}
	got += fmt.Sprintf("exit code %d\n%s", code(err), &stderr)
	if *update {
		if err := os.WriteFile(golden+".golden", []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden + ".golden")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// trainer is a program as the original's examples have them, which reads its variables as they stand in the task.
const trainer = `
import os
import numpy as np
from swarmlearning.arrays import SwarmCallback
assert os.environ["SWARM_LOOPBACK"] == "False"
epochs = int(os.environ["MAX_EPOCHS"], 0)
weights = {"w": np.zeros(8, np.float32)}
cb = SwarmCallback(syncFrequency=2, minPeers=int(os.environ["MIN_PEERS"]), weights=weights, totalEpochs=epochs, evaluate=lambda: (0.25, 0.75))
cb.on_train_begin()
for epoch in range(epochs):
    for batch in range(4):
        cb.on_batch_end(batch)
    cb.on_epoch_end(epoch)
cb.on_train_end()
`

// TestThePublishedScriptTrainsOnSWOPs runs a startup script as the original's examples have them, against a swarm whose two SWOPs carry out
// what it assigns.
func TestThePublishedScriptTrainsOnSWOPs(t *testing.T) {
	bin, usr := binary(t), t.TempDir()
	python, err := exec.LookPath(pythonWithNumpy(t))
	if err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "XDG_STATE_HOME="+t.TempDir(), "PATH="+filepath.Dir(python)+":"+os.Getenv("PATH"))
	if usr, err = filepath.EvalSymlinks(usr); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"model/run_mnist.py": trainer, "model/fail.py": "raise SystemExit('no data here')\n"}
	for _, name := range []string{"run_mnist_task.yaml", "fail_task.yaml"} {
		raw, err := os.ReadFile("testdata/originals/" + name)
		if err != nil {
			t.Fatal(err)
		}
		files["taskdefs/"+name] = string(raw)
	}
	for name, text := range files {
		path := filepath.Join(usr, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	up := exec.CommandContext(t.Context(), bin, "local", "up", "--swop", "2", "--peers", "2", "--private", filepath.Join(usr, "model"))
	up.Env, up.SysProcAttr = env, &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	var stderr strings.Builder
	up.Stderr = &stderr
	stdout, err := up.StdoutPipe()
	if err := errors.Join(err, up.Start()); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	if !lines.Scan() {
		t.Fatalf("local up ended:\n%s", &stderr)
	}
	compareTranscript(t, env, usr, "swci-init", strings.TrimPrefix(lines.Text(), "API https://127.0.0.1:"))
	if err := errors.Join(up.Process.Signal(syscall.SIGTERM), up.Wait()); err != nil {
		t.Errorf("local up ended with %v\n%s", err, &stderr)
	}
}
