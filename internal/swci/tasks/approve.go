package tasks

import (
	"context"
	"slices"
	"strings"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/text"
)

// Approvals are the calls of who says whether hosts carry out tasks.
type Approvals interface {
	Reader
	ListAssignments(ctx context.Context) (*swarmv1.ListAssignmentsResponse, error)
	GetAssignment(ctx context.Context, id string) (*swarmv1.Assignment, error)
}

// Waits is what of a task waits on a host.
type Waits struct {
	Task  *Shown                // what all of it would carry out
	Facts []Fact                // of the task
	Of    []*swarmv1.Assignment // those first that were made first
	Parts []*swarmv1.PartOfHost // of the host in each of them
}

// Waiting returns the parts of a host in assignments of a task that wait on it. The task is shown too, and all of them must be of the digest
// that it has; with a digest given, it must be that.
func Waiting(ctx context.Context, api Approvals, task, host, digest string) (*Waits, error) {
	all, err := undecided(ctx, api, func(a *swarmv1.Assignment) bool { return a.GetTask() == task })
	if err != nil {
		return nil, err
	}
	w, hosts := &Waits{}, []string(nil)
	for _, a := range all {
		waits := asked(a)
		hosts = append(hosts, waits...)
		if !slices.Contains(waits, host) {
			continue
		}
		w.Of = append(w.Of, a)
		w.Parts = append(w.Parts, &swarmv1.PartOfHost{
			Assignment: a.GetId(), Task: a.GetTask(), Digest: a.GetDigest(), Taskrunner: a.GetTaskrunner(), Host: host, ExpiresUnixMs: a.GetExpiresUnixMs(),
		})
	}
	if len(w.Of) > 0 {
		return w, w.show(ctx, api, task, digest)
	}
	if slices.Sort(hosts); len(hosts) > 0 {
		names := slices.Compact(hosts)
		return nil, exit.New(exit.NotFound, "it waits on "+text.Line(strings.Join(names[:min(len(names), 16)], ", ")), "nothing of task %s waits on %s", task, host)
	}
	return nil, exit.New(exit.NotFound, "see what waits: swarmctl list approvals", "nothing of task %s waits on any host", task)
}

// undecided returns the assignments without a verdict, with their members: those that match.
func undecided(ctx context.Context, api Approvals, match func(*swarmv1.Assignment) bool) (out []*swarmv1.Assignment, err error) {
	all, err := api.ListAssignments(ctx)
	if err != nil {
		return nil, err
	}
	for _, short := range all.GetAssignments() {
		if short.GetVerdict() != "" || !match(short) {
			continue
		}
		a, err := api.GetAssignment(ctx, short.GetId())
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, nil
}

// show fetches the task, and refuses what waits of another.
func (w *Waits) show(ctx context.Context, api Approvals, task, digest string) (err error) {
	for _, a := range w.Of {
		if digest != "" && a.GetDigest() != digest {
			return exit.New(exit.Conflict, "read the task again: swarmctl get task body "+text.Line(task),
				"assignment %s is of a task with the digest %s, not %s", text.Line(a.GetId()), text.Line(a.GetDigest()), digest)
		}
	}
	if w.Task, err = Look(ctx, api, task); err != nil {
		return err
	}
	beside := w.Task.Beside().SL
	for _, a := range w.Of {
		if a.GetTask() != task || a.GetDigest() != w.Task.Sum {
			return exit.New(exit.Failed, otherSN, "the SN shows a task %s with the digest %.12s…, and assignment %s is of %.12s…: nothing is signed",
				task, w.Task.Sum, text.Line(a.GetId()), text.Line(a.GetDigest()))
		}
		if a.GetBeside() != beside {
			return exit.New(exit.Failed, otherSN, "the SN shows assignment %s beside SL %q, and the task that was signed is beside %q: nothing is signed", text.Line(a.GetId()), text.Line(a.GetBeside()), text.Line(beside))
		}
	}
	before, err := w.Task.Before(ctx, api)
	w.Facts = w.Task.Facts(before)
	return err
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

// waitsForApproval begins the words of a host that waits for an operator's: others wait for an engine, or a registry.
const waitsForApproval = "waits for approval"

// Asks is a host's part in an assignment that waits for an operator's word.
type Asks struct {
	Assignment *swarmv1.Assignment
	Member     *swarmv1.AssignmentMember
}

// Asking returns what waits for operators on all hosts: members whose hosts have said whom they ask.
func Asking(ctx context.Context, api Approvals) (out []Asks, err error) {
	all, err := undecided(ctx, api, func(*swarmv1.Assignment) bool { return true })
	for _, a := range all {
		for _, m := range a.GetMembers() {
			if m.GetState() == "asked" && strings.HasPrefix(m.GetText(), waitsForApproval) {
				out = append(out, Asks{a, m})
			}
		}
	}
	return out, err
}
