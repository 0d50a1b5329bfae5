package framework

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/swarmd/swarmd/internal/jobfile"
)

// workerPort is where members listen to each other. TensorFlow binds the number that it tells the others, so it is the same inside and outside.
const workerPort = 12345

// Groups of TensorFlow, beside worker, in the order of their ranks.
const (
	chief           = "chief"
	parameterServer = "ps"
)

// tensorflow is for tf.distribute: each member finds in TF_CONFIG where all are, and which of them it is.
func tensorflow() kind {
	return kind{
		start: jobfile.Parallel, doneWhen: jobfile.All,
		groups:  tfGroups,
		vars:    tfVars,
		command: ownCommand,
		ready:   whenItRuns,
		ports:   func(w *World, group int) (each, first []int) { return []int{tfPort(w.Groups[group])}, nil },
	}
}

// tfGroups are workers, the first of which is the chief, or those of the file. Parameter servers run until the others are done, and so do the workers of a chief that has
// some, unless the file says by done_when that they are to end too.
func tfGroups(j *jobfile.Job) (all []Group, err error) {
	declared := j.Groups
	if len(declared) == 0 {
		declared = []jobfile.Group{{Name: worker, Replicas: j.Replicas, Settings: j.Settings}}
	}
	has := func(name string) bool {
		return slices.ContainsFunc(declared, func(g jobfile.Group) bool { return g.Name == name })
	}
	for _, g := range declared {
		if g.Name != chief && g.Name != worker && g.Name != parameterServer {
			return nil, fmt.Errorf("group %s: tensorflow has the groups chief, worker and ps; run an evaluator as a job of its own, with the checkpoints in a folder under volumes", g.Name)
		}
	}
	if !has(chief) && !has(worker) {
		return nil, errors.New("the job has parameter servers alone: write a group chief or worker")
	}
	if !has(parameterServer) {
		for _, g := range declared {
			if g.MinSuccess > 0 && g.MinSuccess < g.Replicas {
				return nil, fmt.Errorf("group %s: without parameter servers members succeed together, as each waits for the others: leave min_success out", g.Name)
			}
		}
	}
	coordinated := has(chief) && has(parameterServer) && (j.DoneWhen == "" || j.DoneWhen == jobfile.Main)
	for _, name := range []string{chief, worker, parameterServer} {
		for _, g := range declared {
			if g.Name != name {
				continue
			}
			x, err := tfGroup(g, name == parameterServer || name == worker && coordinated)
			if err != nil {
				return nil, err
			}
			all = append(all, x)
		}
	}
	return all, nil
}

// tfGroup is a group of the file, which serves the others or is to end.
func tfGroup(g jobfile.Group, serves bool) (x Group, err error) {
	x = Group{Settings: g.Settings, Name: g.Name, Replicas: g.Replicas}
	said, is := valueOf(g.Env, "WORKER_PORT")
	switch {
	case g.Name == chief && g.Replicas != 1:
		return x, fmt.Errorf("group %s: tensorflow has one: leave replicas out", g.Name)
	case is && portOf(said) == 0:
		return x, fmt.Errorf("group %s: WORKER_PORT in env is %.40q: write a port from 1 to 65535", g.Name, said)
	case serves && g.MinSuccess > 0 && g.Name == worker:
		return x, fmt.Errorf("group %s serves the chief and has no success of its own: leave min_success out, or write done_when: all where workers end by themselves", g.Name)
	case serves && g.MinSuccess > 0:
		return x, fmt.Errorf("group %s serves the others and has no success of its own: leave min_success out", g.Name)
	case serves:
		return x, nil
	}
	if x.Least = g.MinSuccess; x.Least == 0 {
		x.Least = g.Replicas
	}
	return x, nil
}

// tfPort is where members of a group listen.
func tfPort(g Group) int {
	said, is := valueOf(g.Env, "WORKER_PORT")
	if !is {
		return workerPort
	}
	return portOf(said)
}

// tfConfig is what a member reads in TF_CONFIG: where all are, by group, and which of them it is.
type tfConfig struct {
	Cluster map[string][]string `json:"cluster"`
	Task    tfTask              `json:"task"`
}

type tfTask struct {
	Type  string `json:"type"`
	Index int    `json:"index"`
}

func tfVars(w *World, p Placement, m Member) []jobfile.Var {
	cluster := map[string][]string{}
	for _, x := range w.members() {
		g := w.Groups[x.group]
		cluster[g.Name] = append(cluster[g.Name], p.Members[x.Rank].at(tfPort(g)))
	}
	g := w.Groups[m.group]
	config, _ := json.Marshal(tfConfig{cluster, tfTask{g.Name, m.Index}}) // texts and numbers always encode
	vars := []jobfile.Var{
		{Name: "TF_CONFIG", Value: string(config)},
		{Name: "WORKER_PORT", Value: strconv.Itoa(tfPort(g))},
	}
	if dev := p.Members[m.Rank].Interface; dev != "" { // in the host's network a name may lead to any of its interfaces
		vars = append(vars, jobfile.Var{Name: "NCCL_SOCKET_IFNAME", Value: dev})
	}
	return vars
}
