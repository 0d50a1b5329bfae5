package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// These tests run the real binaries: a whole swarm, from the command line to equal models.

// binary returns the built swarmctl, beside which swarmd lies.
func binary(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"swarmd", "swarmctl"} {
		if _, err := os.Stat(filepath.Join("../../bin", name)); err != nil {
			t.Skipf("skipped: bin/%s is not built (make build)", name)
		}
	}
	path, err := filepath.Abs("../../bin/swarmctl")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// pythonWithNumpy returns an interpreter that imports numpy.
func pythonWithNumpy(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(name, "-c", "import numpy").Run() == nil {
			return name
		}
	}
	t.Skip("skipped: no python3 imports numpy")
	return ""
}

const numpyProgram = `
import os, sys, time
import numpy as np
from swarmlearning.arrays import SwarmCallback
from swarmlearning.errors import SwarmError
if os.environ.get("FAIL") == os.environ["SWARM_PEER"]:
    sys.exit("ValueError: the data is torn")
if os.environ.get("ALONE") == os.environ["SWARM_PEER"]:
    print("trains without a swarm")
    sys.exit()
epochs = int(os.environ.get("EPOCHS", "2"))
peer = int(os.environ["SWARM_PEER"][3:])
weights = {"w": np.full(int(os.environ.get("SIZE", "1000")), float(peer), np.float32), "n": np.array(peer)}
cb = SwarmCallback(syncFrequency=2, minPeers=int(os.environ["MIN_PEERS"]), weights=weights, totalEpochs=epochs,
                   evaluate=lambda: (float(weights["w"].mean()), 0.5))
cb.on_train_begin()
for epoch in range(epochs):
    if epoch == 1 and os.environ.get("KILL") == os.environ["SWARM_PEER"]:
        os.kill(os.getpid(), 9)
    for batch in range(4):
        weights["w"] += 1
        time.sleep(float(os.environ.get("SLEEP", "0")))
        cb.on_batch_end(batch)
    cb.on_epoch_end(epoch)
cb.on_train_end()
np.save(os.path.join(os.environ["MODEL_DIR"], "w.npy"), weights["w"])
print("saved")
`

func project(t *testing.T) (dir string, args []string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "model"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "model", "train.py"), []byte(numpyProgram), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir, []string{
		"local", "run", "--peers", "3", "--python", pythonWithNumpy(t), "--model-dir", filepath.Join(dir, "model"),
		"--model-program", "train.py", "--out", filepath.Join(dir, "out"), "--timeout", "90s",
	}
}

func code(err error) int {
	var e *exec.ExitError
	if errors.As(err, &e) {
		return e.ExitCode()
	}
	return 0
}

func TestLocalRunWithRealDaemons(t *testing.T) {
	bin := binary(t)
	dir, args := project(t)
	out, err := exec.CommandContext(t.Context(), bin, append(args, "--baseline", "-o", "json")...).Output()
	if err != nil {
		var e *exec.ExitError
		errors.As(err, &e)
		t.Fatalf("local run: %v\n%s", err, e.Stderr)
	}
	var s struct {
		Rounds int
		Peers  []struct {
			ModelSHA256   string   `json:"model_sha256"`
			LocalAccuracy *float64 `json:"local_accuracy"`
			SwarmAccuracy *float64 `json:"swarm_accuracy"`
			ModelDigest   string   `json:"model_digest"`
			SentBytes     int64    `json:"sent_bytes"`
			ReceivedBytes int64    `json:"received_bytes"`
			Contributed   int      `json:"contributed"`
			Weight        int      `json:"weight"`
		}
		Method   string            `json:"method"`
		Versions map[string]string `json:"versions"`
	}
	if err := json.Unmarshal(out, &s); err != nil {
		t.Fatal(err)
	}
	if s.Rounds < 5 || len(s.Peers) != 3 {
		t.Fatalf("summary: %s", out)
	}
	for i, p := range s.Peers {
		if len(p.ModelSHA256) != 64 || p.ModelSHA256 != s.Peers[0].ModelSHA256 || p.LocalAccuracy == nil || p.SwarmAccuracy == nil {
			t.Errorf("peer %d: %s", i, out)
		}
		if _, err := os.Stat(filepath.Join(dir, "out", "sl-"+string(rune('0'+i)), "w.npy")); err != nil {
			t.Error(err)
		}
		// The digest is the one that the program's own log names, and the swarm's ledger knows who contributed.
		log, err := os.ReadFile(filepath.Join(dir, "out", "sl-"+string(rune('0'+i)), "program.log"))
		if err != nil || len(p.ModelDigest) != 64 || !bytes.Contains(log, []byte("digest "+p.ModelDigest)) {
			t.Errorf("peer %d: digest %s, %v, log:\n%s", i, p.ModelDigest, err, log)
		}
		// 4,008 bytes of model, of which each of three peers sends 4/3 in each round.
		if least := int64(s.Rounds) * 4008; p.SentBytes < least || p.ReceivedBytes < least || p.Contributed != s.Rounds || p.Weight != 1 {
			t.Errorf("peer %d: %s", i, out)
		}
	}
	if s.Method != "mean" || s.Versions["numpy"] == "" || s.Versions["python"] == "" || s.Versions["swarmlearning"] == "" || s.Versions["swarmd"] == "" {
		t.Errorf("summary: %s", out)
	}
}

