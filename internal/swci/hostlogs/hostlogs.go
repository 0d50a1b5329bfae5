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
	"github.com/swarmd/swarmd/internal/jobrequest"
	"github.com/swarmd/swarmd/internal/logs"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/text"
)

// MaxTail bounds the lines that are asked for.
const MaxTail = logs.MaxTail

// MaxFollowed is how many hosts are followed at a time: an SN keeps so many requests of one operator.
const MaxFollowed = 16

// atATime is how many hosts are asked at a time where nothing is followed.
const atATime = 8

// Query is what is asked for.
type Query struct {
	Tail   int
	Follow bool
	// At has ask called with an API that speaks to the SN at an address.
	At func(ctx context.Context, address string, ask func(client.Operator) error) error
	// Around is told why a host that can be dialled did not answer, so that its log comes through SNs. Several goroutines call it.
	Around func(host string, why error)
}

// Log is one that a node has.
type Log struct {
	Node       *swarmv1.Node
	Assignment string              // whose programs have printed it; empty: it is the node's own
	Of         *swarmv1.Assignment // as it was found; nil: it was not looked at
}

// Line is one, as it was printed.
type Line struct {
	Host string
	From string // SL, or member of a job, that has printed it; empty: the host itself
	Text string
}

// Named finds the logs that name means: that of the node of the name, or those of an assignment of the task, or the job, on its hosts; of the last one,
// unless one is named by its ID. What has joined it later is part of it. Who names one needs no right to list nodes or assignments: alone says that
// what has joined it is not known then.
func Named(ctx context.Context, api client.Operator, name, assignment string) (all []Log, alone bool, err error) {
	listed, err := api.ListNodes(ctx)
	if err != nil && !(assignment != "" && barred(err)) {
		return nil, false, err
	}
	nodes := map[string]*swarmv1.Node{}
	for _, n := range listed.GetNodes() {
		nodes[n.GetName()] = n
	}
	if n := nodes[name]; n != nil {
		return []Log{{Node: n, Assignment: assignment}}, false, nil
	}
	if listed == nil {
		a, err := client.Tasks{By: api}.GetAssignment(ctx, assignment)
		if err != nil {
			return nil, false, err
		}
		if !isOf(a, name) {
			l, err := onHost(a, name)
			return []Log{l}, false, err
		}
	}
	parts, alone, err := assigned(ctx, client.Tasks{By: api}, name, assignment)
	if err != nil {
		return nil, false, err
	}
	for _, a := range parts {
		for _, l := range on(a, nodes) {
			if !slices.Contains(all, l) {
				all = append(all, l)
			}
		}
	}
	if len(all) == 0 {
		return nil, false, exit.New(exit.NotFound, "see: swarmctl list taskrunner peers", "assignment %s of task %s is on no host yet", text.Line(parts[0].GetId()), name)
	}
	return all, alone, nil
}

// On are the logs of an assignment on its hosts.
func On(ctx context.Context, api client.Operator, a *swarmv1.Assignment) ([]Log, error) {
	listed, err := api.ListNodes(ctx)
	if err != nil && !barred(err) {
		return nil, err
	}
	nodes := map[string]*swarmv1.Node{}
	for _, n := range listed.GetNodes() {
		nodes[n.GetName()] = n
	}
	return on(a, nodes), nil
}

// on is On where the nodes are known by name. Those that are not are added.
func on(a *swarmv1.Assignment, nodes map[string]*swarmv1.Node) (all []Log) {
	for _, m := range a.GetMembers() {
		at := nodes[m.GetNode()]
		if at == nil {
			at = unlisted(m.GetNode())
			nodes[m.GetNode()] = at
		}
		if l := (Log{at, a.GetId(), a}); !slices.Contains(all, l) {
			all = append(all, l)
		}
	}
	return all
}

// unlisted is a host of which no more is known than that an assignment has it. The SN says what has become of it.
func unlisted(host string) *swarmv1.Node {
	return &swarmv1.Node{Name: host, Role: string(identity.RoleSWOP)}
}

// onHost is an assignment's log at one of its hosts, named by somebody who may not list nodes.
func onHost(a *swarmv1.Assignment, name string) (Log, error) {
	if !slices.ContainsFunc(a.GetMembers(), func(m *swarmv1.AssignmentMember) bool { return m.GetNode() == name }) {
		return Log{}, exit.New(exit.NotFound, "name the task, or one of its hosts; a host that joined it later has an assignment of its own", "assignment %s is of task %s, and %s is none of its hosts", text.Line(a.GetId()), text.Line(a.GetTask()), name)
	}
	return Log{unlisted(name), a.GetId(), a}, nil
}

