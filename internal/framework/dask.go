package framework

import (
	"fmt"
	"strconv"
	"time"

	"github.com/swarmd/swarmd/internal/jobfile"
)

// Dask's own ports and page.
const (
	daskPort  = 8786
	daskPages = 8787
	daskCount = "/json/counts.json"

	daskWorkerPorts = "8700:8800" // several workers may share an address
	daskNannyPorts  = "3000:3100"
)

// dask has a scheduler, then workers, then the program, which a bare Client() connects. The first two serve it: they end when it has.
func dask() kind {
	return kind{
		start: jobfile.InOrder, doneWhen: jobfile.Main,
		groups: daskGroups,
		vars: func(_ *World, p Placement, _ Member) []jobfile.Var {
			return []jobfile.Var{
				{Name: "SCHEDULER_IP", Value: p.Members[0].reachable()},
				{Name: "SCHEDULER_PORT", Value: strconv.Itoa(daskPort)},
				{Name: "DASK_SCHEDULER_ADDRESS", Value: daskAddress(p)},
			}
		},
		command: daskCommand,
		ready:   daskReady,
		ports: func(w *World, group int) (each, first []int) {
			if w.Groups[group].Name != scheduler { // workers and nannies choose theirs out of ranges
				return nil, nil
			}
			return []int{daskPort, daskPages}, nil
		},
	}
}

// daskAddress is where the scheduler is, which has rank 0.
func daskAddress(p Placement) string {
	return "tcp://" + p.Members[0].at(daskPort)
}

func daskGroups(j *jobfile.Job) (all []Group, err error) {
	all, err = clusterGroups(j, []Group{
		{Settings: serving(j), Name: scheduler, Replicas: 1},
		{Settings: serving(j), Name: worker, Replicas: j.Replicas},
		{Settings: j.Settings, Name: entry, Replicas: 1, Least: 1},
	}, "scheduler, worker and entry, which is its program", entry)
	if err != nil {
		return nil, err
	}
	if all[2].Settings = daskEntry(all[2].Settings, j.Settings); len(all[2].Command) == 0 {
		all = all[:2] // a cluster for others, until its time is over
	}
	return all, nil
}

// daskEntry are the settings of the program. What stands above the groups of the command, its arguments and its readiness is the program's alone.
func daskEntry(s, above jobfile.Settings) jobfile.Settings {
	if len(s.Command) == 0 {
		s.Command = above.Command
	}
	if len(s.Args) == 0 {
		s.Args = above.Args
	}
	if !s.Ready.Set() {
		s.Ready = above.Ready
	}
	return s
}

// daskCommand runs Dask's programs as modules, which all releases have; as commands some have dask-worker and others dask worker.
func daskCommand(w *World, p Placement, m Member) []string {
	switch w.Groups[m.group].Name {
	case scheduler:
		return []string{"python3", "-m", "distributed.cli.dask_scheduler", "--port", strconv.Itoa(daskPort), "--dashboard-address", ":" + strconv.Itoa(daskPages)}
	case worker:
		command := []string{
			"python3", "-m", "distributed.cli.dask_worker", daskAddress(p), "--name", fmt.Sprintf("worker-%d", m.Index),
			"--worker-port", daskWorkerPorts, "--nanny-port", daskNannyPorts, "--death-timeout", strconv.Itoa(int(w.job.ReadyTimeout.Seconds())),
		}
		if m.Rank < len(p.Members) && p.Members[m.Rank].Address != "" {
			command = append(command, "--host", p.Members[m.Rank].Address) // else it would take the interface of the way out
		}
		return command
	}
	return nil
}

// daskReady asks the scheduler's page, also for how many workers it has.
func daskReady(w *World, _ Placement, m Member) Ready {
	page := Page{Port: daskPages, Path: daskCount}
	switch w.Groups[m.group].Name {
	case scheduler:
	case worker:
		page.Count, page.AtLeast = "workers", w.Groups[m.group].Replicas
	default:
		return Ready{}
	}
	return Ready{Page: page, Period: time.Second, Timeout: jobfile.DefaultPeriod}
}
