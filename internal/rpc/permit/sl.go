package permit

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/identity"
)

// tasksOfSL bounds the tasks that an SL has at a time: that of the job that it starts now, and some that it has yet to remove.
const tasksOfSL = 4

// Signers are the roles whose requests of a method are taken, beside operators'.
func Signers(method string) []identity.Role {
	if slices.Contains([]string{"CreateTask", "EditTask", "FinaliseTask", "DeleteTask", "AssignTask", "CancelAssignment"}, method) {
		return []identity.Role{identity.RoleSL}
	}
	return nil
}

// checkSL returns why an SL may not have signed a request, or nil: it makes jobs, assigns them as members beside the program that it runs itself,
// ends and deletes them. No sentence lets it do more, and none less: each host's policy decides on its jobs.
func checkSL(view *state.State, who identity.ID, method string, m proto.Message) error {
	by, b := who.String(), view.Tasks.Whole()
	own := func(name string) error {
		if t := b.Task(name); t != nil && t.By != by {
			return denied("task " + name + " is not its own")
		}
		return nil
	}
	switch m := m.(type) {
	case *swarmv1.CreateTaskRequest:
		if m.GetType() != task.RunJob {
			return denied("it makes jobs alone, and no " + m.GetType())
		}
		if b.Task(m.GetName()) == nil && tasksOf(b, by) >= tasksOfSL*shareOf(view, by) {
			return denied("it has enough of them already")
		}
		return own(m.GetName())
	case *swarmv1.EditTaskRequest:
		return own(m.GetName())
	case *swarmv1.FinaliseTaskRequest:
		return own(m.GetName())
	case *swarmv1.DeleteTaskRequest:
		return own(m.GetName())
	case *swarmv1.AssignTaskRequest:
		n := view.Nodes[m.GetBeside()]
		switch {
		case n == nil || n.Role != string(identity.RoleSL) || n.SPIFFEID != by:
			return denied("it assigns jobs beside itself alone")
		case b.Assignments[m.GetId()] == nil && hasRanks(b, n.Name, by):
			return denied("a job of it runs already")
		}
		return own(m.GetTask())
	case *swarmv1.CancelAssignmentRequest:
		if a := b.Assignments[m.GetId()]; a != nil && a.By != by {
			return denied("assignment " + m.GetId() + " is not its own")
		}
		return nil
	}
	return denied("an operator alone may ask for " + method)
}

func tasksOf(b *task.Board, by string) (n int) {
	for _, t := range b.Tasks {
		if t.By == by {
			n++
		}
	}
	return n
}

// shareOf is how many SLs share a SPIFFE ID.
func shareOf(view *state.State, id string) (n int) {
	for _, x := range view.Nodes {
		if x.Role == string(identity.RoleSL) && x.SPIFFEID == id {
			n++
		}
	}
	return n
}

// hasRanks reports whether a job beside an SL, for which that one has asked, is not over.
func hasRanks(b *task.Board, sl, by string) bool {
	return slices.ContainsFunc(b.LiveIDs(), func(id string) bool { a := b.Assignments[id]; return a.Beside == sl && a.By == by })
}

// notBeside returns why nobody but an SL may have signed a request, or nil: that SL alone assigns jobs beside itself.
func notBeside(m proto.Message) error {
	if a, is := m.(*swarmv1.AssignTaskRequest); is && a.GetBeside() != "" {
		return &state.Error{
			Reason:  state.ReasonNoRight,
			Message: fmt.Sprintf("SL %.64q alone may assign a job beside its own program", a.GetBeside()),
			Remedy:  "start the ranks of that SL with run-sl --ranks, or sign the job without it",
		}
	}
	return nil
}

func denied(why string) error {
	return &state.Error{Reason: state.ReasonNoRight, Message: "an SL may start ranks beside its own program, and no more: " + state.ClipWords(why, maxMessage), Remedy: "ask an operator"}
}
