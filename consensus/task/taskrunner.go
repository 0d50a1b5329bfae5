package task

import "github.com/swarmd/swarmd/identity/naming"

// DefaultTaskrunner exists in every swarm from the start.
const DefaultTaskrunner = "defaulttaskbb.taskdb.sml.hpe"

// Taskrunner is a name that holds at most one live assignment.
type Taskrunner struct {
	Name string `json:"name"`
	// Assignment is the ID of the last one, live or over; empty: it is idle.
	Assignment string `json:"assignment,omitempty"`
	CreatedMS  int64  `json:"created_ms"`
	// Reset says that it becomes idle when nothing of it is live any more: it was reset when its assignment had its verdict already.
	Reset bool `json:"reset,omitempty"`
}

// Taskrunner returns a taskrunner by name, the default one also if it was never used, or nil.
func (b *Board) Taskrunner(name string) *Taskrunner {
	if r := b.Whole().Taskrunners[name]; r != nil {
		return r
	}
	if name == DefaultTaskrunner {
		return &Taskrunner{Name: name}
	}
	return nil
}

// AssignmentOf returns the last assignment of a taskrunner, or nil: it is idle, or there is no such taskrunner.
func (b *Board) AssignmentOf(taskrunner string) *Assignment {
	if r := b.Whole().Taskrunners[taskrunner]; r != nil {
		return b.Assignments[r.Assignment]
	}
	return nil
}

// hasTaskrunner refuses a name that no taskrunner has.
func (b *Board) hasTaskrunner(name string) error {
	if b.Taskrunner(name) != nil {
		return nil
	}
	return illegal(Unknown, "see: swarmctl list taskrunners", "no taskrunner %s", clipped(name))
}

// busy refuses while the taskrunner has a live assignment.
func (b *Board) busy(name string) error {
	for _, id := range b.LiveIDs() {
		if a := b.Assignments[id]; a.Taskrunner == name {
			return illegal(Busy, "wait for it: swarmctl wait for taskrunner "+name+", or end it: swarmctl reset taskrunner "+name,
				"taskrunner %s is busy: assignment %s of task %s is %s", name, a.ID, a.Task, a.Phase)
		}
	}
	return nil
}

// CreateTaskrunner adds a taskrunner. One that is there stays as it is.
func (b *Board) CreateTaskrunner(name string, atMS int64) (*Board, error) {
	if !naming.ValidContract(name) {
		return b, illegal(Bad, "use 1 to 128 of A-Z a-z 0-9 . _ -", "bad taskrunner name %s", clipped(name))
	}
	if b.Taskrunner(name) != nil {
		return b, nil
	}
	if n := len(b.Whole().Taskrunners); n >= MaxTaskrunners {
		return b, illegal(Full, "delete taskrunners that are no longer used: swarmctl delete taskrunner NAME", "the swarm has %d taskrunners already", n)
	}
	next := b.draft()
	next.Taskrunners[name] = &Taskrunner{Name: name, CreatedMS: atMS}
	return next, nil
}

// ResetTaskrunner makes a taskrunner idle. A live assignment is cancelled; the taskrunner is idle as soon as it is over.
func (b *Board) ResetTaskrunner(name, why string, atMS int64) (*Board, error) {
	if err := b.hasTaskrunner(name); err != nil {
		return b, err
	}
	a := b.AssignmentOf(name)
	if a == nil {
		return b, nil
	}
	if !a.Live() && len(Joined(b, a.ID)) == 0 {
		next := b.draft()
		next.setAssignment(name, "")
		return next, nil
	}
	next, err := b.Cancel(a.ID, why, atMS)
	if r := b.Taskrunners[name]; err == nil && !a.Open() && a.Verdict != Cancelled && !r.Reset {
		next = next.draft()
		set := *r
		set.Reset = true
		next.Taskrunners[name] = &set
	}
	return next, err
}

// setAssignment works on a draft.
func (b *Board) setAssignment(taskrunner, id string) {
	if r := b.Taskrunner(taskrunner); r != nil {
		set := *r
		set.Assignment, set.Reset = id, false
		b.Taskrunners[taskrunner] = &set
	}
}

// DeleteTaskrunner removes a taskrunner that is not busy; one that is gone already stays so.
func (b *Board) DeleteTaskrunner(name string) (*Board, error) {
	if name == DefaultTaskrunner {
		return b, illegal(InUse, "make it idle: swarmctl reset taskrunner "+name, "taskrunner %s belongs to every swarm and can't be deleted", name)
	}
	if b.Taskrunner(name) == nil {
		return b, nil
	}
	if err := b.busy(name); err != nil {
		return b, err
	}
	next := b.draft()
	delete(next.Taskrunners, name)
	return next, nil
}
