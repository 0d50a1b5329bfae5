package framework_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/swarmd/swarmd/internal/framework"
)

func TestGroupsOfRay(t *testing.T) {
	testGroups(t, []groupsTest{
		{"ray", []string{"framework: ray", "command: a", "replicas: 4"}, "head 1/1, worker 0/4", "in-order", "main", 0},
		{"ray with groups", []string{"framework: ray", "command: a", "args: [--a, 1]", "groups: [{name: worker, replicas: 2, args: [--num-cpus, 1]}]"}, "head 1/1, worker 0/2", "in-order", "main", 0},
		{"ray of one kind", []string{"framework: ray", "command: a", "args: [--a, 1]", "groups: [{name: worker, args: [--a, 1]}, {name: head, args: [--a, 1], ready: {port: 1}}]"}, "head 1/1, worker 0/1", "in-order", "main", 0},
		{"ray for others", []string{"framework: ray", "replicas: 2", "ends: {ttl: 1h}"}, "head 0/1, worker 0/2", "in-order", "main", 0},
	})
}

// scripts are the texts that Python runs.
func scripts(t *testing.T) (node, nodes string) {
	t.Helper()
	var texts []string
	for _, name := range []string{"node", "nodes"} {
		raw, err := os.ReadFile("ray/" + name + ".py")
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(raw))
	}
	return texts[0], texts[1]
}

// What Ray's own `ray start` and `ray status` take: https://docs.ray.io has their options.
func TestRay(t *testing.T) {
	node, nodes := scripts(t)
	asked := func(n string) framework.Ready {
		return framework.Ready{Command: []string{"python3", "-c", nodes, "10.0.0.1:6379", n}, Period: 5 * time.Second, Timeout: 20 * time.Second}
	}
	start := []string{"python3", "-c", node, "10.0.0.1:6379", "3"}
	all := programs(t, world(t, "framework: ray", "command: tune.py --at ${SWARM_MAIN_IP}", "args: [--trials, 5]", "resources: {cpu: 2.5}",
		"groups: [{name: head, args: [--resources, '{\"swarm\": 1}']}, {name: worker, replicas: 2, args: [--num-gpus, 0]}]"), placed(3))
	for i, want := range []framework.Program{
		{
			Group:   "head",
			Command: append(slices.Clone(start), strings.Split(`--head --port 6379 --include-dashboard false --node-ip-address 10.0.0.1 --num-cpus 2 --resources {"swarm":_1} --`, " ")...),
			Starts:  strings.Fields("python3 tune.py --at 10.0.0.1 --trials 5"), Ready: asked("1"),
		},
		{Group: "worker", Command: slices.Concat(start, strings.Fields("--address 10.0.0.1:6379 --node-ip-address 10.0.0.2 --num-cpus 2 --num-gpus 0")), Ready: asked("3")},
		{Group: "worker", Command: slices.Concat(start, strings.Fields("--address 10.0.0.1:6379 --node-ip-address 10.0.0.3 --num-cpus 2 --num-gpus 0")), Ready: asked("3")},
	} {
		for k, word := range want.Command {
			want.Command[k] = strings.ReplaceAll(word, ":_", ": ")
		}
		if d := cmp.Diff(want, all[i], cmpopts.IgnoreFields(framework.Program{}, "Env", "Member")); d != "" {
			t.Errorf("rank %d: %s", i, d)
		}
		if d := cmp.Diff(map[string]string{"RAY_ADDRESS": "10.0.0.1:6379", "RAY_USAGE_STATS_ENABLED": "0"}, of(all[i], "RAY_")); d != "" {
			t.Errorf("rank %d: %s", i, d)
		}
	}
	open := placed(2)
	open.Members[1].Interface = "eth1"
	if env := of(programs(t, world(t, "framework: ray", "command: a"), open)[1], "GLOO_", "NCCL_"); env["GLOO_SOCKET_IFNAME"] != "eth1" || env["NCCL_SOCKET_IFNAME"] != "eth1" {
		t.Errorf("in the host's network: %v", env)
	}
	alone := programs(t, world(t, "framework: ray", "ends: {ttl: 1h}", "image: i", "network: host", "env: {RAY_PORT: 7000}"), placed(2))
	want := slices.Concat([]string{"python3", "-c", node, "10.0.0.1:7000", "2"}, strings.Fields("--head --port 7000 --include-dashboard false --node-ip-address 10.0.0.1 --node-manager-port 7001"))
	if d := cmp.Diff(want, alone[0].Words()); d != "" || len(alone[0].Starts) > 0 || of(alone[1], "RAY_A")["RAY_ADDRESS"] != "10.0.0.1:7000" {
		t.Errorf("for others: %s, %v", d, alone)
	}
}

