package state

import (
	"maps"
	"slices"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/task"
)

// AssignTask hands a finalised task to hosts. An ID that was used before changes nothing.
type AssignTask struct {
	Assignment task.Request  `json:"assignment"`
	AtMS       int64         `json:"at_ms"`
	Order      *ledger.Order `json:"order,omitempty"`
	// Whole has the ledger keep groups, retries, time-out and expiry. Entries of before have it not, and records of other bytes.
	Whole bool `json:"whole,omitempty"`
	// Detailed has it keep what the assignment joins, and of members their groups, which entries of before do not.
	Detailed bool `json:"detailed,omitempty"`
	// Strict has a host be one member of it, and what has succeeded be judged so, which entries of before do not.
	Strict bool `json:"strict,omitempty"`
	// ExitsCount has members' exit codes count once a job with compat: oci is asked to end, which entries of before do not.
	ExitsCount bool `json:"exits_count,omitempty"`
}

// Type implements Command.
func (AssignTask) Type() string { return "assign_task" }

func (a AssignTask) apply(s *State) (Result, error) {
	return onBoard(s, func(b *task.Board) (*task.Board, error) {
		next, err := b.Assign(a.Assignment, a.Order, a.AtMS)
		if err == nil && next != b.Whole() {
			made := next.Assignments[a.Assignment.ID] // here, and nobody else has it yet
			made.Detailed, made.Strict = a.Detailed, a.Strict
			if a.ExitsCount {
				task.CountExits(next, made)
			}
		}
		return next, err
	})
}

func (a AssignTask) records(_, next *State) (int64, []ledger.Body) {
	made := next.Tasks.Assignments[a.Assignment.ID]
	q := made.Request
	body := ledger.Assigned{
		Assignment: q.ID, Task: q.Task, Digest: q.Digest, Taskrunner: q.Taskrunner, Hosts: q.Hosts, By: q.By, Order: a.Order,
	}
	if a.Whole {
		body.InOrder, body.Retries, body.TimeoutMS, body.ExpiresMS = q.InOrder, q.Retries, q.TimeoutMS, q.ExpiresMS
		for _, g := range q.Groups {
			body.Groups = append(body.Groups, ledger.Group(g))
		}
	}
	if made.Detailed {
		body.Joins = q.Joins
	}
	body.JobTerms = ledger.JobTerms(q.JobTerms)
	return a.AtMS, []ledger.Body{body}
}

// OrderOf implements Ordered.
func (a AssignTask) OrderOf() *ledger.Order { return a.Order }

// CancelAssignment ends an assignment that has no verdict yet.
type CancelAssignment struct {
	Assignment string        `json:"assignment"`
	Reason     string        `json:"reason,omitempty"`
	AtMS       int64         `json:"at_ms"`
	Order      *ledger.Order `json:"order,omitempty"`
}

// Type implements Command.
func (CancelAssignment) Type() string { return "cancel_assignment" }

func (c CancelAssignment) apply(s *State) (Result, error) {
	return onBoard(s, func(b *task.Board) (*task.Board, error) { return b.Cancel(c.Assignment, c.Reason, c.AtMS) })
}

func (c CancelAssignment) records(old, next *State) (int64, []ledger.Body) {
	return c.AtMS, endedBodies(old.Tasks, next.Tasks, c.Order)
}

// OrderOf implements Ordered.
func (c CancelAssignment) OrderOf() *ledger.Order { return c.Order }

// MoveAssignments are the leader's next steps with assignments, and what has become of their members since the last ones.
type MoveAssignments struct {
	Moves []task.Move `json:"moves"`
	AtMS  int64       `json:"at_ms"`
}

// Type implements Command.
func (MoveAssignments) Type() string { return "move_assignments" }

func (m MoveAssignments) apply(s *State) (Result, error) {
	return onBoard(s, func(b *task.Board) (*task.Board, error) {
		return b.Move(m.Moves, func(node string) string { return member(s, node) }, m.AtMS)
	})
}

func (m MoveAssignments) records(old, next *State) (int64, []ledger.Body) {
	return m.AtMS, endedBodies(old.Tasks, next.Tasks, nil)
}

// endedBodies returns which assignments got their verdict between two boards, by whose order; nil: the leader judged.
func endedBodies(old, next *task.Board, order *ledger.Order) (bodies []ledger.Body) {
	if old == next {
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(next.Assignments)) {
		a, was := next.Assignments[id], old.Assignments[id]
		if a.Open() || was == nil || !was.Open() {
			continue
		}
		body := ledger.EndedAssignment{Assignment: id, Task: a.Task, Digest: a.Digest, Verdict: string(a.Verdict), Reason: a.Reason, Order: order, End: string(a.End), Withdrawn: a.LastEnd != ""}
		if a.Detailed {
			body.Epoch = a.Epoch
		}
		for _, m := range a.Members {
			one := ledger.Member{Node: m.Node, PeerID: m.PeerID, State: string(m.State), Code: m.Code}
			if a.Detailed {
				one.Group, one.Peers, one.Signature, one.Asks = m.Group, m.Peers, m.Signature, m.Asks
			}
			body.Members = append(body.Members, one)
		}
		if a.Detailed {
			body.Asked = askedBefore(a)
		}
		bodies = append(bodies, body)
	}
	return bodies
}

// askedBefore is what a host has signed that asked for the end of a job, where no member says so with what became of it; nil: there is nothing to add.
func askedBefore(a *task.Assignment) *ledger.Asked {
	if a.End != task.EndStopFile || a.Asked == (task.AskedEnd{}) || slices.ContainsFunc(a.Members, func(m task.Member) bool { return m.Asks == task.AskStop }) {
		return nil
	}
	return &ledger.Asked{Member: a.Asked.Member, State: string(a.Asked.State), Code: a.Asked.Code, Signature: a.Asked.Signature}
}
