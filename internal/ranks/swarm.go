package ranks

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/consensus/task/onwire"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/jobrequest"
)

// Swarm is what an SL asks of the swarm's API for its ranks.
type Swarm interface {
	Tasks
	Runs
	ListNodes(ctx context.Context) (*swarmv1.ListNodesResponse, error)
}

// Tasks are the tasks of the swarm; client.Tasks has the methods' documentation, as of Runs.
type Tasks interface {
	CreateTask(ctx context.Context, req *swarmv1.CreateTaskRequest) (*swarmv1.Task, error)
	EditTask(ctx context.Context, name string, line uint32, text string) (*swarmv1.Task, error)
	FinaliseTask(ctx context.Context, name, digest string) (*swarmv1.Task, error)
	DeleteTask(ctx context.Context, name string, force bool) error
	ListTasks(ctx context.Context) ([]*swarmv1.Task, error)
}

// Runs are the assignments of the swarm.
type Runs interface {
	AssignTask(ctx context.Context, req *swarmv1.AssignTaskRequest) (*swarmv1.Assignment, error)
	CancelAssignment(ctx context.Context, id, reason string) (*swarmv1.Assignment, error)
	GetAssignment(ctx context.Context, id string) (*swarmv1.Assignment, error)
	ListAssignments(ctx context.Context) (*swarmv1.ListAssignmentsResponse, error)
}

// At is the swarm of a client, which signs as the SL.
func At(api *client.Client) Swarm {
	return swarm{client.Tasks{By: client.Operator{Client: api}}}
}

type swarm struct{ client.Tasks }

// ListNodes implements Swarm.
func (s swarm) ListNodes(ctx context.Context) (*swarmv1.ListNodesResponse, error) {
	return s.By.ListNodes(ctx)
}

// batch bounds what is written of a task at a time, in bytes.
const batch = 32 << 10

// write has the swarm have a plan's task, and remove those of before.
func (x *planned) write(ctx context.Context, api Tasks) error {
	if err := prune(ctx, api, jobrequest.JobOf(x.task, task.RunJob)); err != nil {
		return err
	}
	if _, err := api.CreateTask(ctx, &swarmv1.CreateTaskRequest{Name: x.task, Type: task.RunJob, Prereq: task.Root}); err != nil {
		return err
	}
	line, text := uint32(1), strings.Builder{}
	at := line
	flush := func() error {
		if text.Len() == 0 {
			return nil
		}
		_, err := api.EditTask(ctx, x.task, line, text.String())
		text.Reset()
		line = at
		return err
	}
	for l := range strings.Lines(string(x.body)) {
		if text.Len()+len(l) > batch {
			if err := flush(); err != nil {
				return err
			}
		}
		text.WriteString(l)
		at++
	}
	if err := flush(); err != nil {
		return err
	}
	_, err := api.FinaliseTask(ctx, x.task, x.digest)
	return err
}

// prune deletes what SLs have made for a job and nobody assigned, or that is over. That of another SL the swarm refuses.
func prune(ctx context.Context, api Tasks, job string) error {
	all, err := api.ListTasks(ctx)
	if err != nil {
		return err
	}
	for _, t := range all {
		id, err := identity.ParseIDString(t.GetBy())
		if err != nil || id.Role() != identity.RoleSL || jobrequest.JobOf(t.GetName(), t.GetType()) != job {
			continue
		}
		if err := api.DeleteTask(ctx, t.GetName(), true); err != nil && client.Reason(err) != state.ReasonNoRight {
			return fmt.Errorf("remove the job of a start before: %w", err)
		}
	}
	return nil
}

// assign hands a plan's task to the hosts that it names, or to all that take such jobs now.
func (x *planned) assign(ctx context.Context, api Swarm, now time.Time) (*swarmv1.Assignment, error) {
	hosts, err := x.hosts(ctx, api)
	if err != nil {
		return nil, err
	}
	q := x.request
	r := &swarmv1.AssignTaskRequest{
		Task: x.task, Digest: x.digest, Hosts: hosts, InOrder: q.InOrder, Retries: q.Retries, TimeoutMs: q.TimeoutMS, ExpiresUnixMs: now.Add(expires).UnixMilli(),
		Done: q.Done, ReadyMs: q.ReadyMS, LivesMs: q.LivesMS, Together: q.Together, GraceMs: q.GraceMS, Stops: q.Stops, Beside: q.Beside,
		Groups: onwire.Request(&q).GetGroups(),
	}
	return api.AssignTask(ctx, r)
}

// How a host runs members of jobs, as it offers.
const (
	asProcesses  = "process"
	inContainers = "docker"
)

// hosts are those that may have ranks.
func (x *planned) hosts(ctx context.Context, api Swarm) (hosts []string, err error) {
	all, err := api.ListNodes(ctx)
	if err != nil {
		return nil, err
	}
	runtime := asProcesses
	if x.world.Groups[0].Image != "" {
		runtime = inContainers
	}
	first, _ := x.world.Beside()
	var far string
	for _, n := range all.GetNodes() {
		named := len(x.request.Hosts) > 0
		switch {
		case identity.Role(n.GetRole()) != identity.RoleSWOP || n.GetBanned():
			continue
		case named && !slices.Contains(x.request.Hosts, n.GetName()):
			continue
		case !named && (!n.GetLive() || n.GetOffer().GetJobs() != runtime || slices.Contains(x.avoid, n.GetName())):
			continue
		}
		hosts = append(hosts, n.GetName())
		if loopback(first.Address) && !loopback(n.GetHost()) {
			far = n.GetName()
		}
	}
	slices.Sort(hosts)
	for _, h := range x.request.Hosts {
		if !slices.Contains(hosts, h) {
			return nil, fmt.Errorf("--rank-host %s: no SWOP of the swarm is called so; see: swarmctl list nodes", h)
		}
	}
	switch {
	case len(hosts) == 0:
		return nil, fmt.Errorf("no host takes ranks now: start one with swarmd run-swop --ml-runtime %s, or name hosts to wait for with --rank-host", runtime)
	case far != "":
		return nil, fmt.Errorf("rank 0 is reached at %s, where host %s finds itself: give this node a --host-ip that hosts reach", first.Address, far)
	}
	return hosts, nil
}

func loopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback() || host == "localhost"
}

// isOver reports whether nothing of an assignment is left on any host.
func isOver(a *swarmv1.Assignment) bool { return a.GetPhase() == string(task.Over) }
