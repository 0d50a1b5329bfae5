package jobs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
)

// rayDir is where Ray has the sockets and logs of a machine.
const rayDir = "/tmp/ray"

// ofRay are hosts on whose processes Ray runs, each with a folder for it as if it was a machine.
func ofRay(t *testing.T, n int) *hosts {
	t.Helper()
	python := e2etest.Environment(t, "ray")
	if err := os.MkdirAll(rayDir, 0o777); err != nil {
		t.Fatal(err)
	}
	h := newHosts(t, 1)
	h.before = append([]string{"/bin/sh", "-c", `mount -t tmpfs ray ` + rayDir + ` && exec "$@"`, "sh"}, withPython(python)...)
	policy := h.withRuns()
	for i := range n {
		h.swop(i+1, policy)
	}
	h.serve()
	return h
}

// TestRayForMinutes: Ray's head and workers are processes on three hosts, and end when the program beside the head has, or when one of them is lost.
func TestRayForMinutes(t *testing.T) {
	if os.Getenv("SWARM_TEST_LONG") == "" {
		t.Skip("starts several Ray clusters: SWARM_TEST_LONG=1 or make test-long")
	}
	h := ofRay(t, 3)
	file := h.begun("grid", "ray")
	h.says(0, "explain job "+file, "worker: 2 members, serving the others", "-- python3 grid.py --points 200")
	h.says(0, "run job -f "+file, "swop-1 has head/0; swop-2 has worker/1; swop-3 has worker/2", "swop-1/head/0: 3 nodes, best 1.5 with 0.0000", "job grid succeeded")
	out := h.says(0, "get job status grid", "end         entry_done")
	if strings.Count(out, "stopped") != 2 {
		t.Errorf("the workers are not stopped:\n%s", out)
	}
	h.losesNode("lost", 2, "raylet", syscall.SIGKILL, "member 1 (worker) on swop-2 exited with code 1", "Some Ray subprocesses exited unexpectedly")
	h.losesNode("asked", 3, "raylet", syscall.SIGTERM, "member 2 (worker) on swop-3 exited with code 1", "Ray's raylet has ended, and its node with it")
	h.losesNode("headless", 1, "gcs_server", syscall.SIGKILL, "member 0 (head) on swop-1 exited with code 1", "Ray's head has ended before the program has")
	h.losesNode("headed", 1, "raylet", syscall.SIGTERM, "member 0 (head) on swop-1 exited with code 1", "Ray's raylet has ended, and its node with it")
	h.endsWithProgram()
	h.servesOthers()
	h.comesTo("stop_file", 0, "ray", stops, "work_dir: runs\n")
	h.comesTo("main_timeout", 8, "ray", sleeps, "ready_timeout: 4s\ngroups: [{name: head, ready: {port: 1}}, {name: worker}]\n")
	h.comesTo("ready_timeout", 8, "ray", sleeps, "ready_timeout: 40s\ngroups: [{name: head}, {name: worker, ready: {port: 1}}]\n")
	h.isCutOff(2, "cut", h.ray("cut", waits, "", "swop-1/head/0: 3 nodes are there"))
	h.stop()
	h.LeavesNothing()
}

// ray runs a job of Ray and waits until its program says something.
func (h *hosts) ray(name, program, lines, says string) *e2etest.Proc {
	h.T.Helper()
	p := h.swarmctl("run", "job", "-f", h.job(name, program, "framework: ray\ncommand: p.py\nreplicas: 2\ngrace: 2s\n"+lines))
	p.Sees(says)
	return p
}

const waits = `import ray, time
ray.init()
print(len(ray.nodes()), "nodes are there", flush=True)
time.sleep(3600)
`

// losesNode has a process of Ray on a host end by a signal, also by one of which `ray start --block` says nothing, and the job fail of it at once.
func (h *hosts) losesNode(name string, host int, process string, by syscall.Signal, verdict string, says ...string) {
	h.T.Helper()
	follow := h.ray(name, waits, "", "swop-1/head/0: 3 nodes are there")
	if err := syscall.Kill(h.process(host, process), by); err != nil {
		h.T.Fatal(err)
	}
	if code := follow.Exits(); code != 1 {
		h.T.Errorf("exit code %d of run job -f, want 1", code)
	}
	h.holds("run job", follow.Output(), append(says, "job "+name+" failed: "+verdict)...)
	h.says(0, "get job status "+name, "end         member_failed")
}

// process is one of a host whose program has that name.
func (h *hosts) process(i int, name string) int {
	h.T.Helper()
	for _, pid := range h.processes(i) {
		if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err == nil && filepath.Base(exe) == name {
			return pid
		}
	}
	h.T.Fatalf("host %d has no process %s", i, name)
	return 0
}

// endsWithProgram has the job end with the exit code of its program.
func (h *hosts) endsWithProgram() {
	h.T.Helper()
	follow := h.ray("code", "import sys\nprint('ends', flush=True)\nsys.exit(7)\n", "", "swop-1/head/0: ends")
	if code := follow.Exits(); code != 1 {
		h.T.Errorf("exit code %d of run job -f, want 1", code)
	}
	h.holds("run job", follow.Output(), "job code failed: member 0 (head) on swop-1 exited with code 7")
}

// servesOthers has a cluster live its time.
func (h *hosts) servesOthers() {
	h.T.Helper()
	file := h.Path("cluster.yaml")
	if err := os.WriteFile(file, []byte("name: cluster\nframework: ray\nreplicas: 2\ngrace: 2s\nends: {ttl: 3s}\n"), 0o600); err != nil {
		h.T.Fatal(err)
	}
	h.says(0, "run job -f "+file, "job cluster succeeded")
	out := h.says(0, "get job status cluster", "end         ttl")
	if !regexp.MustCompile(`head +0 +swop-1 +stopped`).MatchString(out) {
		h.T.Errorf("the head is not stopped:\n%s", out)
	}
}
