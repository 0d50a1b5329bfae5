package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// lab is a place for one swarmctl whose traces can be found: its processes by TMPDIR, its folders by place and owner.
type lab struct {
	bin, dir, tmp string
	args          []string // of local run
	pids          []int    // of every swarmctl that ran here
}

func newLab(t *testing.T) *lab {
	t.Helper()
	t.Parallel() // most of the time is waiting for interpreters to start
	bin := binary(t)
	dir, args := project(t)
	// t.TempDir's paths are too long for sockets; swarmctl would not use them.
	tmp, err := os.MkdirTemp("/tmp", "sf-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(tmp) })
	return &lab{bin: bin, dir: dir, tmp: tmp, args: args}
}

// process is one swarmctl that runs.
type process struct {
	*exec.Cmd
	stdout, stderr *bytes.Buffer
}

func (l *lab) start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.CommandContext(t.Context(), l.bin, slices.Concat(l.args, args)...), stdout: new(bytes.Buffer), stderr: new(bytes.Buffer)}
	p.Env = append(os.Environ(), "TMPDIR="+l.tmp)
	p.Stdout, p.Stderr = p.stdout, p.stderr
	p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	l.pids = append(l.pids, p.Process.Pid)
	return p
}

// until waits for a condition that nothing announces.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not after 30 s", what)
		case <-tick.C:
		}
	}
}

// trained tells that peer 0 has loaded a merged model, so that the next rounds are being made.
func (l *lab) trained() bool {
	data, err := os.ReadFile(filepath.Join(l.dir, "out", "sl-0", "swarm-metrics.jsonl"))
	return err == nil && bytes.Contains(data, []byte(`"event": "merge"`)) || bytes.Contains(data, []byte(`"event":"merge"`))
}

// processes lists what runs with this lab's TMPDIR.
func (l *lab) processes() []string {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	var out []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err == nil && slices.Contains(strings.Split(string(data), "\x00"), "TMPDIR="+l.tmp) {
			line, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
			out = append(out, filepath.Dir(file)+" "+strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return out
}

// folders lists temporary folders, shared memory included, that this lab's swarmctls left.
func (l *lab) folders() []string {
	out, _ := filepath.Glob(filepath.Join(l.tmp, "*"))
	owners, _ := filepath.Glob("/dev/shm/swarm-*/owner")
	for _, file := range owners {
		data, err := os.ReadFile(file)
		if err == nil && slices.ContainsFunc(l.pids, func(pid int) bool { return strings.TrimSpace(string(data)) == fmt.Sprint(pid) }) {
			out = append(out, filepath.Dir(file))
		}
	}
	return out
}

func (l *lab) nothingLeft(t *testing.T) {
	t.Helper()
	if left := append(l.processes(), l.folders()...); len(left) > 0 {
		t.Errorf("left behind:\n%s", strings.Join(left, "\n"))
	}
}

func TestLocalRunIsStoppedWhileMerging(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			l := newLab(t)
			// Models of 8 MB and no pause between rounds: almost all the time is merging.
			p := l.start(t, "-e", "EPOCHS=1000", "-e", "SIZE=2000000")
			until(t, "first round", l.trained)
			if err := p.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			if err := p.Wait(); code(err) != 130 {
				t.Errorf("exit code %d, want 130\n%s", code(err), p.stderr)
			}
			if !strings.HasSuffix(p.stderr.String(), "swarmctl: interrupted\n") {
				t.Errorf("stderr:\n%s", p.stderr)
			}
			l.nothingLeft(t)
		})
	}
}

func TestWhatAKilledSwarmctlLeavesIsSwept(t *testing.T) {
	l := newLab(t)
	p := l.start(t, "-e", "EPOCHS=1000", "-e", "SLEEP=0.01")
	until(t, "first round", l.trained)
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait()
	until(t, "end of its daemons and programs", func() bool { return len(l.processes()) == 0 })
	if len(l.folders()) == 0 {
		t.Error("no folder is left: this test shows nothing")
	}
	if p = l.start(t); p.Wait() != nil {
		t.Errorf("next run:\n%s", p.stderr)
	}
	l.nothingLeft(t)
}

func TestLocalRunGoesOnWithoutAKilledProgram(t *testing.T) {
	l := newLab(t)
	p := l.start(t, "--min-peers", "2", "-e", "KILL=sl-1", "-e", "EPOCHS=4", "-e", "SLEEP=0.01", "-o", "json")
	if err := p.Wait(); code(err) != 1 {
		t.Errorf("exit code %d, want 1", code(err))
	}
	for _, want := range []string{"sl-1 failed; the others go on, 2 are enough", "swarmctl: sl-1 ended with exit code 137: ", "killed"} {
		if !strings.Contains(p.stderr.String(), want) {
			t.Errorf("stderr lacks %q:\n%s", want, p.stderr)
		}
	}
	var s struct {
		ModelsEqual bool `json:"models_equal"`
		Peers       []struct {
			Failed bool
			Model  *string `json:"model_sha256"`
		}
	}
	if err := json.Unmarshal(p.stdout.Bytes(), &s); err != nil {
		t.Fatalf("%v\n%s", err, p.stdout)
	}
	if !s.ModelsEqual || len(s.Peers) != 3 || s.Peers[0].Failed || !s.Peers[1].Failed || s.Peers[2].Failed || s.Peers[2].Model == nil {
		t.Errorf("summary: %s", p.stdout)
	}
	l.nothingLeft(t)
}

func TestLocalRunSaysThatAProgramUsedNoSwarm(t *testing.T) {
	l := newLab(t)
	p := l.start(t, "-e", "ALONE=sl-2")
	if err := p.Wait(); code(err) != 1 {
		t.Errorf("exit code %d, want 1", code(err))
	}
	for _, want := range []string{"swarmctl: sl-2 ended with exit code 1: program train.py ended without a session", "\nsl-2 | trains without a swarm\n"} {
		if !strings.Contains(p.stderr.String(), want) {
			t.Errorf("stderr lacks %q:\n%s", want, p.stderr)
		}
	}
	l.nothingLeft(t)
}
