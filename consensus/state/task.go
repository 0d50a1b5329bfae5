package state

import (
	"errors"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/identity/naming"
)

// onBoard makes a step with the tasks of a draft.
func onBoard(s *State, step func(*task.Board) (*task.Board, error)) (Result, error) {
	next, err := step(s.Tasks)
	if refused, ok := errors.AsType[*task.Refusal](err); ok {
		return Result{}, &Error{Reason: reasonOf(refused.Cause), Message: refused.Message, Remedy: refused.Remedy}
	}
	if err != nil || next == s.Tasks {
		return Result{}, err
	}
	s.Tasks = next
	return Result{Changed: true}, nil
}

// reasonOf is the stable name of why a step with tasks was refused.
func reasonOf(c task.Cause) string {
	return map[task.Cause]string{
		task.Unknown: ReasonTaskUnknown, task.Taken: ReasonTaskTaken, task.Finalised: ReasonTaskFinal, task.Unfinished: ReasonTaskOpen, task.InUse: ReasonTaskInUse,
		task.Busy: ReasonTaskrunnerBusy, task.Stale: ReasonStaleTask, task.Full: ReasonTasksFull, task.Bad: ReasonBadCommand,
	}[c]
}

// weighTasks counts what tasks, taskrunners and assignments take, but for what is between them.
func (c *counter) weighTasks(old, now *task.Board) {
	if old == now {
		return
	}
	old, now = old.Whole(), now.Whole()
	replace(c, changes(old.Tasks, now.Tasks))
	replace(c, changes(old.Taskrunners, now.Taskrunners))
	replace(c, changes(old.Assignments, now.Assignments))
}

// taskCommas are those between what weighTasks counts.
func taskCommas(b *task.Board) int {
	b = b.Whole()
	return commas(len(b.Tasks)) + commas(len(b.Taskrunners)) + commas(len(b.Assignments))
}

// CreateTask makes a task, whose definition EditTask writes.
type CreateTask struct {
	Task      string        `json:"task"`
	TaskType  string        `json:"task_type"`
	Author    string        `json:"author,omitempty"`
	Prereq    string        `json:"prereq"`
	Outcome   string        `json:"outcome,omitempty"`
	CreatedBy string        `json:"by,omitempty"` // SPIFFE ID
	AtMS      int64         `json:"at_ms"`
	Order     *ledger.Order `json:"order,omitempty"`
	// Jobs has RUN_JOB be a type of tasks. Entries of before have it not, and a task of that type was refused.
	Jobs bool `json:"jobs,omitempty"`
}

// Type implements Command.
func (CreateTask) Type() string { return "create_task" }

func (c CreateTask) apply(s *State) (Result, error) {
	if c.TaskType == task.RunJob && !c.Jobs {
		return Result{}, reject(ReasonBadCommand, "", "task %s has the unknown type %s", clip(c.Task, 128), c.TaskType)
	}
	return onBoard(s, func(b *task.Board) (*task.Board, error) {
		return b.CreateTask(task.Task{
			Name: c.Task, Type: c.TaskType, Author: c.Author, Prereq: c.Prereq, Outcome: c.Outcome, By: c.CreatedBy, CreatedMS: c.AtMS,
		})
	})
}

func (c CreateTask) records(_, _ *State) (int64, []ledger.Body) {
	return c.AtMS, []ledger.Body{ledger.Task{Task: c.Task, Type: c.TaskType, By: c.CreatedBy, Order: c.Order}}
}

// OrderOf implements Ordered.
func (c CreateTask) OrderOf() *ledger.Order { return c.Order }

// EditTask writes lines of a task that is not finalised. The ledger has what they came to, as a digest, when it is.
type EditTask struct {
	Task  string        `json:"task"`
	Line  uint32        `json:"line"` // the first that is written, from 1
	Text  []byte        `json:"text"` // lines, divided by line feeds
	AtMS  int64         `json:"at_ms"`
	Order *ledger.Order `json:"order,omitempty"`
}

// Type implements Command.
func (EditTask) Type() string { return "edit_task" }

func (e EditTask) apply(s *State) (Result, error) {
	return onBoard(s, func(b *task.Board) (*task.Board, error) { return b.EditTask(e.Task, e.Line, e.Text) })
}

// OrderOf implements Ordered.
func (e EditTask) OrderOf() *ledger.Order { return e.Order }

