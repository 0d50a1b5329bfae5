package framework_test

import (
	"fmt"
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

// TestWhereHorovodMeets is what the job says of its port. Other frameworks meet by themselves.
func TestWhereHorovodMeets(t *testing.T) {
	for _, tt := range []struct {
		lines []string
		want  framework.Meeting
		err   string
	}{
		{lines: []string{"framework: horovod", "env: {HOROVOD_GLOO_RENDEZVOUS_PORT: '${PORT}', PORT: 1234}"}, err: "group node: env.HOROVOD_GLOO_RENDEZVOUS_PORT has ${PORT}, which nothing sets here: add it to env, or write $${PORT} for the program's own"},
		{lines: []string{"framework: horovod", "env: {HOROVOD_GLOO_RENDEZVOUS_PORT: '2941${NODE_COUNT}'}"}, want: framework.Meeting{Address: "10.0.0.1", Port: 29411}},
		{lines: []string{"framework: horovod", "env: {HOROVOD_GLOO_RENDEZVOUS_PORT: any}"}, err: `group node: env.HOROVOD_GLOO_RENDEZVOUS_PORT is "any": write a port, 1 to 65535`},
		{lines: []string{"framework: pytorch"}},
	} {
		x, err := world(t, append(tt.lines, "command: a.py")...).Program(placed(1), 0)
		if err == nil && (tt.err != "" || x.Meeting != tt.want) || err != nil && err.Error() != tt.err {
			t.Errorf("%q: %+v, %v", tt.lines, x.Meeting, err)
		}
	}
	const launched = "framework: horovod\ncommand: horovodrun -np 2 python train.py"
	if _, err := framework.WorldOf(job(t, launched)); fmt.Sprint(err) != "group node runs horovodrun, which would start ranks itself: write its program as command, and as replicas what its -np says" {
		t.Error(err)
	}
}