func TestRayRefuses(t *testing.T) {
	for _, tt := range []struct{ lines, want string }{
		{"replicas: 2", "nothing of the job ends by itself: write a command, or ends: {ttl: 4h}"},
		{"replicas: 2\nargs: [a]\nends: {ttl: 4h}", "args stands above the groups without a command: write options of ray in its groups"},
		{"command: a\nready: {port: 1}", "ready stands above the groups, and ray's program starts when all are ready: leave it out"},
		{"command: a\ngroups: [{name: entry}]", "group entry: ray has the groups head, beside which its program runs, and worker"},
		{"command: a\ngroups: [{name: head}]", "the job has no workers: write a group worker with its replicas"},
		{"command: a\ngroups: [{name: head, replicas: 2}]", "group head: ray has one: leave replicas out"},
		{"groups: [{name: head, command: a}, {name: worker}]", "group head runs ray's own program: write the command of yours above the groups, and options of ray as args"},
		{"command: a\ngroups: [{name: worker, replicas: 2, min_success: 1}]", "group worker serves the program and has no success of its own: leave min_success out"},
		{"command: a\ngroups: [{name: worker, args: [--, b]}]", "group worker: args has --, which is no option of ray: leave it out"},
		{"command: a\ngroups: [{name: head, args: ['--port=3000']}, {name: worker}]", "group head: args has --port: write the head's port as RAY_PORT under env of the job, from which all nodes know it"},
		{"command: a\ngroups: [{name: worker, args: [--address, x]}]", "group worker: args has --address, which the job says: leave it out"},
		{"command: a\nenv: {RAY_PORT: 16379}", `group head: RAY_PORT in env is "16379": write a port from 1024 to 9999`},
	} {
		if _, err := framework.WorldOf(job(t, "framework: ray\n"+tt.lines)); fmt.Sprint(err) != tt.want {
			t.Errorf("%s\ngot  %v\nwant %s", tt.lines, err, tt.want)
		}
	}
	if _, err := world(t, "framework: ray\ncommand: [a, '${B}']").Programs(placed(2)); fmt.Sprint(err) != "group head: command has ${B}, which nothing sets here: add it to env, or write $${B} for the program's own" {
		t.Error(err)
	}
}

// rayOfTest starts a node as `ray start --block` does: it takes away what has ended, and runs on. Its own process has a name that is not UTF-8, as any on a host
// may have.
const rayOfTest = `
import ctypes, os, subprocess, sys, time
if sys.argv[1] == "status":
    print(" 1 node_a")
    sys.exit()
if ctypes.CDLL(None).prctl(15, b"\xff", 0, 0, 0) != 0:  # PR_SET_NAME
    sys.exit("the process has no name")
time.sleep(1)
part = subprocess.Popen([os.environ["PARTS"] + "/raylet", "60"])
print("raylet", part.pid, flush=True)
if "ENDS" in os.environ:
    time.sleep(2)
    part.terminate()
while True:
    part.poll()
    time.sleep(0.1)
`

func TestNodeOfRayIsGone(t *testing.T) {
	dir := t.TempDir()
	sleep, err := exec.LookPath("sleep")
	if err == nil {
		err = errors.Join(
			os.Symlink(sleep, dir+"/raylet"), os.MkdirAll(dir+"/ray/scripts", 0o700),
			os.WriteFile(dir+"/ray/__init__.py", nil, 0o600), os.WriteFile(dir+"/ray/scripts/__init__.py", nil, 0o600),
			os.WriteFile(dir+"/ray/scripts/scripts.py", []byte(rayOfTest), 0o600),
		)
	}
	if err != nil {
		t.Fatal(err)
	}
	node, _ := scripts(t)
	for _, tt := range []struct {
		name string
		ends string // ENDS: its raylet is asked to end
		args []string
		code int
		want string
	}{
		{"worker", "ENDS=1", nil, 1, "Ray's raylet has ended, and its node with it\n"},
		{"head", "ENDS=1", []string{"--head", "--", "sleep", "60"}, 1, "Ray's raylet has ended, and its node with it\nRay's head has ended before the program has: see what it says above\n"},
		{"worker is asked to end", "", nil, 143, ""},
		{"head is asked to end", "", []string{"--head", "--", "sleep", "60"}, 143, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), "python3", append([]string{"-c", node, "10.0.0.1:6379", "1"}, tt.args...)...)
			cmd.Env = append(os.Environ(), "PYTHONPATH="+dir, "PARTS="+dir, tt.ends)
			said, err := os.Create(t.TempDir() + "/errs")
			if err != nil {
				t.Fatal(err)
			}
			defer said.Close()
			cmd.Stderr = said // a file, as what is left of the node has it open
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			var pid int
			if _, err := fmt.Fscanf(out, "raylet %d", &pid); err != nil {
				t.Fatal(err)
			}
			if tt.ends == "" {
				defer syscall.Kill(pid, syscall.SIGKILL)
				if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
			}
			_ = cmd.Wait()
			raw, err := os.ReadFile(said.Name())
			if cmd.ProcessState.ExitCode() != tt.code || err != nil || string(raw) != tt.want {
				t.Errorf("ends with %d and says %q (%v), want %d and %q", cmd.ProcessState.ExitCode(), raw, err, tt.code, tt.want)
			}
		})
	}
}
