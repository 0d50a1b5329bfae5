package tasks_test

import (
	"fmt"
	"strings"
	"testing"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/swci/tasks"
)

// Who approves a job sees what its members run.
func TestFactsOfAJob(t *testing.T) {
	const body = "name: x\ncommand: [a.py, 'two words']\nnetwork: host\ngroups:\n- {name: r, image: i:1}\n- {name: s, replicas: 3, min_success: 2, command: b}\n--- source\n644 text 2 a.py\n1\n755 text 2 c\n2\n"
	for _, tt := range []struct{ body, want string }{
		{body, "GROUP r: 1, of which all have to succeed; image i:1, a.py 'two words'|GROUP s: 3, of which 2 have to succeed; a process, b|NETWORK host|START all groups at once|GRACE 30s|SOURCE a.py|SOURCE c"},
		{
			"name: x\nimage: i:1\ncommand: a\nstart: in-order\ngrace: 5m\nwork_dir: w\nartifacts: {dir: /opt/ml, to: bucket}\nenv: {A: 'b c', LD_PRELOAD: ./x.so}\nsecrets: [K, {name: T, as: file}]\n" +
				"volumes: ['data:/d', 'out:/o:rw']\nresources: {cpu: 2}\nhosts: [h-1, h-2]\nready: {command: [sh, -c, 'rm -rf /d'], period: 2s}\ngroups: [{name: r}, {name: s, env: {A: 1}, ready: {port: 9}, hosts: [h-2]}]\ncompat: oci\n",
			"GROUP r: 1, of which all have to succeed; image i:1, a|ENV r: 'A=b c' LD_PRELOAD=./x.so|SECRETS r: K, T as a file|VOLUMES r: data:/d:ro, out:/o:rw|RESOURCES r: cpu=2|HOSTS r: h-1, h-2|" +
				"READY r: when this ends with 0, asked every 2s, for 5s: sh -c 'rm -rf /d'|GROUP s: 1, of which all have to succeed; image i:1, a|ENV s: A=1 LD_PRELOAD=./x.so|SECRETS s: K, T as a file|" +
				"VOLUMES s: data:/d:ro, out:/o:rw|RESOURCES s: cpu=2|HOSTS s: h-2|READY s: when it listens to port 9, asked every 5s, for 5s|NETWORK private|START each group when the one before is ready|GRACE 5m|" +
				"WORK_DIR a folder of the run in volume w, to write; a file named stop in it ends the run|COMPAT oci: members have the variables of Oracle's jobs, and find in the folder of the run where the others are|ARTIFACTS /opt/ml to bucket, every 1m",
		},
		{
			"name: x\nframework: pytorch\ncommand: [a.py]\nnetwork: host\nbeside: {sl: sl-1, address: 10.0.0.9, port: 29401, epoch: 1}\n",
			"GROUP node: 1, of which all have to succeed; a process, a.py|NETWORK host|START all groups at once|GRACE 30s|BESIDE SL sl-1, which runs rank 0 itself and awaits the others at 10.0.0.9:29401",
		},
		{"nam: x\n", "BODY can't be carried out: line 1: unknown field nam: did you mean name?"},
		{"name: x\n", "BODY can't be carried out: group node has neither a command nor an image whose own it runs: write command"},
	} {
		shown := &tasks.Shown{Task: &swarmv1.Task{Name: "x.0123abcd", Type: task.RunJob}, Definition: []byte(tt.body), Sum: "d"}
		var got []string
		for _, f := range shown.Facts(nil) {
			got = append(got, fmt.Sprintf("%s %s", f.Name, f.Value))
		}
		if want := "TASK x.0123abcd|TYPE RUN_JOB|AUTHOR |DIGEST d|" + tt.want; strings.Join(got, "|") != want {
			t.Errorf("got  %s\nwant %s", strings.Join(got, "|"), want)
		}
	}
}
