package framework

import (
	"fmt"
	"path"
	"strconv"

	"github.com/swarmd/swarmd/internal/jobfile"
)

// horovodPort is where the rendezvous of Horovod's ranks is, which has no port of its own, and rendezvousPort the variable that says so.
const (
	horovodPort    = 29410
	rendezvousPort = "HOROVOD_GLOO_RENDEZVOUS_PORT"
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
			return nil, firstPort(w.Groups[0], rendezvousPort, horovodPort)
		},
		meeting: horovodMeeting,
	}
}

func horovodGroups(j *jobfile.Job) ([]Group, error) {
	all := declared(j, "node")
	for _, g := range all {
		if len(g.Command) > 0 && path.Base(g.Command[0]) == "horovodrun" {
			return nil, fmt.Errorf("group %s runs horovodrun, which would start ranks itself: write its program as command, and as replicas what its -np says", g.Name)
		}
	}
	return all, nil
}

// horovodVars are those that horovodrun --gloo gives its ranks. Each member counts as a host with one rank, also where a host has several: each has a
// container, or GPUs, of its own, so that its local rank is 0, and gloo makes no difference between ranks of one host and of others.
func horovodVars(w *World, p Placement, m Member) []jobfile.Var {
	size, rank, port := strconv.Itoa(len(p.Members)), strconv.Itoa(m.Rank), horovodPort
	if p := w.job.Beside.Port; p > 0 {
		port = p
	}
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
		{Name: "HOROVOD_GLOO_RENDEZVOUS_ADDR", Value: p.Members[0].reachable()},
		{Name: rendezvousPort, Value: strconv.Itoa(port)},
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

// horovodMeeting is where a member's variables say.
func horovodMeeting(p Placement, _ Member, env []jobfile.Var) (x Meeting, err error) {
	x.Address = p.Members[0].Address
	for _, v := range env {
		if v.Name != rendezvousPort {
			continue
		}
		n, err := strconv.ParseUint(v.Value, 10, 16)
		if err != nil || n == 0 {
			return x, fmt.Errorf("env.%s is %.40q: write a port, 1 to 65535", rendezvousPort, v.Value)
		}
		x.Port = int(n)
	}
	return x, nil
}
