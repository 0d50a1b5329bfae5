// Package jobrequest says with which request a job is assigned. The operator signs the request, and the leader places members by it; hosts alone
// read the job, and hold the request to it. So an SN, or a client that is wrong, can't make the two differ.
package jobrequest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/framework"
	"github.com/swarmd/swarmd/internal/jobfile"
)

// Request is what a job asks of the swarm: its groups, and what the leader starts and ends them by. Hosts are those that may have members of all
// groups; none means that the job names none, and who assigns it does. Who asks, when, and for which task is not of the job.
func Request(w *framework.World) task.Request {
	j := w.Expanded()
	q := task.Request{InOrder: w.Start == jobfile.InOrder, Retries: uint32(j.Restarts), TimeoutMS: j.Timeout.Milliseconds()} //nolint:gosec // bounded by the job file
	for i, g := range w.Groups {
		ports, first := w.Ports(i)
		q.Groups = append(q.Groups, task.Group{
			Name: g.Name, Peers: uint32(g.Replicas), Least: uint32(g.Least), Needs: memberNeeds(g.Resources), Ports: numbers(ports), FirstPorts: numbers(first), //nolint:gosec // likewise
		})
	}
	q.JobTerms = task.JobTerms{
		Done: done(w), ReadyMS: j.ReadyTimeout.Milliseconds(), LivesMS: j.TTL.Milliseconds(), Together: j.Network == jobfile.Private, GraceMS: j.Grace.Milliseconds(), Stops: j.WorkDir != "",
		Beside: j.Beside.SL,
	}
	hosts, _ := w.Common()
	q.Hosts = slices.Sorted(slices.Values(hosts))
	return q
}

// memberNeeds are what a member takes of its host. What it shares with other processes in memory is of its memory.
func memberNeeds(r jobfile.Resources) ledger.Needs {
	return ledger.Needs{MilliCPU: uint32(r.CPU), Memory: uint64(r.Memory), GPUs: uint32(r.GPU), Disk: uint64(r.Disk)} //nolint:gosec // likewise
}

// numbers are ports as they are signed: sorted, each once.
func numbers(ports []int) (all []uint32) {
	for _, p := range ports {
		all = append(all, uint32(p)) //nolint:gosec // a port
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// done is when the job is done, as the swarm says it.
func done(w *framework.World) string {
	switch w.DoneWhen {
	case jobfile.Main:
		return task.DoneMain
	case jobfile.Any:
		return task.DoneAny
	}
	return task.DoneAll
}

// errNoHost is of a job whose groups name hosts of which none is in all of them.
var errNoHost = errors.New("no host may have members of all groups, and members are placed on such hosts alone: name one in each hosts")

// Hold refuses a request that was signed for a task whose body is not the job that was asked for. The error is one line.
func Hold(signed task.Request, body []byte) error {
	j, err := jobfile.Decode(body)
	if err != nil {
		return fmt.Errorf("the task's job can't be read: %w", err)
	}
	w, err := framework.WorldOf(j)
	if err != nil {
		return fmt.Errorf("the task's job can't be run: %w", err)
	}
	if _, is := w.Common(); !is {
		return errNoHost
	}
	if err := Served(w); err != nil {
		return fmt.Errorf("no host carries out the task's job: %w", err)
	}
	job := Request(w)
	if what := differs(signed, job); what != "" {
		return fmt.Errorf("what was signed is not the job of task %.72s: %s: start jobs with swarmctl run job", signed.Task, what)
	}
	return nil
}

// differs names the first thing in which a request is another than its job's.
func differs(signed, job task.Request) string {
	switch {
	case signed.Taskrunner != "" || signed.Joins != "":
		return "it names a taskrunner or joins another assignment, which jobs don't"
	case len(signed.Hosts) == 0:
		return "it names no hosts"
	case len(job.Hosts) > 0 && !slices.Equal(signed.Hosts, job.Hosts):
		return fmt.Sprintf("it names %d hosts, and the job %d, or others", len(signed.Hosts), len(job.Hosts))
	case !task.SameGroups(signed.Groups, job.Groups):
		return groupDiffers(signed.Groups, job.Groups)
	}
	for _, x := range []struct {
		name        string
		signed, job any
	}{
		{"groups start in order", signed.InOrder, job.InOrder},
		{"restarts", signed.Retries, job.Retries},
		{"timeout in ms", signed.TimeoutMS, job.TimeoutMS},
		{"done", signed.Done, job.Done},
		{"ready_timeout in ms", signed.ReadyMS, job.ReadyMS},
		{"ttl in ms", signed.LivesMS, job.LivesMS},
		{"all on one host", signed.Together, job.Together},
		{"grace in ms", signed.GraceMS, job.GraceMS},
		{"ended by a stop file", signed.Stops, job.Stops},
		{"beside SL", signed.Beside, job.Beside},
	} {
		if x.signed != x.job {
			return fmt.Sprintf("%s: it says %v, and the job %v", x.name, x.signed, x.job)
		}
	}
	return ""
}

// groupDiffers names the first group that is another than the job's.
func groupDiffers(signed, job []task.Group) string {
	if len(signed) != len(job) {
		return fmt.Sprintf("it has %d groups, and the job %d", len(signed), len(job))
	}
	for i, g := range signed {
		if !task.SameGroups(signed[i:i+1], job[i:i+1]) {
			return fmt.Sprintf("group %d is %s, and the job's %s", i+1, inWords(g), inWords(job[i]))
		}
	}
	return ""
}

func inWords(g task.Group) string {
	s := fmt.Sprintf("%.31s, %d of %d", g.Name, g.Least, g.Peers)
	if needs := task.NeedsWords(g.Needs); needs != "" {
		s += " with " + needs
	}
	if len(g.Ports)+len(g.FirstPorts) > 0 {
		s += fmt.Sprint(" on ports ", slices.Concat(g.Ports, g.FirstPorts))
	}
	return s
}
