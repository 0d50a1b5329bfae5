package tasks_test

import (
	"strings"
	"testing"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/bridge/wire"
	"github.com/swarmd/swarmd/internal/swci/tasks"
)

// TestATaskThatTrainsNothing: where its contract is completed, which is the one that its command or variables name, or else the default one.
func TestATaskThatTrainsNothing(t *testing.T) {
	const body = "Command : train.py --contract=%\nEntrypoint : python3\nWorkingDir : /tmp\nEnvvars : [\"A\" : \"é b-1.c,2\"]\nPrivateContent : \"/p\"\nSharedContent : []\n"
	for name, tt := range map[string]struct {
		taskType, contract string
		completed          []string
		want               string
	}{
		"named":                       {task.RunSwarm, "study", []string{"study", wire.DefaultContract}, "study"},
		"another is completed":        {task.RunSwarm, "study", []string{wire.DefaultContract}, ""},
		"none is named":               {task.RunSwarm, "unknown", []string{wire.DefaultContract, "study"}, wire.DefaultContract},
		"named in a variable":         {task.RunSwarm, "unknown", []string{wire.DefaultContract, "b-1.c"}, "b-1.c"},
		"part of a name":              {task.RunSwarm, "study-2", []string{"study"}, ""},
		"nothing is completed":        {task.RunSwarm, "study", nil, ""},
		"a task that trains by no SL": {task.PullImage, "study", []string{"study", wire.DefaultContract}, ""},
	} {
		shown := &tasks.Shown{Task: &swarmv1.Task{Name: "run", Type: tt.taskType}, Definition: []byte(strings.Replace(body, "%", tt.contract, 1))}
		contracts := []*swarmv1.ContractSummary{{Name: "study", Phase: "training"}, {Name: wire.DefaultContract, Phase: "enrolling"}}
		for _, c := range tt.completed {
			contracts = append(contracts, &swarmv1.ContractSummary{Name: c, Phase: "completed"})
		}
		got := strings.Join(tasks.Untrained(shown, contracts), "\n")
		if tt.want == "" && got != "" || tt.want != "" && (!strings.HasPrefix(got, "contract "+tt.want+" is completed") || !strings.HasSuffix(got, "swarmctl reset contract "+tt.want)) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
