package state

import (
	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/task"
)

// PartOfHost is a host's part in an assignment, on which an operator has a word.
type PartOfHost struct {
	Assignment string        `json:"assignment"`
	Task       string        `json:"task"`
	Digest     string        `json:"digest"`
	Taskrunner string        `json:"taskrunner,omitempty"`
	Host       string        `json:"host"`
	By         string        `json:"by,omitempty"` // SPIFFE ID of the operator
	AtMS       int64         `json:"at_ms"`
	Order      *ledger.Order `json:"order,omitempty"`
}

// OrderOf implements Ordered.
func (p PartOfHost) OrderOf() *ledger.Order { return p.Order }

// approval is the word as hosts see it.
func (p PartOfHost) approval() task.Approval {
	return task.Approval{Host: p.Host, By: p.By, AtMS: p.AtMS, Order: p.Order}
}

func (p PartOfHost) hear(s *State, word task.Approval) (Result, error) {
	of := task.Request{ID: p.Assignment, Task: p.Task, Digest: p.Digest, Taskrunner: p.Taskrunner}
	return onBoard(s, func(b *task.Board) (*task.Board, error) { return b.Approve(of, word) })
}

func (p PartOfHost) body() ledger.Approval {
	return ledger.Approval{Assignment: p.Assignment, Task: p.Task, Digest: p.Digest, Host: p.Host, By: p.By, Order: p.Order}
}

// ApproveTask is an operator's word that a host may carry out an assignment. Its host alone decides whether that counts.
type ApproveTask struct {
	PartOfHost
}

// Type implements Command.
func (ApproveTask) Type() string { return "approve_task" }

func (c ApproveTask) apply(s *State) (Result, error) { return c.hear(s, c.approval()) }

func (c ApproveTask) records(_, _ *State) (int64, []ledger.Body) {
	return c.AtMS, []ledger.Body{c.body()}
}

// RefuseTask is an operator's word that a host is not to carry out an assignment.
type RefuseTask struct {
	PartOfHost

	Reason string `json:"reason,omitempty"`
}

// Type implements Command.
func (RefuseTask) Type() string { return "refuse_task" }

func (c RefuseTask) apply(s *State) (Result, error) {
	word := c.approval()
	word.Refuse, word.Reason = true, c.Reason
	return c.hear(s, word)
}

func (c RefuseTask) records(_, _ *State) (int64, []ledger.Body) {
	body := c.body()
	body.Refused, body.Reason = true, c.Reason
	return c.AtMS, []ledger.Body{body}
}