// A run that is stopped leaves what there was, and the next one moves that aside.
func TestLocalRunLeavesItsReportWhenStopped(t *testing.T) {
	bin := binary(t)
	dir, args := project(t)
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), bin, append(args, "-e", "EPOCHS=1000000")...)
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for merged := false; !merged; {
		select {
		case err := <-ended:
			t.Fatalf("ended by itself: %v\n%s", err, &stderr)
		case <-time.After(20 * time.Millisecond):
			written, _ := os.ReadFile(filepath.Join(dir, "out", "sl-2", "swarm-metrics.jsonl"))
			merged = bytes.Contains(written, []byte(`"round": 3,`))
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; code(err) != 130 {
		t.Errorf("exit code %d, want 130\n%s", code(err), &stderr)
	}
	var s struct {
		State  string
		Reason string
		Rounds int
	}
	stopped, err := os.ReadFile(filepath.Join(dir, "out", "summary.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(stopped, &s); err != nil || s.State != "interrupted" || s.Reason == "" || s.Rounds < 3 {
		t.Errorf("summary: %v\n%s", err, stopped)
	}
	if page, err := os.ReadFile(filepath.Join(dir, "out", "report.html")); err != nil || !bytes.Contains(page, []byte("This run was interrupted after")) {
		t.Errorf("report: %v", err)
	}
	out, err := exec.CommandContext(t.Context(), bin, append(args, "-e", "EPOCHS=1")...).CombinedOutput()
	aside := filepath.Join(dir, "out.1")
	if err != nil || !bytes.Contains(out, []byte("the results of an earlier run were moved to "+aside)) {
		t.Errorf("next run: %v\n%s", err, out)
	}
	if moved, err := os.ReadFile(filepath.Join(aside, "summary.json")); err != nil || !bytes.Equal(moved, stopped) {
		t.Errorf("%s: %v", aside, err)
	}
}

func TestLocalRunNamesAProgramThatFails(t *testing.T) {
	bin := binary(t)
	_, args := project(t)
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), bin, append(args, "-e", "FAIL=sl-1")...)
	cmd.Stderr = &stderr
	if err := cmd.Run(); code(err) != 1 {
		t.Errorf("exit code %d, want 1", code(err))
	}
	if !strings.Contains(stderr.String(), "swarmctl: sl-1 ended with exit code 1, its last line: ValueError: the data is torn\n") {
		t.Errorf("stderr:\n%s", stderr.String())
	}
}

func TestLocalUpIsAContextWhileItLasts(t *testing.T) {
	bin := binary(t)
	env := append(os.Environ(), "XDG_STATE_HOME="+t.TempDir())
	up := exec.CommandContext(t.Context(), bin, "local", "up", "--peers", "2")
	up.Env = env
	up.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	stdout, err := up.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	up.Stderr = &stderr
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	var api string
	for i, want := range []string{"API https://127.0.0.1:", "SWARM_PEER=sl-0", "SWARM_PEER=sl-1"} {
		if !lines.Scan() || !strings.Contains(lines.Text(), want) {
			t.Fatalf("line %d: %q, want %q\n%s", i, lines.Text(), want, stderr.String())
		}
		if i == 0 {
			api = lines.Text()
		}
	}
	list := func() ([]byte, error) {
		cmd := exec.CommandContext(t.Context(), bin, "list", "nodes", "-o", "json")
		cmd.Env = env
		return cmd.Output()
	}
	out, err := list()
	if err != nil || !bytes.Contains(out, []byte(`"name": "sn-0"`)) || !bytes.Contains(out, []byte(`"name": "sl-1"`)) {
		t.Errorf("list nodes: %v\n%s", err, out)
	}
	originalScripts(t, env, strings.TrimPrefix(api, "API https://127.0.0.1:"))
	if err := up.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := up.Wait(); err != nil {
		t.Errorf("local up ended with %v\n%s", err, stderr.String())
	}
	if _, err := list(); code(err) != 2 {
		t.Errorf("list nodes afterwards: exit code %d, want 2: no context is left", code(err))
	}
}

func TestBenchMergeSendsWhatTheorySays(t *testing.T) {
	bin := binary(t)
	out, err := exec.CommandContext(t.Context(), bin, "bench", "merge", "--peers", "3", "--size", "16MiB", "--rounds", "2", "-o", "json").Output()
	if err != nil {
		t.Fatalf("bench merge: %v", err)
	}
	var r struct {
		Bytes float64
		Sent  float64 `json:"sent_bytes_per_peer"`
	}
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatal(err)
	}
	if theory := 2 * r.Bytes * 2 / 3; r.Sent < theory || r.Sent > 1.03*theory {
		t.Errorf("each peer sent %.0f bytes, theory says %.0f", r.Sent, theory)
	}
}
