package framework

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/swarmd/swarmd/internal/jobfile"
)

// horovodPort is where the rendezvous of Horovod's ranks is, which has no port of its own, and the others the variables that say where.
const (
	horovodPort       = 29410
	rendezvousPort    = "HOROVOD_GLOO_RENDEZVOUS_PORT"
	rendezvousAddress = "HOROVOD_GLOO_RENDEZVOUS_ADDR"
)

// horovod is for horovod.torch and horovod.tensorflow, over gloo. Each member is one rank, as if horovodrun had started it: it finds the others by a
// rendezvous beside rank 0. horovodrun would also want ssh.
func horovod() kind {
	return kind{
		start: jobfile.Parallel, doneWhen: jobfile.All,
		groups:  horovodGroups,
		vars:    horovodVars,
		command: ownCommand,
		ready:   whenItRuns,
		ports: func(w *World, group int) (each, first []int) {
			if group > 0 || w.first() > 0 { // rank 0 is no member of theirs
				return nil, nil
			}
			return nil, []int{horovodPortOf(w)}
		},
		meeting: horovodMeeting,
	}
}

func horovodGroups(j *jobfile.Job) ([]Group, error) {
	all := declared(j, "node")
	for i, g := range all {
		if err := meetsWhere(j, all[0], i, g); err != nil {
			return nil, fmt.Errorf("group %s: %w", g.Name, err)
		}
		if l := LauncherOf(slices.Concat(g.Command, g.Args)); l != "" {
			return nil, fmt.Errorf("group %s runs %s, which would start ranks itself: write its program as command, and as replicas what its -np says", g.Name, l)
		}
		if g.Least < g.Replicas {
			return nil, fmt.Errorf("group %s: ranks of Horovod succeed together: leave min_success out", g.Name)
		}
	}
	return all, nil
}

// Programs that start ranks of Horovod, shells, and programs that run the command behind them.
var (
	launchers = []string{"horovodrun", "mpirun", "mpiexec", "horovod.runner", "horovod.runner.launch"}
	shells    = []string{"sh", "bash", "dash", "ash", "zsh"}
	wrappers  = []string{"env", "exec", "nice", "nohup", "setsid", "stdbuf", "taskset", "numactl", "timeout", "time", "tini", "docker-init", "dumb-init"}
)

// LauncherOf is what a command starts ranks of Horovod with: itself, as a module of Python's, in a text for a shell, or behind a wrapper; empty: it starts
// none. A word of a program's own is none, whatever it is.
func LauncherOf(command []string) string {
	for i, word := range command {
		name := path.Base(word)
		switch {
		case slices.Contains(launchers, name):
			return name
		case slices.Contains(shells, name):
			return launcherIn(command[i+1:])
		case strings.HasPrefix(name, "python"):
			if i+2 < len(command) && command[i+1] == "-m" && slices.Contains(launchers, command[i+2]) {
				return command[i+2]
			}
			return ""
		case slices.Contains(wrappers, name), strings.HasPrefix(word, "-"), strings.Contains(word, "="), word != "" && word[0] >= '0' && word[0] <= '9': // what a wrapper takes
		default:
			return ""
		}
	}
	return ""
}

// launcherIn is one that stands in the texts for a shell, which may be scripts of its own: each word of them is looked at.
func launcherIn(texts []string) string {
	for _, text := range texts {
		for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(" \t\r\n\"';&|()`", r) }) {
			if name := path.Base(word); slices.Contains(launchers, name) {
				return name
			}
		}
	}
	return ""
}

// meetsWhere refuses what a group says of where ranks meet, if that is not where rank 0, which is in the first group, serves all of them.
func meetsWhere(j *jobfile.Job, first Group, index int, g Group) error {
	if at, is := valueOf(g.Env, rendezvousAddress); is {
		return fmt.Errorf("env.%s is %.40q, and ranks meet at rank 0's address: leave it out", rendezvousAddress, at)
	}
	said, is := valueOf(g.Env, rendezvousPort)
	zero, all := valueOf(first.Env, rendezvousPort)
	switch {
	case !is:
	case portOf(said) == 0:
		return fmt.Errorf("env.%s is %.40q: write a port, 1 to 65535", rendezvousPort, said)
	case j.Beside.Port > 0 && portOf(said) != j.Beside.Port:
		return fmt.Errorf("env.%s is %s, and the SL that it is beside serves at port %d: leave it out", rendezvousPort, said, j.Beside.Port)
	case index > 0 && (!all || portOf(said) != portOf(zero)):
		return fmt.Errorf("env.%s is %s, and rank 0, of group %s, serves all ranks at one port: write it under env of the job", rendezvousPort, said, first.Name)
	}
	return nil
}

// horovodPortOf is where rank 0 of a job serves the others.
func horovodPortOf(w *World) int {
	if p := w.job.Beside.Port; p > 0 {
		return p
	}
	if said, is := valueOf(w.Groups[0].Env, rendezvousPort); is {
		return portOf(said)
	}
	return horovodPort
}

// horovodVars are those that horovodrun --gloo gives its ranks. Each member counts as a host with one rank, also where a host has several: each has a
// container, or GPUs, of its own, so that its local rank is 0, and gloo makes no difference between ranks of one host and of others.
func horovodVars(w *World, p Placement, m Member) []jobfile.Var {
	size, rank := strconv.Itoa(len(p.Members)), strconv.Itoa(m.Rank)
	vars := []jobfile.Var{
		{Name: "HOROVOD_RANK", Value: rank},
		{Name: "HOROVOD_SIZE", Value: size},
		{Name: "HOROVOD_LOCAL_RANK", Value: "0"},
		{Name: "HOROVOD_LOCAL_SIZE", Value: "1"},
		{Name: "HOROVOD_CROSS_RANK", Value: rank},
		{Name: "HOROVOD_CROSS_SIZE", Value: size},
		{Name: "HOROVOD_HOSTNAME", Value: NameOf(m.Rank)},
		{Name: "HOROVOD_CONTROLLER", Value: "gloo"},
		{Name: "HOROVOD_CPU_OPERATIONS", Value: "gloo"},
		{Name: rendezvousAddress, Value: p.Members[0].reachable()},
		{Name: rendezvousPort, Value: strconv.Itoa(horovodPortOf(w))},
		// 30 s, which hold without it, are less than a host may take to begin.
		{Name: "HOROVOD_GLOO_TIMEOUT_SECONDS", Value: strconv.Itoa(max(1, int(w.job.ReadyTimeout.Seconds())))},
		// In the host's network a name may lead to any of its interfaces.
		{Name: "HOROVOD_GLOO_IFACE", Value: p.Members[m.Rank].Interface},
	}
	if n := w.threads(p, m); n > 0 {
		vars = append(vars, jobfile.Var{Name: "OMP_NUM_THREADS", Value: strconv.Itoa(n)})
	}
	return vars
}

// horovodMeeting is where a world's ranks meet.
func horovodMeeting(w *World, p Placement) Meeting {
	return Meeting{Address: p.Members[0].Address, Port: horovodPortOf(w)}
}
