package tasks

import (
	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/state"
)

// Asked returns an empty request of each method that an operator signs.
func Asked() []Asking {
	return []Asking{
		&swarmv1.CreateTaskRequest{}, &swarmv1.EditTaskRequest{}, &swarmv1.FinaliseTaskRequest{}, &swarmv1.DeleteTaskRequest{},
		&swarmv1.CreateTaskrunnerRequest{}, &swarmv1.DeleteTaskrunnerRequest{},
	}
}

// Command makes the command of a signed request; nil: it is none of [Asked].
func Command(m Asking, o *ledger.Order, atMS int64) state.Command {
	switch m := m.(type) {
	case *swarmv1.CreateTaskRequest:
		return state.CreateTask{
			Task: m.GetName(), TaskType: m.GetType(), Author: m.GetAuthor(), Prereq: m.GetPrereq(), Outcome: m.GetOutcome(), CreatedBy: o.By, AtMS: atMS, Order: o,
		}
	case *swarmv1.EditTaskRequest:
		return state.EditTask{Task: m.GetName(), Line: m.GetLine(), Text: []byte(m.GetText()), AtMS: atMS, Order: o}
	case *swarmv1.FinaliseTaskRequest:
		return state.FinaliseTask{Task: m.GetName(), Digest: m.GetDigest(), AtMS: atMS, Order: o}
	case *swarmv1.DeleteTaskRequest:
		return state.DeleteTask{Task: m.GetName(), Force: m.GetForce(), AtMS: atMS, Order: o}
	case *swarmv1.CreateTaskrunnerRequest:
		return state.CreateTaskrunner{Taskrunner: m.GetName(), AtMS: atMS, Order: o}
	case *swarmv1.DeleteTaskrunnerRequest:
		return state.DeleteTaskrunner{Taskrunner: m.GetName(), AtMS: atMS, Order: o}
	}
	return nil
}
