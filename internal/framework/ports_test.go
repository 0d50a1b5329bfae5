package framework_test

import (
	"fmt"
	"testing"

	"github.com/swarmd/swarmd/internal/framework"
	"github.com/swarmd/swarmd/internal/jobfile"
)

// TestMembersThatListenToOnePort need a host each, and a job that names fewer is refused.
func TestMembersThatListenToOnePort(t *testing.T) {
	const tf = "framework: tensorflow\ncommand: a\nreplicas: 3\n"
	for lines, want := range map[string]string{
		tf:                      "[{12345 3}]",
		tf + "hosts: [a, b, c]": "[{12345 3}]",
		"framework: tensorflow\ncommand: a\ngroups: [{name: chief}, {name: worker, env: {WORKER_PORT: 12346}}]\nhosts: [a]": "[]",
		"framework: pytorch\ncommand: a\nreplicas: 3\nhosts: [a]":                                                           "[]",
		"framework: tensorflow\nimage: i\ncommand: a\nreplicas: 3\nhosts: [a]":                                              "[]",
	} {
		if got := fmt.Sprint(world(t, lines).Apart()); got != want {
			t.Errorf("%s: %s, want %s", lines, got, want)
		}
	}
	const want = "3 members listen to port 12345 of their host, and it may have them on 2 alone: name more hosts, give groups other ports, or have them in networks of their own"
	if _, err := framework.WorldOf(job(t, tf+"hosts: [a, b]")); fmt.Sprint(err) != want {
		t.Error(err)
	}
}

// TestPorts are those of hosts that a job is known to use, by group and by member.
func TestPorts(t *testing.T) {
	for _, tt := range []struct{ job, groups, members string }{
		{"command: a\nreplicas: 2", "[[] []]", "[[] []]"},
		{"command: a\nreplicas: 2\nready: {port: 9000}", "[[9000] []]", "[[9000] [9000]]"},
		{"image: i\nready: {port: 9000}", "[[] []]", "[[]]"}, // in a network of its own
		{"framework: pytorch\ncommand: a\nreplicas: 2", "[[] [29400]]", "[[29400] []]"},
		{"framework: pytorch\ncommand: a\nenv: {MASTER_PORT: 'none'}", "[[] []]", "[[]]"},
		{"framework: pytorch\ncommand: a\ngroups: [{name: a, env: {MASTER_PORT: '1234'}, ready: {port: 1234}}, {name: b}]", "[[1234] [1234]] [[] []]", "[[1234 1234] []]"},
		{"framework: tensorflow\ncommand: a\nreplicas: 3", "[[12345] []]", "[[12345] [12345] [12345]]"},
		{"framework: tensorflow\ncommand: a\ngroups: [{name: chief}, {name: worker, env: {WORKER_PORT: '22345'}}]", "[[12345] []] [[22345] []]", "[[12345] [22345]]"},
		{"framework: tensorflow\nimage: i\nreplicas: 3", "[[] []]", "[[] [] []]"},
		{"framework: horovod\ncommand: a\nreplicas: 2", "[[] [29410]]", "[[29410] []]"},
		{"framework: horovod\ncommand: a\nenv: {HOROVOD_GLOO_RENDEZVOUS_PORT: '1234'}", "[[] [1234]]", "[[1234]]"},
		{"framework: ray\ncommand: a", "[[6379] []] [[] []]", "[[6379] []]"},
		{"framework: ray\ncommand: a\nimage: i\nnetwork: host\nenv: {RAY_PORT: 7000}", "[[7001 7000] []] [[7001] []]", "[[7001 7000] [7001]]"},
		{"framework: dask\ncommand: a\nready: {port: 9000}", "[[8786 8787] []] [[] []] [[9000] []]", "[[8786 8787] [] [9000]]"},
	} {
		j, err := jobfile.Read("f", []byte("name: x\n"+tt.job+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		w, err := framework.WorldOf(j)
		if err != nil {
			t.Fatal(err)
		}
		groups := ""
		for i := range w.Groups {
			each, first := w.Ports(i)
			groups += fmt.Sprintf(" [%v %v]", each, first)
		}
		var members [][]int
		for rank := range w.Size() {
			members = append(members, w.MemberPorts(rank))
		}
		if groups != " "+tt.groups || fmt.Sprint(members) != tt.members {
			t.Errorf("%q: %s, %v", tt.job, groups, members)
		}
	}
}
