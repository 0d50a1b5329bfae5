package jobs

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/framework"
	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/jobrequest"
	"github.com/swarmd/swarmd/internal/suggest"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/tasks"
	"github.com/swarmd/swarmd/internal/taskfile"
	"github.com/swarmd/swarmd/internal/text"
	"github.com/swarmd/swarmd/internal/work/jobcommand"
)

// Plan is a job as it is started: the task that it becomes, and what is signed.
type Plan struct {
	Job     string
	Changes []Change
	Task    *taskfile.Task
	Request *swarmv1.AssignTaskRequest
	Warned  []string // what is odd and starts all the same

	world *framework.World
}

// rootTask is what jobs need: nothing.
const rootTask = "ROOTTASK"

// maxChange bounds what a task's body says of a change, in bytes.
const maxChange = 200

// NewPlan is that of a job file with what is said in its place. The hosts are not found yet.
func NewPlan(file *jobfile.Job, said jobfile.Overrides, expires time.Time) (*Plan, error) {
	j, changes, err := file.Override(said)
	if err != nil {
		return nil, err
	}
	w, body, err := sent(j)
	if err != nil {
		return nil, err
	}
	if err := runnable(w); err != nil {
		return nil, err
	}
	p := &Plan{Job: j.Name, world: w}
	var head strings.Builder
	for _, c := range changes {
		p.Changes = append(p.Changes, Change{c.Field, c.Was, c.Is})
		head.WriteString("# changed: " + text.Cut(text.Line(p.Changes[len(p.Changes)-1].words()), maxChange) + "\n")
	}
	body = append([]byte(head.String()), body...)
	if _, err := jobfile.Decode(body); err != nil { // what was said of changes makes it larger
		return nil, err
	}
	q := jobrequest.Request(w)
	p.Task = &taskfile.Task{Name: jobrequest.TaskName(j.Name, body), Type: jobrequest.TaskType, Prereq: rootTask, Definition: body}
	p.Request = &swarmv1.AssignTaskRequest{
		Task: p.Task.Name, Digest: p.Task.Digest(""), Hosts: q.Hosts, InOrder: q.InOrder, Retries: q.Retries, TimeoutMs: q.TimeoutMS, ExpiresUnixMs: expires.UnixMilli(),
		Done: q.Done, ReadyMs: q.ReadyMS, LivesMs: q.LivesMS, Together: q.Together, GraceMs: q.GraceMS, Stops: q.Stops, Beside: q.Beside,
	}
	for _, g := range q.Groups {
		one := &swarmv1.TaskGroup{Name: g.Name, Peers: g.Peers, Least: g.Least, Ports: g.Ports, FirstPorts: g.FirstPorts}
		if n := g.Needs; n.MilliCPU > 0 || n.Memory > 0 || n.GPUs > 0 || n.Disk > 0 {
			one.Needs = &swarmv1.Needs{MilliCpu: n.MilliCPU, MemoryBytes: n.Memory, Gpus: n.GPUs, DiskBytes: n.Disk}
		}
		p.Request.Groups = append(p.Request.Groups, one)
	}
	if len(q.Hosts) == 0 {
		q.Hosts = []string{"any"}
	}
	if err := jobrequest.Hold(q, body); err != nil {
		return nil, err
	}
	return p, fitsHosts(w)
}

// fitsHosts refuses a job that hosts would refuse, whatever their owners say.
func fitsHosts(w *framework.World) error {
	images, err := jobrequest.Images(w)
	if err != nil {
		return err
	}
	return jobcommand.Fits(w, len(images) == 0)
}

// runnable refuses a job of which a member has no program wherever it is placed, as one that names a variable that nothing sets: hosts find that out
// when all have consented.
func runnable(w *framework.World) error {
	p := example(w, w.Expanded())
	for rank := range p.Members {
		if _, err := w.Program(p, rank); err != nil {
			return err
		}
	}
	return nil
}

// words says both values.
func (c Change) words() string {
	was := c.File
	if was == "" {
		was = "nothing"
	}
	return fmt.Sprintf("%s is %s; the file has %s", c.Field, c.Start, was)
}

// Nodes lists nodes.
type Nodes interface {
	ListNodes(ctx context.Context) (*swarmv1.ListNodesResponse, error)
}

