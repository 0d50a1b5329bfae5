package tasks

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/jobrequest"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// Whom are the hosts that an assignment is for.
type Whom struct {
	Peers  uint32 // so many peers; 0: see below
	Target string // name or peer ID of one host; empty, and no number: all that listen
}

// ParseWhom reads what follows the taskrunner: with N peers, with all peers, or target NODE.
func ParseWhom(words []string) (w Whom, err error) {
	const forms = "write: with N peers, with all peers, or target NODE"
	usage := exit.New(exit.Usage, forms, "%q does not say who is to carry out the task", strings.Join(words, " "))
	switch {
	case len(words) == 0:
		return w, exit.New(exit.Usage, forms, "who is to carry out the task is not said")
	case len(words) == 2 && strings.EqualFold(words[0], "target"):
		return Whom{Target: words[1]}, nil
	case len(words) != 3 || !strings.EqualFold(words[0], "with") || !strings.EqualFold(words[2], "peers") && !strings.EqualFold(words[2], "peer"):
		return w, usage
	case strings.EqualFold(words[1], "all"):
		return Whom{}, nil
	}
	n, err := strconv.ParseUint(words[1], 10, 32)
	if err != nil || n == 0 || n > math.MaxInt32 {
		return w, exit.New(exit.Usage, "give a number from 1, or: with all peers", "%.80q is no number of peers", words[1])
	}
	return Whom{Peers: uint32(n)}, nil
}

// Swarm is what is asked before a task is assigned.
type Swarm interface {
	Reader
	ListNodes(ctx context.Context) (*swarmv1.ListNodesResponse, error)
	Taskrunners
}

// Plan makes the request for an assignment of a task, as it was shown, to a taskrunner's hosts, which no host begins later than expires.
// listening is for how many peers the hosts count that take tasks from the taskrunner now.
func Plan(ctx context.Context, api Swarm, t *Shown, taskrunner string, w Whom, expires time.Time) (req *swarmv1.AssignTaskRequest, listening uint32, err error) {
	if t.GetType() == jobrequest.TaskType {
		return nil, 0, exit.New(exit.Usage, "start the job: swarmctl run job FILE", "it is a job, which taskrunners don't carry out")
	}
	nodes, err := api.ListNodes(ctx)
	if err != nil {
		return nil, 0, err
	}
	req = &swarmv1.AssignTaskRequest{Task: t.GetName(), Digest: t.Sum, Taskrunner: taskrunner, ExpiresUnixMs: expires.UnixMilli()}
	var names []string
	var target *swarmv1.Node
	for _, n := range nodes.GetNodes() {
		if n.GetOffer().GetTaskrunner() != taskrunner || !n.GetLive() || n.GetBanned() {
			continue
		}
		names = append(names, n.GetName())
		listening += counts(n, t.GetType())
		if w.Target != "" && (n.GetName() == w.Target || n.GetPeerId() == w.Target) {
			target = n
		}
	}
	switch {
	case len(names) == 0:
		return nil, 0, nobody(ctx, api, taskrunner)
	case w.Target != "" && target == nil:
		return nil, listening, exit.New(exit.NotFound, "those that do are: "+strings.Join(names, ", "), "no SWOP %s takes tasks from taskrunner %s", w.Target, taskrunner)
	case target != nil:
		w.Peers, req.Hosts = counts(target, t.GetType()), []string{target.GetName()}
	case w.Peers == 0:
		slices.Sort(names)
		w.Peers, req.Hosts = listening, names
	}
	if target != nil {
		if req.Joins, err = joins(ctx, api, t, taskrunner); err != nil {
			return nil, 0, err
		}
	}
	req.Groups = []*swarmv1.TaskGroup{{Name: "peers", Peers: w.Peers, Least: w.Peers}}
	return req, listening, nil
}

// nobody says why no host takes tasks from a taskrunner: there is none of that name, or no SWOP for it.
func nobody(ctx context.Context, api Taskrunners, taskrunner string) error {
	if _, err := api.GetTaskrunner(ctx, taskrunner); err != nil {
		return fmt.Errorf("look for taskrunner %s: %w", taskrunner, err)
	}
	return exit.New(exit.Conflict, "start one: swarmd run-swop, with a profile that names the taskrunner", "no SWOP takes tasks from taskrunner %s", taskrunner)
}

// joins is the assignment of the task that a taskrunner carries out now, which one more host joins; empty: it does not.
func joins(ctx context.Context, api Taskrunners, t *Shown, taskrunner string) (string, error) {
	r, err := api.GetTaskrunner(ctx, taskrunner)
	if a := r.GetAssignment(); err == nil && (a.GetPhase() == "preparing" || a.GetPhase() == "running") && a.GetDigest() == t.Sum {
		return a.GetId(), nil // while it waits for hosts another one would take one from it
	}
	return "", err
}

// counts is for how many peers a host counts in a task of a type.
func counts(n *swarmv1.Node, taskType string) uint32 {
	if taskType == runSwarm {
		return n.GetOffer().GetPeers()
	}
	return 1
}

// Signs are what an operator signs who has a task carried out, as it was shown, by a request.
func Signs(ctx context.Context, api Reader, t *Shown, req *swarmv1.AssignTaskRequest) ([]Fact, error) {
	before, err := t.Before(ctx, api)
	if err != nil {
		return nil, err
	}
	whom := fmt.Sprintf("%d of taskrunner %s", req.GetGroups()[0].GetPeers(), req.GetTaskrunner())
	if hosts := req.GetHosts(); len(hosts) > 0 {
		whom += ", on " + strings.Join(hosts, " ")
	}
	return append(t.Facts(before), Fact{"PEERS", whom}, Fact{"JOINS", req.GetJoins()}, Fact{"EXPIRES", time.UnixMilli(req.GetExpiresUnixMs()).UTC().Format(time.DateTime)}), nil
}

// runSwarm is the type of tasks in which a host counts for its SLs.
const runSwarm = "RUN_SWARM"