// FinaliseTask fixes a task.
type FinaliseTask struct {
	Task   string        `json:"task"`
	Digest string        `json:"digest,omitempty"` // what the task must come to; empty: whatever it does
	AtMS   int64         `json:"at_ms"`
	Order  *ledger.Order `json:"order,omitempty"`
}

// Type implements Command.
func (FinaliseTask) Type() string { return "finalise_task" }

func (f FinaliseTask) apply(s *State) (Result, error) {
	return onBoard(s, func(b *task.Board) (*task.Board, error) { return b.FinaliseTask(f.Task, f.Digest, f.AtMS) })
}

func (f FinaliseTask) records(_, next *State) (int64, []ledger.Body) {
	return f.AtMS, []ledger.Body{ledger.FinalTask{Task: f.Task, Digest: next.Tasks.Task(f.Task).Digest, Order: f.Order}}
}

// OrderOf implements Ordered.
func (f FinaliseTask) OrderOf() *ledger.Order { return f.Order }

// DeleteTask removes a task.
type DeleteTask struct {
	Task  string        `json:"task"`
	Force bool          `json:"force,omitempty"` // also if it is finalised
	AtMS  int64         `json:"at_ms"`
	Order *ledger.Order `json:"order,omitempty"`
}

// Type implements Command.
func (DeleteTask) Type() string { return "delete_task" }

func (d DeleteTask) apply(s *State) (Result, error) {
	return onBoard(s, func(b *task.Board) (*task.Board, error) { return b.DeleteTask(d.Task, d.Force) })
}

func (d DeleteTask) records(old, _ *State) (int64, []ledger.Body) {
	return d.AtMS, []ledger.Body{ledger.DeletedTask{Task: d.Task, Digest: old.Tasks.Task(d.Task).Digest, Order: d.Order}}
}

// OrderOf implements Ordered.
func (d DeleteTask) OrderOf() *ledger.Order { return d.Order }

// CreateTaskrunner makes a taskrunner; one that is there stays as it is.
type CreateTaskrunner struct {
	Taskrunner string        `json:"taskrunner"`
	AtMS       int64         `json:"at_ms"`
	Order      *ledger.Order `json:"order,omitempty"`
}

// Type implements Command.
func (CreateTaskrunner) Type() string { return "create_taskrunner" }

func (c CreateTaskrunner) apply(s *State) (Result, error) {
	return onBoard(s, func(b *task.Board) (*task.Board, error) { return b.CreateTaskrunner(c.Taskrunner, c.AtMS) })
}

// OrderOf implements Ordered.
func (c CreateTaskrunner) OrderOf() *ledger.Order { return c.Order }

// ResetTaskrunner makes a taskrunner idle. Its live assignment, if it has one, is cancelled.
type ResetTaskrunner struct {
	Taskrunner string        `json:"taskrunner"`
	Reason     string        `json:"reason,omitempty"`
	AtMS       int64         `json:"at_ms"`
	Order      *ledger.Order `json:"order,omitempty"`
}

// Type implements Command.
func (ResetTaskrunner) Type() string { return "reset_taskrunner" }

func (r ResetTaskrunner) apply(s *State) (Result, error) {
	return onBoard(s, func(b *task.Board) (*task.Board, error) { return b.ResetTaskrunner(r.Taskrunner, r.Reason, r.AtMS) })
}

func (r ResetTaskrunner) records(old, next *State) (int64, []ledger.Body) {
	return r.AtMS, endedBodies(old.Tasks, next.Tasks, r.Order)
}

// OrderOf implements Ordered.
func (r ResetTaskrunner) OrderOf() *ledger.Order { return r.Order }

// DeleteTaskrunner removes a taskrunner that is not busy.
type DeleteTaskrunner struct {
	Taskrunner string        `json:"taskrunner"`
	AtMS       int64         `json:"at_ms"`
	Order      *ledger.Order `json:"order,omitempty"`
}

// Type implements Command.
func (DeleteTaskrunner) Type() string { return "delete_taskrunner" }

func (d DeleteTaskrunner) apply(s *State) (Result, error) {
	return onBoard(s, func(b *task.Board) (*task.Board, error) { return b.DeleteTaskrunner(d.Taskrunner) })
}

// OrderOf implements Ordered.
func (d DeleteTaskrunner) OrderOf() *ledger.Order { return d.Order }

// member returns the peer ID of a node that may become a member of an assignment; of others nothing.
func member(s *State, node string) string {
	n := s.Nodes[node]
	if n == nil || n.Role != naming.RoleSWOP || !n.Live || s.Bans[n.PeerID] != nil {
		return ""
	}
	return n.PeerID
}