// maxHosts is how many hosts a request names at most.
const maxHosts = 1024

// FindHosts has the request name the hosts that may have members: those of the job, which the swarm must know, or all that take such jobs now.
func (p *Plan) FindHosts(ctx context.Context, api Nodes) error {
	all, err := api.ListNodes(ctx)
	if err != nil {
		return err
	}
	if err := p.nameHosts(all.GetNodes()); err != nil {
		return err
	}
	p.Warned = append(p.Warned, p.roomless(all.GetNodes())...)
	return nil
}

func (p *Plan) nameHosts(nodes []*swarmv1.Node) error {
	runtime := p.runtime()
	var known, up, unfit []string
	for _, n := range nodes {
		if identity.Role(n.GetRole()) != identity.RoleSWOP || n.GetBanned() {
			continue
		}
		known = append(known, n.GetName())
		switch live := n.GetLive() && n.GetOffer() != nil; {
		case live && n.GetOffer().GetJobs() == runtime:
			up = append(up, n.GetName())
		case live:
			unfit = append(unfit, n.GetName())
		}
	}
	if len(p.Request.Hosts) == 0 {
		slices.Sort(up)
		p.Request.Hosts = up[:min(len(up), maxHosts)]
		if len(up) == 0 {
			return exit.New(exit.Conflict, "start one: swarmd run-swop --ml-runtime "+runtime, "no host takes jobs %s now, and the job names none to wait for", runsWords[runtime])
		}
		return nil
	}
	for _, h := range p.Request.GetHosts() {
		switch {
		case !slices.Contains(known, h):
			hint := "see: swarmctl list nodes"
			if near := suggest.Word(h, known); near != "" {
				hint = "did you mean " + near + "?"
			}
			return exit.New(exit.NotFound, hint, "the job is for host %s, and no SWOP of the swarm is called so", h)
		case slices.Contains(unfit, h):
			p.Warned = append(p.Warned, fmt.Sprintf("host %s takes no jobs %s: its SWOP has another --ml-runtime than %s, or is of an older version", h, runsWords[runtime], runtime))
		case !slices.Contains(up, h):
			p.Warned = append(p.Warned, fmt.Sprintf("host %s does not take tasks now: nothing is placed there before it is back", h))
		}
	}
	return nil
}

// How a host runs members of jobs, as it offers.
const (
	asProcesses  = "process"
	inContainers = "docker"
)

// runsWords says how hosts run members of jobs, by their runtime.
var runsWords = map[string]string{asProcesses: "as processes", inContainers: "in containers"}

// runtime is that which hosts must have: for containers if any group has an image.
func (p *Plan) runtime() string {
	for _, g := range p.world.Groups {
		if g.Image != "" {
			return inContainers
		}
	}
	return asProcesses
}

// Facts are what an operator signs.
func (p *Plan) Facts() []tasks.Fact {
	facts := []tasks.Fact{{Name: "JOB", Value: p.Job}, {Name: "TASK", Value: p.Task.Name}, {Name: "DIGEST", Value: p.Request.GetDigest()}}
	for _, c := range p.Changes {
		facts = append(facts, tasks.Fact{Name: "CHANGED", Value: c.words()})
	}
	j := p.world.Expanded()
	facts = append(facts, tasks.JobFacts(p.world)...)
	return append(facts, []tasks.Fact{
		{Name: "DONE", Value: doneWords(p.world.DoneWhen)},
		{Name: "LIVES", Value: lives(j.TTL)},
		{Name: "READY", Value: "within " + jobfile.Duration(j.ReadyTimeout)},
		{Name: "RESTARTS", Value: strconv.Itoa(j.Restarts)},
		{Name: "TIMEOUT", Value: jobfile.Duration(j.Timeout)},
		{Name: "HOSTS", Value: strings.Join(p.Request.GetHosts(), " ")},
		{Name: "EXPIRES", Value: time.UnixMilli(p.Request.GetExpiresUnixMs()).UTC().Format(time.DateTime)},
	}...)
}

// lives is for how long a job lives, if that ends it.
func lives(ttl time.Duration) string {
	if ttl == 0 {
		return ""
	}
	return jobfile.Duration(ttl) + " after all are ready"
}
