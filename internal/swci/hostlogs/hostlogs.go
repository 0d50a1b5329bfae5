// Package hostlogs reads logs of nodes and tasks from the hosts that have them.
package hostlogs

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/logs"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/text"
)

// MaxTail bounds the lines that are asked for.
const MaxTail = logs.MaxTail

// maxFollowed is how many hosts are followed at a time: an SN keeps so many requests of one operator.
const maxFollowed = 16

// atATime is how many hosts are asked at a time where nothing is followed.
const atATime = 8

// Query is what is asked for.
type Query struct {
	Assignment string // ID; empty: the logs of the nodes themselves
	Tail       int
	Follow     bool
	// At has ask called with an API that speaks to the SN at an address.
	At func(ctx context.Context, address string, ask func(client.Operator) error) error
}

// Line is one, as it was printed.
type Line struct {
	Host string
	From string // SL that has printed it; empty: the host itself
	Text string
}

// Hosts finds who has what name means: the node of the name, or the hosts of an assignment of the task; of the last one, unless one is named.
func Hosts(ctx context.Context, api client.Operator, name, assignment string) (hosts []*swarmv1.Node, id string, err error) {
	listed, err := api.ListNodes(ctx)
	if err != nil {
		return nil, "", err
	}
	nodes := listed.GetNodes()
	called := func(name string) []*swarmv1.Node {
		i := slices.IndexFunc(nodes, func(n *swarmv1.Node) bool { return n.GetName() == name })
		if i < 0 {
			return nil
		}
		return nodes[i : i+1]
	}
	if hosts = called(name); hosts != nil {
		return hosts, assignment, nil
	}
	a, err := assigned(ctx, client.Tasks{By: api}, name, assignment)
	if err != nil {
		return nil, "", err
	}
	for _, m := range a.GetMembers() {
		on := called(m.GetNode())
		if on == nil {
			on = []*swarmv1.Node{{Name: m.GetNode(), Role: string(identity.RoleSWOP)}} // the SN says what has become of it
		}
		if !slices.ContainsFunc(hosts, func(n *swarmv1.Node) bool { return n.GetName() == m.GetNode() }) {
			hosts = append(hosts, on[0])
		}
	}
	if len(hosts) == 0 {
		return nil, "", exit.New(exit.NotFound, "see: swarmctl list taskrunner peers", "assignment %s of task %s is on no host yet", text.Line(a.GetId()), name)
	}
	return hosts, a.GetId(), nil
}

// assigned returns an assignment of a task.
func assigned(ctx context.Context, api client.Tasks, name, id string) (*swarmv1.Assignment, error) {
	if id == "" {
		all, err := api.ListAssignments(ctx)
		if err != nil {
			return nil, err
		}
		for _, a := range slices.Backward(all) {
			if a.GetTask() == name && a.GetJoins() == "" { // what joined another one is read by its own ID
				id = a.GetId()
				break
			}
		}
	}
	if id == "" {
		return nil, exit.New(exit.NotFound, "see: swarmctl list nodes, swarmctl list tasks", "no node is called %s, and no task of that name was assigned", name)
	}
	a, err := api.GetAssignment(ctx, id)
	if err == nil && a.GetTask() != name {
		err = exit.New(exit.NotFound, "name that task, or a host", "assignment %s is of task %s, not of %s", text.Line(id), text.Line(a.GetTask()), name)
	}
	return a, err
}

// Read calls fn with the lines of all hosts, one call at a time, and returns an error for each host that has not handed out all.
func (q Query) Read(ctx context.Context, api client.Operator, hosts []*swarmv1.Node, fn func(Line)) (failed []error) {
	if q.Follow && len(hosts) > maxFollowed {
		return []error{exit.New(exit.Usage, "follow one of them: swarmctl get logs HOST --assignment "+text.Line(q.Assignment)+" -f", "at most %d hosts are followed at a time, and these are %d", maxFollowed, len(hosts))}
	}
	var mu sync.Mutex
	var all errgroup.Group
	all.SetLimit(atATime)
	if q.Follow {
		all.SetLimit(maxFollowed)
	}
	for _, n := range hosts {
		all.Go(func() error {
			err := q.readOf(ctx, api, n, func(lines []*swarmv1.LogLine) error {
				mu.Lock()
				defer mu.Unlock()
				for _, l := range lines {
					fn(Line{Host: n.GetName(), From: l.GetFrom(), Text: strings.TrimSuffix(l.GetText(), "\r")})
				}
				return nil
			})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = append(failed, err)
			}
			return nil
		})
	}
	_ = all.Wait() // errors are gathered
	return failed
}

// readOf reads the log of one node.
func (q Query) readOf(ctx context.Context, api client.Operator, n *swarmv1.Node, fn func([]*swarmv1.LogLine) error) error {
	read := func(api client.Operator) error {
		part := &swarmv1.LogPart{Assignment: q.Assignment, Tail: uint32(q.Tail), Follow: q.Follow} //nolint:gosec // at most MaxTail
		return client.Logs{By: api, Node: n.GetName(), Role: identity.Role(n.GetRole())}.Read(ctx, part, fn)
	}
	switch {
	case identity.Role(n.GetRole()) != identity.RoleSN:
		return read(api)
	case q.Assignment != "":
		return exit.New(exit.Usage, "name its task, or one of its hosts", "%s is an SN, and carries out no tasks", n.GetName())
	}
	address := n.GetApiService()
	if address == "" {
		address = net.JoinHostPort(n.GetHost(), strconv.FormatUint(uint64(n.GetApiPort()), 10))
	}
	if err := q.At(ctx, address, read); err != nil {
		return fmt.Errorf("ask %s itself, at %s: %w", n.GetName(), text.Line(address), err)
	}
	return nil
}
