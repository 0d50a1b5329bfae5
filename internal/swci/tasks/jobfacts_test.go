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
		{body, "GROUP r: 1, of which all have to succeed; image i:1, a.py 'two words'|GROUP s: 3, of which 2 have to succeed; a process, b|NETWORK host|SOURCE a.py|SOURCE c"},
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
