package framework

import (
	_ "embed" // texts of programs
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/swarmd/swarmd/internal/jobfile"
)

// rayPortOf is where the head listens to the other nodes. Workers of Ray listen from 10002 on, and Ray wants no other port among those.
const (
	rayPort  = 6379
	rayFirst = 1024
	rayLast  = 9999
)

// rayOwn are options of ray start that say what a node is and where it is found, beside its port.
var rayOwn = []string{"--head", "--address", "--block", "--node-ip-address", "--node-manager-port", "--include-dashboard"}

// What is run by Python beside Ray's own commands.
var (
	//go:embed ray/node.py
	rayNode string
	//go:embed ray/nodes.py
	rayNodes string
)

// ray has a head, then workers. The program runs beside the head, in its member, when all nodes are there: Ray connects a program to a node of its own
// machine alone, with which it shares memory. A bare ray.init() finds it. The workers serve it: they end when it has.
func ray() kind {
	return kind{
		start: jobfile.InOrder, doneWhen: jobfile.Main,
		groups: rayGroups,
		vars: func(w *World, p Placement, m Member) []jobfile.Var {
			return append([]jobfile.Var{
				{Name: "RAY_ADDRESS", Value: rayAddress(w, p)},
				{Name: "RAY_USAGE_STATS_ENABLED", Value: "0"},
			}, torchInterface(p, m)...) // for Ray Train, whose workers have the environment of their node
		},
		command: rayCommand,
		starts: func(w *World, m Member) (command, args []string) {
			if w.Groups[m.group].Name != head {
				return nil, nil
			}
			return w.job.Command, w.job.Args
		},
		ready: func(w *World, p Placement, m Member) Ready {
			nodes := 1
			if w.Groups[m.group].Name == worker {
				nodes += w.Groups[m.group].Replicas
			}
			return Ready{Command: []string{"python3", "-c", rayNodes, rayAddress(w, p), strconv.Itoa(nodes)}, Period: jobfile.DefaultPeriod, Timeout: jobfile.MaxAsk}
		},
		ports: func(w *World, group int) (each, first []int) {
			if rayPinned(w, group) {
				each = []int{rayPortOf(w) + 1}
			}
			if w.Groups[group].Name == head {
				each = append(each, rayPortOf(w))
			}
			return each, nil
		},
	}
}

func rayGroups(j *jobfile.Job) (all []Group, err error) {
	first := Group{Settings: serving(j), Name: head, Replicas: 1}
	if len(j.Command) > 0 {
		first.Least = 1
	}
	all, err = clusterGroups(j, []Group{first, {Settings: serving(j), Name: worker, Replicas: j.Replicas}}, "head, beside which its program runs, and worker", "")
	if err != nil {
		return nil, err
	}
	if j.Ready.Set() {
		return nil, errors.New("ready stands above the groups, and ray's program starts when all are ready: leave it out")
	}
	if len(j.Command) == 0 && len(j.Args) > 0 {
		return nil, errors.New("args stands above the groups without a command: write options of ray in its groups")
	}
	for _, g := range all {
		said, is := valueOf(g.Env, "RAY_PORT")
		if n := portOf(said); is && (n < rayFirst || n > rayLast) {
			return nil, fmt.Errorf("group %s: RAY_PORT in env is %.40q: write a port from %d to %d", g.Name, said, rayFirst, rayLast)
		}
		for _, word := range g.Args {
			name, _, _ := strings.Cut(word, "=")
			switch {
			case word == "--":
				return nil, fmt.Errorf("group %s: args has --, which is no option of ray: leave it out", g.Name)
			case name == "--port":
				return nil, fmt.Errorf("group %s: args has --port: write the head's port as RAY_PORT under env of the job, from which all nodes know it", g.Name)
			case slices.Contains(rayOwn, name):
				return nil, fmt.Errorf("group %s: args has %s, which the job says: leave it out", g.Name, name)
			}
		}
	}
	return all, nil
}

// rayPortOf is where the head of the job listens, whose env may say so.
func rayPortOf(w *World) int {
	if said, is := valueOf(w.Groups[0].Env, "RAY_PORT"); is {
		return portOf(said)
	}
	return rayPort
}

// rayAddress is where the head is, which has rank 0.
func rayAddress(w *World, p Placement) string { return p.Members[0].at(rayPortOf(w)) }

// rayPinned reports whether a node listens to a port that is known. Of several nodes at one address Ray gives a program any, and only that of its own
// container shares memory with it: so in the host's network there is one node on each host.
func rayPinned(w *World, group int) bool {
	return w.job.Network == jobfile.Host && w.Groups[group].Image != ""
}

// rayCommand runs Ray's command as a module, which is there wherever Python imports it, and watches the node that it starts.
func rayCommand(w *World, p Placement, m Member) []string {
	g := w.Groups[m.group]
	var options []string
	if m.Rank < len(p.Members) && p.Members[m.Rank].Address != "" {
		options = append(options, "--node-ip-address", p.Members[m.Rank].Address) // else it would take the interface of the way out
	}
	if rayPinned(w, m.group) {
		options = append(options, "--node-manager-port", strconv.Itoa(rayPortOf(w)+1))
	}
	if n := g.Resources.CPU; n > 0 {
		options = append(options, "--num-cpus", strconv.Itoa(max(1, n/1000)))
	}
	nodes := 1 + w.Groups[len(w.Groups)-1].Replicas
	start := []string{"python3", "-c", rayNode, rayAddress(w, p), strconv.Itoa(nodes)}
	if g.Name == worker {
		return slices.Concat(start, []string{"--address", rayAddress(w, p)}, options)
	}
	return slices.Concat(start, []string{"--head", "--port", strconv.Itoa(rayPortOf(w)), "--include-dashboard", "false"}, options)
}