// isOf reports whether an assignment is of the task or the job of a name.
func isOf(a *swarmv1.Assignment, name string) bool {
	return a.GetTask() == name || jobrequest.JobOf(a.GetTask(), a.GetTaskType()) == name
}

// barred reports whether the swarm's rights keep the caller from something.
func barred(err error) bool { return client.Reason(err) == "NO_RIGHT" }

// assigned returns an assignment of a task, and those that have joined it. It is alone if one is named by its ID by somebody who may not list them.
func assigned(ctx context.Context, api client.Tasks, name, id string) (parts []*swarmv1.Assignment, alone bool, err error) {
	listed, err := api.ListAssignments(ctx)
	if alone = id != "" && barred(err); err != nil && !alone {
		return nil, false, err
	}
	all := listed.GetAssignments()
	for _, a := range slices.Backward(all) {
		if id == "" && isOf(a, name) && a.GetJoins() == "" { // what joined another one is part of that
			id = a.GetId()
		}
	}
	if id == "" {
		return nil, false, exit.New(exit.NotFound, "see: swarmctl list nodes, swarmctl list tasks, swarmctl list jobs", "no node is called %s, and no task or job of that name was assigned", name)
	}
	ids := []string{id}
	for _, a := range all {
		if a.GetJoins() == id {
			ids = append(ids, a.GetId())
		}
	}
	for _, id := range ids {
		a, err := api.GetAssignment(ctx, id)
		if err == nil && !isOf(a, name) {
			err = exit.New(exit.NotFound, "name that task, or a host", "assignment %s is of task %s, not of %s", text.Line(id), text.Line(a.GetTask()), name)
		}
		if err != nil {
			return nil, false, err
		}
		parts = append(parts, a)
	}
	return parts, alone, nil
}

// Read calls fn with the lines of all logs, one call at a time, and returns an error for each that was not handed out whole.
func (q Query) Read(ctx context.Context, api client.Operator, found []Log, fn func(Line)) (failed []error) {
	if q.Follow && len(found) > MaxFollowed {
		return []error{exit.New(exit.Usage, "follow one of them: swarmctl get logs HOST --assignment "+text.Line(found[0].Assignment)+" -f", "at most %d hosts are followed at a time, and these are %d", MaxFollowed, len(found))}
	}
	direct := &client.Direct{By: api}
	defer direct.Close()
	var mu sync.Mutex
	var all errgroup.Group
	all.SetLimit(atATime)
	if q.Follow {
		all.SetLimit(MaxFollowed)
	}
	for _, l := range found {
		all.Go(func() error {
			err := q.readOf(ctx, direct, l, func(lines []*swarmv1.LogLine) error {
				mu.Lock()
				defer mu.Unlock()
				for _, x := range lines {
					fn(Line{Host: l.Node.GetName(), From: x.GetFrom(), Text: strings.TrimSuffix(x.GetText(), "\r")})
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

// readOf reads one log: directly if its node has a file server for logs, else through SNs.
func (q Query) readOf(ctx context.Context, direct *client.Direct, l Log, fn func([]*swarmv1.LogLine) error) error {
	n := l.Node
	role := identity.Role(n.GetRole())
	part := func() *swarmv1.LogPart {
		return &swarmv1.LogPart{Assignment: l.Assignment, Tail: uint32(q.Tail), Follow: q.Follow} //nolint:gosec // at most MaxTail
	}
	read := func(api client.Operator) error {
		return client.Logs{By: api, Node: n.GetName(), Role: role}.Read(ctx, part(), fn)
	}
	switch {
	case role == identity.RoleSWOP && n.GetFsPort() != 0:
		began, err := client.Logs{By: direct.By, Node: n.GetName(), Role: role}.ReadFrom(ctx, direct, n, part(), fn)
		if began || ctx.Err() != nil {
			return err
		}
		q.Around(n.GetName(), err)
		return read(direct.By)
	case role != identity.RoleSN:
		return read(direct.By)
	case l.Assignment != "":
		return exit.New(exit.Usage, "name its task, or one of its hosts", "%s is an SN, and carries out no tasks", n.GetName())
	}
	return q.itself(ctx, n, read)
}

// itself has read called with an API that speaks to an SN itself.
func (q Query) itself(ctx context.Context, sn *swarmv1.Node, read func(client.Operator) error) error {
	address := sn.GetApiService()
	if address == "" {
		address = net.JoinHostPort(sn.GetHost(), strconv.FormatUint(uint64(sn.GetApiPort()), 10))
	}
	if err := q.At(ctx, address, read); err != nil {
		return fmt.Errorf("ask %s itself, at %s: %w", sn.GetName(), text.Line(address), err)
	}
	return nil
}
