package framework_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/framework"
)

// What horovodrun --gloo gives its ranks: horovod/runner/gloo_run.py of 0.28.1 names these, but for the timeout.
func TestHorovod(t *testing.T) {
	p := placed(2)
	p.Members[1].Interface = "eth1"
	w := world(t, "framework: horovod", "command: train.py --lr 0.1", "replicas: 2", "ready_timeout: 2m")
	all := programs(t, w, p)
	want := map[string]string{
		"HOROVOD_RANK": "1", "HOROVOD_SIZE": "2", "HOROVOD_LOCAL_RANK": "0", "HOROVOD_LOCAL_SIZE": "1", "HOROVOD_CROSS_RANK": "1", "HOROVOD_CROSS_SIZE": "2",
		"HOROVOD_HOSTNAME": "node-1", "HOROVOD_CONTROLLER": "gloo", "HOROVOD_CPU_OPERATIONS": "gloo", "HOROVOD_GLOO_IFACE": "eth1",
		"HOROVOD_GLOO_RENDEZVOUS_ADDR": "10.0.0.1", "HOROVOD_GLOO_RENDEZVOUS_PORT": "29410", "HOROVOD_GLOO_TIMEOUT_SECONDS": "120",
	}
	if d := cmp.Diff(want, of(all[1], "HOROVOD_")); d != "" {
		t.Error(d)
	}
	first := of(all[0], "HOROVOD_")
	if first["HOROVOD_RANK"] != "0" || first["HOROVOD_CROSS_RANK"] != "0" || first["HOROVOD_HOSTNAME"] != "node-0" || first["HOROVOD_GLOO_IFACE"] != "" {
		t.Errorf("rank 0: %v", first)
	}
	meeting := framework.Meeting{Address: "10.0.0.1", Port: 29410}
	if all[0].Meeting != meeting || all[1].Meeting != meeting || !meeting.Set() {
		t.Errorf("they meet at %+v and %+v", all[0].Meeting, all[1].Meeting)
	}
	if d := cmp.Diff([]string{"python3", "train.py", "--lr", "0.1"}, all[1].Command); d != "" {
		t.Error(d)
	}
}

// TestWhereHorovodMeets is what the job says of its port, for all its groups. Other frameworks meet by themselves.
func TestWhereHorovodMeets(t *testing.T) {
	for _, tt := range []struct {
		lines string
		want  framework.Meeting
	}{
		{"framework: horovod\nenv: {HOROVOD_GLOO_RENDEZVOUS_PORT: 29411}\nreplicas: 2", framework.Meeting{Address: "10.0.0.1", Port: 29411}},
		{"framework: horovod\ngroups: [{name: a, env: {HOROVOD_GLOO_RENDEZVOUS_PORT: 5000}}, {name: b}]", framework.Meeting{Address: "10.0.0.1", Port: 5000}},
		{"framework: pytorch\nreplicas: 2", framework.Meeting{}},
	} {
		for rank, x := range programs(t, world(t, tt.lines, "command: a.py"), placed(2)) {
			port := of(x, "HOROVOD_GLOO_RENDEZVOUS_PORT")["HOROVOD_GLOO_RENDEZVOUS_PORT"]
			if x.Meeting != tt.want || x.Meeting.Set() && port != strconv.Itoa(tt.want.Port) {
				t.Errorf("%s: rank %d: %+v, %s", tt.lines, rank, x.Meeting, port)
			}
		}
	}
}

