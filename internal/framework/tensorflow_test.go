package framework_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/framework"
)

// TestGroupsOfTensorFlow: rank 0 is the chief, or the first worker, which is the chief without one. What serves the others does not decide when the job is done.
func TestGroupsOfTensorFlow(t *testing.T) {
	var all []groupsTest
	for _, tt := range []struct{ lines, groups, doneWhen string }{
		{"replicas: 3", "worker 3/3", "all"},
		{"replicas: 1", "worker 1/1", "all"},
		{"groups: [{name: worker, replicas: 3}]", "worker 3/3", "all"},
		{"groups: [{name: worker, replicas: 3}, {name: chief}]", "chief 1/1, worker 3/3", "all"},
		{"groups: [{name: ps, replicas: 2}, {name: worker, replicas: 3}, {name: chief}]", "chief 1/1, worker 0/3, ps 0/2", "main"},
		{"groups: [{name: ps}, {name: worker, replicas: 3}, {name: chief}]\ndone_when: main", "chief 1/1, worker 0/3, ps 0/1", "main"},
		{"groups: [{name: ps}, {name: worker, replicas: 3, min_success: 2}, {name: chief}]\ndone_when: all", "chief 1/1, worker 2/3, ps 0/1", "all"},
		{"groups: [{name: ps}, {name: worker, replicas: 2}]", "worker 2/2, ps 0/1", "main"},
		{"groups: [{name: chief}, {name: ps, command: serve.py}]", "chief 1/1, ps 0/1", "main"},
	} {
		all = append(all, groupsTest{tt.lines, []string{"framework: tensorflow", "command: train.py", tt.lines}, tt.groups, "parallel", tt.doneWhen, 0})
	}
	testGroups(t, all)
}

// What TensorFlow's TFConfigClusterResolver reads: https://www.tensorflow.org/guide/distributed_training names it.
func TestTensorFlow(t *testing.T) {
	p := placed(4)
	p.Members[2].Interface = "eth1"
	p.Members[3].Address = "fd00::4"
	all := programs(t, world(t, "framework: tensorflow", "command: train.py --lr 0.1", "groups: [{name: ps, env: {WORKER_PORT: 22345}, command: serve.py}, {name: chief}, {name: worker, replicas: 2}]"), p)
	cluster := map[string]any{
		"chief":  []any{"10.0.0.1:12345"},
		"worker": []any{"10.0.0.2:12345", "10.0.0.3:12345"},
		"ps":     []any{"[fd00::4]:22345"},
	}
	for rank, want := range []struct {
		task    map[string]any
		port    string
		command string
	}{
		{map[string]any{"type": "chief", "index": 0.0}, "12345", "train.py"},
		{map[string]any{"type": "worker", "index": 0.0}, "12345", "train.py"},
		{map[string]any{"type": "worker", "index": 1.0}, "12345", "train.py"},
		{map[string]any{"type": "ps", "index": 0.0}, "22345", "serve.py"},
	} {
		env := of(all[rank], "TF_CONFIG", "WORKER_PORT", "NCCL_")
		var config map[string]any
		if err := json.Unmarshal([]byte(env["TF_CONFIG"]), &config); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(map[string]any{"cluster": cluster, "task": want.task}, config); d != "" {
			t.Errorf("rank %d: %s", rank, d)
		}
		if env["WORKER_PORT"] != want.port || all[rank].Command[1] != want.command || !cmp.Equal(all[rank].Ready, framework.Ready{}) {
			t.Errorf("rank %d: %v, %v", rank, env, all[rank])
		}
		if is := env["NCCL_SOCKET_IFNAME"]; is != p.Members[rank].Interface {
			t.Errorf("rank %d: interface %q", rank, is)
		}
	}
	named := placed(1)
	named.Members[0].Address = ""
	own := programs(t, world(t, "framework: tensorflow", "command: train.py", "env: {TF_CONFIG: mine}"), named)
	if got := of(own[0], "TF_CONFIG")["TF_CONFIG"]; got != "mine" {
		t.Errorf("the job's own: %s", got)
	}
	byName := programs(t, world(t, "framework: tensorflow", "command: train.py"), named)
	if got := of(byName[0], "TF_CONFIG")["TF_CONFIG"]; got != `{"cluster":{"worker":["node-0:12345"]},"task":{"type":"worker","index":0}}` {
		t.Errorf("by name: %s", got)
	}
}

func TestTensorFlowRefuses(t *testing.T) {
	for _, tt := range []struct{ lines, want string }{
		{"groups: [{name: evaluator}, {name: worker}]", "group evaluator: tensorflow has the groups chief, worker and ps; run an evaluator as a job of its own, with the checkpoints in a folder under volumes"},
		{"groups: [{name: worker, replicas: 3, min_success: 2}, {name: chief}]", "group worker: without parameter servers members succeed together, as each waits for the others: leave min_success out"},
		{"groups: [{name: ps}]", "the job has parameter servers alone: write a group chief or worker"},
		{"groups: [{name: chief, replicas: 2}]", "group chief: tensorflow has one: leave replicas out"},
		{"groups: [{name: worker, env: {WORKER_PORT: '${PORT}'}}]", `group worker: WORKER_PORT in env is "${PORT}": write a port from 1 to 65535`},
		{"env: {WORKER_PORT: 0}", `group worker: WORKER_PORT in env is "0": write a port from 1 to 65535`},
		{"groups: [{name: worker}, {name: ps, replicas: 2, min_success: 1}]", "group ps serves the others and has no success of its own: leave min_success out"},
		{"groups: [{name: chief}, {name: worker, replicas: 2, min_success: 1}, {name: ps}]", "group worker serves the chief and has no success of its own: leave min_success out, or write done_when: all where workers end by themselves"},
	} {
		if _, err := framework.WorldOf(job(t, "framework: tensorflow\ncommand: a\n"+tt.lines)); fmt.Sprint(err) != tt.want {
			t.Errorf("%s\ngot  %v\nwant %s", tt.lines, err, tt.want)
		}
	}
}
