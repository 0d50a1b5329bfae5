package framework_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/swarmd/swarmd/internal/framework"
	"github.com/swarmd/swarmd/internal/jobfile"
)

func job(t *testing.T, lines ...string) *jobfile.Job {
	t.Helper()
	j, err := jobfile.Read("f", []byte("name: x\n"+strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func world(t *testing.T, lines ...string) *framework.World {
	t.Helper()
	w, err := framework.WorldOf(job(t, lines...))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// placed puts each member on a host of its own.
func placed(n int) framework.Placement {
	p := framework.Placement{Run: "x-1", Metadata: "/run/swarm/nodes.json"}
	for i := range n {
		p.Members = append(p.Members, framework.Place{Host: fmt.Sprintf("h-%d", i+1), Name: framework.NameOf(i), Address: fmt.Sprintf("10.0.0.%d", i+1)})
	}
	return p
}

func programs(t *testing.T, w *framework.World, p framework.Placement) []framework.Program {
	t.Helper()
	all, err := w.Programs(p)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// of returns the variables of a program that a prefix has.
func of(p framework.Program, prefixes ...string) map[string]string {
	all := map[string]string{}
	for _, v := range p.Env {
		for _, prefix := range prefixes {
			if strings.HasPrefix(v.Name, prefix) {
				all[v.Name] = v.Value
			}
		}
	}
	return all
}

// groupsTest is a job, and what its world is to be.
type groupsTest struct {
	name            string
	lines           []string
	groups          string // with how many have to succeed of how many
	start, doneWhen string
	main            int
}

func TestGroups(t *testing.T) {
	testGroups(t, []groupsTest{
		{"none", []string{"command: a", "replicas: 3"}, "node 3/3", "parallel", "all", 0},
		{"pytorch", []string{"framework: pytorch", "command: a", "replicas: 2", "done_when: any"}, "node 2/2", "parallel", "any", 0},
		{"groups", []string{"command: a", "groups: [{name: r}, {name: s, replicas: 3, min_success: 2}]", "start: in-order"}, "r 1/1, s 2/3", "in-order", "all", 0},
		{"dask", []string{"framework: dask", "command: a", "replicas: 4"}, "scheduler 0/1, worker 0/4, entry 1/1", "in-order", "main", 2},
		{"dask with groups", []string{"framework: dask", "command: a", "ready: {port: 1}", "groups: [{name: worker, replicas: 2}]"}, "scheduler 0/1, worker 0/2, entry 1/1", "in-order", "main", 2},
		{"dask of one kind", []string{"framework: dask", "command: a", "args: [--a, 1]", "ready: {port: 1}", "groups: [{name: worker, replicas: 2, args: [--a, 1], ready: {port: 1}}]"}, "scheduler 0/1, worker 0/2, entry 1/1", "in-order", "main", 2},
		{"on one host", []string{"image: i", "hosts: [a, b]", "groups: [{name: r, hosts: [b, c]}, {name: s}]"}, "r 1/1, s 1/1", "parallel", "all", 0},
		{"dask for others", []string{"framework: dask", "replicas: 2", "ends: {ttl: 1h}"}, "scheduler 0/1, worker 0/2", "in-order", "main", 0},
	})
}

// testGroups holds what worlds jobs have, and that they have the same when they are written out.
func testGroups(t *testing.T, all []groupsTest) {
	t.Helper()
	for _, tt := range all {
		t.Run(tt.name, func(t *testing.T) {
			w := world(t, tt.lines...)
			var groups []string
			for _, g := range w.Groups {
				groups = append(groups, fmt.Sprintf("%s %d/%d", g.Name, g.Least, g.Replicas))
			}
			if got := strings.Join(groups, ", "); got != tt.groups || w.Start != tt.start || w.DoneWhen != tt.doneWhen || w.Main() != tt.main {
				t.Errorf("got %s, %s, %s, main %d", got, w.Start, w.DoneWhen, w.Main())
			}
			again, err := jobfile.Read("f", []byte(w.Expanded().Text()))
			if err != nil {
				t.Fatalf("%v\n%s", err, w.Expanded().Text())
			}
			same, err := framework.WorldOf(again)
			if err != nil {
				t.Fatalf("%v\n%s", err, w.Expanded().Text())
			}
			if d := cmp.Diff(w.Groups, same.Groups, cmpopts.EquateEmpty()); d != "" || same.Start != w.Start || same.DoneWhen != w.DoneWhen {
				t.Errorf("its expanded form is another job: %s\n%s", d, w.Expanded().Text())
			}
		})
	}
}

// TestThreadsOfPyTorch: ranks compute with what they may take of their hosts.
func TestThreadsOfPyTorch(t *testing.T) {
	apart, together := placed(2), placed(2)
	together.Members[1].Host = together.Members[0].Host
	for _, tt := range []struct {
		at   framework.Placement
		line string
		want string
	}{
		{apart, "restarts: 0", ""},
		{together, "restarts: 0", "1"},
		{together, "resources: {cpu: 3.5}", "3"},
		{apart, "resources: {cpu: 0.5}", "1"},
		{apart, "resources: {cpu: 8, gpu: 2}", "4"},
		{together, "env: {OMP_NUM_THREADS: 6}", "6"},
		{together, "args: [-m, torch.distributed.run, train.py]", ""}, // which says it to its ranks
	} {
		all := programs(t, world(t, "framework: pytorch", "command: python3 train.py", "replicas: 2", tt.line), tt.at)
		if got := of(all[1], "OMP_")["OMP_NUM_THREADS"]; got != tt.want {
			t.Errorf("%s: %q, want %q", tt.line, got, tt.want)
		}
	}
}

// What torch.distributed's init_method env:// and torchrun's options want: https://pytorch.org/docs names them.
func TestPyTorch(t *testing.T) {
	p := placed(2)
	p.Members[1].Interface = "eth1"
	all := programs(t, world(t, "framework: pytorch", "command: train.py --lr 0.1", "replicas: 2", "resources: {gpu: 4}", "env: {PET_TEE: 3}"), p)
	want := map[string]string{
		"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29400", "WORLD_SIZE": "2", "RANK": "1", "GROUP_RANK": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
		"PET_NNODES": "2", "PET_NODE_RANK": "1", "PET_NPROC_PER_NODE": "4", "PET_MASTER_ADDR": "10.0.0.1", "PET_MASTER_PORT": "29400",
		"PET_REDIRECTS": "1", "PET_TEE": "3", // which the job says
		"GLOO_SOCKET_IFNAME": "eth1", "NCCL_SOCKET_IFNAME": "eth1", "TP_SOCKET_IFNAME": "eth1",
	}
	prefixes := []string{"MASTER_", "WORLD_", "RANK", "GROUP_", "LOCAL_", "PET_", "GLOO_", "NCCL_", "TP_"}
	if d := cmp.Diff(want, of(all[1], prefixes...)); d != "" {
		t.Error(d)
	}
	first := of(all[0], prefixes...)
	if first["RANK"] != "0" || first["PET_NODE_RANK"] != "0" || first["GLOO_SOCKET_IFNAME"] != "" {
		t.Errorf("rank 0: %v", first)
	}
	if d := cmp.Diff([]string{"python3", "train.py", "--lr", "0.1"}, all[1].Command); d != "" {
		t.Error(d)
	}
	if !cmp.Equal(all[1].Ready, framework.Ready{}) {
		t.Errorf("it is asked: %+v", all[1].Ready)
	}
	if torchrun := programs(t, world(t, "framework: pytorch", "command: torchrun train.py"), placed(1)); torchrun[0].Command[0] != "torchrun" {
		t.Errorf("got %v", torchrun[0].Command)
	}
}

func TestDask(t *testing.T) {
	all := programs(t, world(t, "framework: dask", "command: grid.py", "args: [--cv, 5]", "ready_timeout: 2m",
		"groups: [{name: worker, replicas: 2, args: [--nthreads, 2]}]"), placed(4))
	page := framework.Page{Port: 8787, Path: "/json/counts.json"}
	workers := page
	workers.Count, workers.AtLeast = "workers", 2
	asked := framework.Ready{Page: page, Period: time.Second, Timeout: 5 * time.Second}
	counted := framework.Ready{Page: workers, Period: time.Second, Timeout: 5 * time.Second}
	for i, want := range []framework.Program{
		{Group: "scheduler", Command: strings.Fields("python3 -m distributed.cli.dask_scheduler --port 8786 --dashboard-address :8787"), Ready: asked},
		{Group: "worker", Command: strings.Fields("python3 -m distributed.cli.dask_worker tcp://10.0.0.1:8786 --name worker-0 --worker-port 8700:8800 --nanny-port 3000:3100 --death-timeout 120 --host 10.0.0.2 --nthreads 2"), Ready: counted},
		{Group: "worker", Command: strings.Fields("python3 -m distributed.cli.dask_worker tcp://10.0.0.1:8786 --name worker-1 --worker-port 8700:8800 --nanny-port 3000:3100 --death-timeout 120 --host 10.0.0.3 --nthreads 2"), Ready: counted},
		{Group: "entry", Command: strings.Fields("python3 grid.py --cv 5")},
	} {
		if d := cmp.Diff(want, all[i], cmpopts.IgnoreFields(framework.Program{}, "Env", "Member")); d != "" {
			t.Errorf("rank %d: %s", i, d)
		}
		env := map[string]string{"DASK_SCHEDULER_ADDRESS": "tcp://10.0.0.1:8786", "SCHEDULER_IP": "10.0.0.1", "SCHEDULER_PORT": "8786"}
		if d := cmp.Diff(env, of(all[i], "DASK_", "SCHEDULER_")); d != "" {
			t.Errorf("rank %d: %s", i, d)
		}
	}
}

// Every member has the same variables, which say who and where it is, and those of its group over them.
func TestEnvironment(t *testing.T) {
	p := placed(3)
	p.Epoch = 2
	p.Members[2].WorkDir, p.Members[2].Artifacts = "/work/x-1", "/opt/ml"
	all := programs(t, world(t, "image: i", "command: [serve, '--at=${SWARM_NODE_IP}:${PORT}', $HOME, 'cost $$5']", "env: {PORT: '9${SWARM_GROUP_RANK}'}",
		"ready: {command: 'curl ${SWARM_NODE_IP}', period: 2s}", "groups: [{name: a}, {name: b, replicas: 2, args: ['${MORE}'], env: {MORE: $$1}}]"), p)
	got := map[string]string{}
	for _, v := range all[2].Env {
		got[v.Name] = v.Value
	}
	want := map[string]string{
		"SWARM_JOB_NAME": "x", "SWARM_RUN_ID": "x-1", "SWARM_EPOCH": "2", "SWARM_GROUP": "b", "SWARM_GROUP_RANK": "1", "SWARM_NODE_RANK": "2", "SWARM_NUM_NODES": "3",
		"SWARM_NODE_IP": "10.0.0.3", "SWARM_NODE_IPS": "10.0.0.1\n10.0.0.2\n10.0.0.3", "SWARM_NODE_FQDN": "node-2", "SWARM_MAIN_IP": "10.0.0.1", "SWARM_MAIN_FQDN": "node-0",
		"SWARM_WORK_DIR": "/work/x-1", "SWARM_ARTIFACTS": "/opt/ml", "CLUSTER_NODES_METADATA_FILE": "/run/swarm/nodes.json", "FQDN": "node-2", "NODE_RANK": "2", "NODE_COUNT": "3",
		"PYTHONUNBUFFERED": "1", "PORT": "91", "MORE": "$1",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"serve", "--at=10.0.0.3:91", "$HOME", "cost $5", "$1"}, all[2].Command); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"curl", "10.0.0.3"}, all[2].Ready.Command); d != "" {
		t.Error(d)
	}
}

// An image's own command has the arguments of the job.
func TestImagesCommand(t *testing.T) {
	all := programs(t, world(t, "image: i", "args: [--rank, '${NODE_RANK}']"), placed(1))
	if d := cmp.Diff([]string{"--rank", "0"}, all[0].Args); d != "" || len(all[0].Command) > 0 {
		t.Error(all[0].Command, d)
	}
}

func TestRefuses(t *testing.T) {
	for _, tt := range []struct{ lines, want string }{
		{"replicas: 2", "group node has neither a command nor an image whose own it runs: write command"},
		{"image: i\nhosts: [a, b]\ngroups: [{name: x}, {name: y, hosts: [c]}]", "network private is on one host, and no host may have members of all groups: name a host in each hosts, or another network"},
		{"framework: dask\nreplicas: 2", "nothing of the job ends by itself: write a command, or ends: {ttl: 4h}"},
		{"framework: dask\ncommand: a\nreplicas: 1023", "the job has 1025 members, at most 1024 are placed"},
		{"framework: dask\ncommand: a\ngroups: [{name: workers}]", "group workers: dask has the groups scheduler, worker and entry, which is its program"},
		{"framework: dask\ncommand: a\ngroups: [{name: scheduler}]", "the job has no workers: write a group worker with its replicas"},
		{"framework: dask\ncommand: a\ngroups: [{name: scheduler, replicas: 2}]", "group scheduler: dask has one: leave replicas out"},
		{"framework: dask\ngroups: [{name: worker, command: a}]", "group worker runs dask's own program: write the command of yours above the groups, and options of dask as args"},
		{"framework: dask\ncommand: a\ngroups: [{name: worker, replicas: 2, min_success: 1}]", "group worker serves the program and has no success of its own: leave min_success out"},
	} {
		if _, err := framework.WorldOf(job(t, tt.lines)); fmt.Sprint(err) != tt.want {
			t.Errorf("%s\ngot  %v\nwant %s", tt.lines, err, tt.want)
		}
	}
	for _, tt := range []struct{ lines, want string }{
		{"command: [a, '${WORLD_SIZE}']", "group node: command has ${WORLD_SIZE}, which nothing sets here: add it to env, or write $${WORLD_SIZE} for the program's own"},
		{"command: a\nenv: {A: '${B}', B: 1}", "group node: env.A has ${B}, which nothing sets here: add it to env, or write $${B} for the program's own"},
	} {
		if _, err := world(t, tt.lines).Programs(placed(1)); fmt.Sprint(err) != tt.want {
			t.Errorf("%s\ngot  %v\nwant %s", tt.lines, err, tt.want)
		}
	}
	if _, err := world(t, "command: a", "replicas: 2").Programs(placed(1)); fmt.Sprint(err) != "the job has 2 members, and 1 are placed" {
		t.Error(err)
	}
}

// A few lines of a file can't make a host's memory too small: what variables make of texts is bounded, in each and in all of a member.
func TestBoundsWhatIsFilledIn(t *testing.T) {
	times := func(n int, name string) string { return strings.Repeat("${"+name+"}", n) }
	words := func(n int) string { return "&w '" + times(4, "A") + "'" + strings.Repeat(", *w", n-1) }
	for _, tt := range []struct{ lines, want string }{
		{"command: a\nenv: {A: '" + times(200, "SWARM_RUN_ID") + "'}\nargs: ['" + times(20, "A") + "']", ""},
		{"command: a\nenv: {A: '" + times(240, "SWARM_JOB_NAME") + "'}\nargs: ['" + times(1000, "A") + "']", "group node: args: it has more than 16384 bytes once its variables are filled in: put it into a file of the source"},
		{"command: a\nenv: {A: '" + strings.Repeat("x", 1000) + "'}\nargs: [" + words(30) + "]", ""},
		{"command: a\nenv: {A: '" + strings.Repeat("x", 1000) + "'}\nargs: [" + words(40) + "]", "group node: variables and words of a member have more than 131072 bytes together: put some into a file of the source"},
		{"command: a\nenv: {A: '" + strings.Repeat("x", 1000) + "'}\nready: {command: [" + words(40) + "]}", "group node: variables and words of a member have more than 131072 bytes together: put some into a file of the source"},
	} {
		if _, err := world(t, tt.lines).Program(placed(1), 0); (err == nil) != (tt.want == "") || err != nil && err.Error() != tt.want {
			t.Errorf("%.200s\ngot  %v\nwant %s", tt.lines, err, tt.want)
		}
	}
}

// TestBesideAnSL: the SL's program is rank 0, and the placed members are the others.
func TestBesideAnSL(t *testing.T) {
	const beside = "beside: {sl: sl-1, address: 10.0.0.9, port: 29407, epoch: 2}\n"
	j, err := jobfile.Read("f", []byte("name: x\nframework: pytorch\ncommand: a.py\nreplicas: 2\nnetwork: host\n"+beside))
	if err != nil {
		t.Fatal(err)
	}
	w, err := framework.WorldOf(j)
	if err != nil {
		t.Fatal(err)
	}
	first, is := w.Beside()
	all, err := w.Programs(framework.Placement{Epoch: 2, Members: []framework.Place{first, {Address: "10.0.0.1"}, {Address: "10.0.0.2"}}})
	if err != nil || !is || w.Size() != 2 || len(all) != 2 {
		t.Fatal(err, is, w.Size(), len(all))
	}
	value := func(env []jobfile.Var, name string) string {
		for _, v := range env {
			if v.Name == name {
				return v.Value
			}
		}
		return ""
	}
	zero := w.RankZero("x-7", "eth0")
	for name, want := range map[string][3]string{
		"MASTER_ADDR": {"10.0.0.9", "10.0.0.9", "10.0.0.9"}, "MASTER_PORT": {"29407", "29407", "29407"}, "WORLD_SIZE": {"3", "3", "3"}, "RANK": {"0", "1", "2"},
		"SWARM_EPOCH": {"2", "2", "2"}, "SWARM_MAIN_IP": {"10.0.0.9", "10.0.0.9", "10.0.0.9"}, "GLOO_SOCKET_IFNAME": {"eth0", "", ""}, "SWARM_GROUP_RANK": {"0", "0", "1"},
		"SWARM_NODE_IPS": {"", "10.0.0.9\n10.0.0.1\n10.0.0.2", "10.0.0.9\n10.0.0.1\n10.0.0.2"},
	} {
		if got := [3]string{value(zero, name), value(all[0].Env, name), value(all[1].Env, name)}; got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	for lines, want := range map[string]string{
		"framework: none\nnetwork: host\n": "ranks are those of pytorch or horovod", "framework: pytorch\nimage: i\n": "write network: host", "framework: pytorch\nnetwork: host\nrestarts: 1\n": "leave restarts out",
	} {
		j, err := jobfile.Read("f", []byte("name: x\ncommand: a.py\n"+lines+beside))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := framework.WorldOf(j); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", lines, err)
		}
	}
}

// torchrun listens where the job says that rank 0 does, which is what its host keeps free.
func TestTorchrunHasTheJobsPort(t *testing.T) {
	for env, want := range map[string]string{"{A: b}": "29400", "{MASTER_PORT: 29500}": "29500", "{MASTER_PORT: 29500, PET_MASTER_PORT: 29600}": "29600"} {
		w := world(t, "framework: pytorch", "image: i", "command: torchrun a.py", "replicas: 2", "env: "+env)
		if got := of(programs(t, w, placed(2))[1], "PET_MASTER_PORT"); got["PET_MASTER_PORT"] != want {
			t.Errorf("%s: %v", env, got)
		}
	}
}