func TestHorovodRefuses(t *testing.T) {
	for _, tt := range []struct{ lines, want string }{
		{"command: [bash, -c]\nargs: ['horovodrun -np 2 python train.py']", "group node runs horovodrun, which would start ranks itself: write its program as command, and as replicas what its -np says"},
		{"command: [env, A=1, timeout, 5m, mpirun, -np, '2', python, train.py]", "group node runs mpirun, which would start ranks itself: write its program as command, and as replicas what its -np says"},
		{"command: horovodrun -np 2 python train.py", "group node runs horovodrun, which would start ranks itself: write its program as command, and as replicas what its -np says"},
		{"command: [bash, -c, 'exec /opt/bin/horovodrun -np 2 python train.py']", "group node runs horovodrun, which would start ranks itself: write its program as command, and as replicas what its -np says"},
		{"command: python3 -m horovod.runner.launch -np 2 a.py", "group node runs horovod.runner.launch, which would start ranks itself: write its program as command, and as replicas what its -np says"},
		{"command: mpirun -np 2 a.py", "group node runs mpirun, which would start ranks itself: write its program as command, and as replicas what its -np says"},
		{"command: a.py\ngroups: [{name: a, replicas: 3, min_success: 2}]", "group a: ranks of Horovod succeed together: leave min_success out"},
		{"command: a.py\nenv: {HOROVOD_GLOO_RENDEZVOUS_PORT: '${SWARM_NODE_RANK}'}", `group node: env.HOROVOD_GLOO_RENDEZVOUS_PORT is "${SWARM_NODE_RANK}": write a port, 1 to 65535`},
		{"command: a.py\ngroups: [{name: a}, {name: b, env: {HOROVOD_GLOO_RENDEZVOUS_PORT: 5000}}]", "group b: env.HOROVOD_GLOO_RENDEZVOUS_PORT is 5000, and rank 0, of group a, serves all ranks at one port: write it under env of the job"},
		{"command: a.py\nenv: {HOROVOD_GLOO_RENDEZVOUS_ADDR: 10.0.0.9}", `group node: env.HOROVOD_GLOO_RENDEZVOUS_ADDR is "10.0.0.9", and ranks meet at rank 0's address: leave it out`},
	} {
		if _, err := framework.WorldOf(job(t, "framework: horovod\n"+tt.lines)); fmt.Sprint(err) != tt.want {
			t.Errorf("%s\ngot  %v\nwant %s", tt.lines, err, tt.want)
		}
	}
}

// TestHorovodBesideAnSL: its program is rank 0 and serves, at the port that the SL has chosen, and no host has that.
func TestHorovodBesideAnSL(t *testing.T) {
	const beside = "framework: horovod\ncommand: a.py\nreplicas: 2\nnetwork: host\nbeside: {sl: sl-1, address: 10.0.0.9, port: 29407, epoch: 2}"
	w := world(t, beside)
	p := placed(2)
	first, _ := w.Beside()
	p.Members = append([]framework.Place{first}, p.Members...)
	all := programs(t, w, p)
	want := framework.Meeting{Address: "10.0.0.9", Port: 29407}
	for i, x := range all {
		env := of(x, "HOROVOD_")
		if x.Meeting != want || env["HOROVOD_GLOO_RENDEZVOUS_PORT"] != "29407" || env["HOROVOD_RANK"] != strconv.Itoa(i+1) || env["HOROVOD_SIZE"] != "3" || len(w.MemberPorts(i)) != 0 {
			t.Errorf("member %d meets at %+v, listens to %v, and has %v", i, x.Meeting, w.MemberPorts(i), env)
		}
	}
	if zero := of(framework.Program{Env: w.RankZero("x-7", "eth0")}, "HOROVOD_"); zero["HOROVOD_RANK"] != "0" || zero["HOROVOD_GLOO_RENDEZVOUS_PORT"] != "29407" || zero["HOROVOD_GLOO_IFACE"] != "eth0" {
		t.Errorf("rank 0 has %v", zero)
	}
	const other = "group node: env.HOROVOD_GLOO_RENDEZVOUS_PORT is 5000, and the SL that it is beside serves at port 29407: leave it out"
	if _, err := framework.WorldOf(job(t, beside+"\nenv: {HOROVOD_GLOO_RENDEZVOUS_PORT: 5000}")); fmt.Sprint(err) != other {
		t.Error(err)
	}
}

// TestLauncherOf: a word of a program's own is no launcher.
func TestLauncherOf(t *testing.T) {
	for command, want := range map[string]string{
		"python3 -m horovod.runner.launch -np 2 a.py": "horovod.runner.launch", "bash --login -c (mpiexec;true)": "mpiexec", "/usr/bin/horovodrun a.py": "horovodrun",
		"python3 train.py --compare mpirun": "", "train.py --log /x/mpirun": "", "python3 -c print('horovodrun')": "", "python3 -m train horovodrun": "", "": "",
	} {
		if got := framework.LauncherOf(strings.Fields(command)); got != want {
			t.Errorf("%q: %q, want %q", command, got, want)
		}
	}
}
