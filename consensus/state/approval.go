package state

import (
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/task"
)

// ApproveTask is an operator's word on whether a host carries out an assignment. Its host alone decides whether that counts.
type ApproveTask struct {
	Assignment string        `json:"assignment"`
	Task       string        `json:"task"`
	Digest     string        `json:"digest"`
	Taskrunner string        `json:"taskrunner,omitempty"`
	Host       string        `json:"host"`
	Refuse     bool          `json:"refuse,omitempty"`
	Reason     string        `json:"reason,omitempty"`
	By         string        `json:"by,omitempty"` // SPIFFE ID
	AtMS       int64         `json:"at_ms"`
	Order      *ledger.Order `json:"order,omitempty"`
}

// Type implements Command.
func (ApproveTask) Type() string { return "approve_task" }

func (c ApproveTask) apply(s *State) (Result, error) {
	of := task.Request{ID: c.Assignment, Task: c.Task, Digest: c.Digest, Taskrunner: c.Taskrunner}
	return onBoard(s, func(b *task.Board) (*task.Board, error) {
		return b.Approve(of, task.Approval{Host: c.Host, Refuse: c.Refuse, Reason: c.Reason, By: c.By, AtMS: c.AtMS, Order: c.Order})
	})
}

func (c ApproveTask) records(_, _ *State) (int64, []ledger.Body) {
	return c.AtMS, []ledger.Body{ledger.Approval{
		Assignment: c.Assignment, Task: c.Task, Digest: c.Digest, Host: c.Host, Refused: c.Refuse, Reason: c.Reason, By: c.By, Order: c.Order,
	}}
}

// OrderOf implements Ordered.
func (c ApproveTask) OrderOf() *ledger.Order { return c.Order }
