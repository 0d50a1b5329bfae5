package tasks

import (
	"context"
	"slices"
	"strings"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/text"
)

// Waiting returns the parts of a host in assignments of a task that wait on it, those first that were made first, and the assignments. With
// a digest the task of all of them must have it.
func Waiting(ctx context.Context, api client.Tasks, task, host, digest string) (parts []*swarmv1.PartOfHost, of []*swarmv1.Assignment, err error) {
	all, err := api.ListAssignments(ctx)
	if err != nil {
		return nil, nil, err
	}
	var hosts []string
	for _, short := range all {
		if short.GetTask() != task || short.GetVerdict() != "" {
			continue
		}
		a, err := api.GetAssignment(ctx, short.GetId())
		if err != nil {
			return nil, nil, err
		}
		waits := asked(a)
		hosts = append(hosts, waits...)
		if !slices.Contains(waits, host) {
			continue
		}
		if digest != "" && a.GetDigest() != digest {
			return nil, nil, exit.New(exit.Conflict, "read the task again: swarmctl get task body "+text.Line(task),
				"assignment %s is of a task with the digest %s, not %s", text.Line(a.GetId()), text.Line(a.GetDigest()), digest)
		}
		of = append(of, a)
		parts = append(parts, &swarmv1.PartOfHost{
			Assignment: a.GetId(), Task: a.GetTask(), Digest: a.GetDigest(), Taskrunner: a.GetTaskrunner(), Host: host, ExpiresUnixMs: a.GetExpiresUnixMs(),
		})
	}
	if len(parts) > 0 {
		return parts, of, nil
	}
	if slices.Sort(hosts); len(hosts) > 0 {
		names := slices.Compact(hosts)
		return nil, nil, exit.New(exit.NotFound, "it waits on "+text.Line(strings.Join(names[:min(len(names), 16)], ", ")), "nothing of task %s waits on %s", task, host)
	}
	return nil, nil, exit.New(exit.NotFound, "see which tasks there are: swarmctl list tasks", "nothing of task %s waits on any host", task)
}

// asked are the hosts that have not begun with an assignment.
func asked(a *swarmv1.Assignment) (hosts []string) {
	for _, m := range a.GetMembers() {
		if m.GetState() == "placed" || m.GetState() == "asked" {
			hosts = append(hosts, m.GetNode())
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}
