package tasks

import (
	"fmt"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/consensus/task/onwire"
)

// Asked returns an empty request of each method that an operator signs.
func Asked() []Asking {
	return []Asking{
		&swarmv1.CreateTaskRequest{}, &swarmv1.EditTaskRequest{}, &swarmv1.FinaliseTaskRequest{}, &swarmv1.DeleteTaskRequest{},
		&swarmv1.CreateTaskrunnerRequest{}, &swarmv1.DeleteTaskrunnerRequest{}, &swarmv1.ResetTaskrunnerRequest{},
		&swarmv1.AssignTaskRequest{}, &swarmv1.CancelAssignmentRequest{}, &swarmv1.ApproveTaskRequest{}, &swarmv1.RefuseTaskRequest{},
	}
}

// Command makes the command of a signed request, by what the leader has of the tasks; nil: it is none of [Asked].
func Command(view *state.State, m Asking, o *ledger.Order, atMS int64) (state.Command, error) {
	switch m := m.(type) {
	case *swarmv1.CreateTaskRequest:
		return state.CreateTask{
			Task: m.GetName(), TaskType: m.GetType(), Author: m.GetAuthor(), Prereq: m.GetPrereq(), Outcome: m.GetOutcome(), CreatedBy: o.By, AtMS: atMS, Order: o,
			Jobs: m.GetType() == task.RunJob, // others keep their bytes
		}, nil
	case *swarmv1.EditTaskRequest:
		return state.EditTask{Task: m.GetName(), Line: m.GetLine(), Text: []byte(m.GetText()), AtMS: atMS, Order: o}, nil
	case *swarmv1.FinaliseTaskRequest:
		return state.FinaliseTask{Task: m.GetName(), Digest: m.GetDigest(), AtMS: atMS, Order: o}, nil
	case *swarmv1.DeleteTaskRequest:
		return state.DeleteTask{Task: m.GetName(), Force: m.GetForce(), AtMS: atMS, Order: o}, nil
	case *swarmv1.CreateTaskrunnerRequest:
		return state.CreateTaskrunner{Taskrunner: m.GetName(), AtMS: atMS, Order: o}, nil
	case *swarmv1.DeleteTaskrunnerRequest:
		return state.DeleteTaskrunner{Taskrunner: m.GetName(), AtMS: atMS, Order: o}, nil
	case *swarmv1.ResetTaskrunnerRequest:
		return state.ResetTaskrunner{Taskrunner: m.GetName(), Reason: onwire.KeptReason(m.GetReason()), AtMS: atMS, Order: o}, nil
	case *swarmv1.AssignTaskRequest:
		return assignTask(view, m, o, atMS)
	case *swarmv1.CancelAssignmentRequest:
		return state.CancelAssignment{Assignment: m.GetId(), Reason: onwire.KeptReason(m.GetReason()), AtMS: atMS, Order: o}, nil
	case *swarmv1.ApproveTaskRequest:
		return approveTask(m, o, atMS)
	case *swarmv1.RefuseTaskRequest:
		return refuseTask(m, o, atMS)
	}
	return nil, nil //nolint:nilnil // as documented
}

// assignTask demands what hosts go by, beside what the state demands: it stands in what was signed. That exits count is in the entries of jobs of which they do,
// so that those of others keep the form that they had.
func assignTask(view *state.State, m *swarmv1.AssignTaskRequest, o *ledger.Order, atMS int64) (state.Command, error) {
	q := onwire.Asked(m)
	q.By = o.By
	bad := func(remedy, format string, args ...any) error {
		return &state.Error{Reason: state.ReasonBadCommand, Message: fmt.Sprintf("assignment %.20q: ", q.ID) + fmt.Sprintf(format, args...), Remedy: remedy}
	}
	switch {
	case q.Digest == "":
		return nil, bad("sign the digest that GetTask returns", "the digest of task %.128q is missing", q.Task)
	case q.ExpiresMS <= 0:
		return nil, bad("sign until when hosts may begin it", "it never expires")
	case q.ExpiresMS <= atMS:
		return nil, bad("set the clocks, or give it more time", "it expired %v ago by this SN's clock", time.Duration(atMS-q.ExpiresMS)*time.Millisecond)
	case q.ExpiresMS-atMS > task.MaxValidMS:
		return nil, bad("sign an expiry of at most 7 days", "no host begins what is valid for %v", time.Duration(q.ExpiresMS-atMS)*time.Millisecond)
	}
	return state.AssignTask{Assignment: q, AtMS: atMS, Order: o, Whole: true, Detailed: true, Strict: true, ExitsCount: q.Stops && mayBeOfOracle(view, q.Task)}, nil
}

// mayBeOfOracle reports whether a task is a job with compat: oci, or is not known here: the state looks at it again.
func mayBeOfOracle(view *state.State, name string) bool {
	t := view.Tasks.Whole().Task(name)
	return t == nil || task.OfOracle(t)
}
