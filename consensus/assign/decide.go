package assign

import (
	"fmt"
	"slices"
	"time"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
)

// Inputs are everything that a decision depends on. Decide changes nothing in them.
type Inputs struct {
	Now     time.Time
	Since   time.Time // when this node began to lead
	View    *state.State
	Reports map[string]HostReport // by node: what each told last
}

// HostReport is what a host says of the members that it has.
type HostReport struct {
	Node    string // proven by its token and key
	Members []MemberReport
}

// MemberReport is what a host says of one member.
type MemberReport = task.MemberReport

// Decide says which moves to make now: at most one for each assignment, and at most as many as a command may have.
func Decide(in Inputs) []task.Move {
	d := &decision{in: in, board: in.View.Tasks.Whole(), room: task.MaxReports}
	d.busy = d.busyHosts()
	var moves []task.Move
	for _, id := range d.board.LiveIDs() {
		if m := d.move(d.board.Assignments[id]); len(m.Reports) > 0 || m.Do != "" {
			moves = append(moves, m)
		}
	}
	return moves
}

// decision is one of them in the making.
type decision struct {
	in    Inputs
	board *task.Board
	busy  map[string]string // hosts with members that may still run, and the assignment of these
	room  int               // how many reports the command has room for
}

func (d *decision) nowMS() int64 { return d.in.Now.UnixMilli() }

// move is the next one of an assignment: the news of its members, and what follows from them.
func (d *decision) move(a *task.Assignment) task.Move {
	m := task.Move{Assignment: a.ID, Epoch: a.Epoch, Reports: d.news(a)}
	d.room -= len(m.Reports)
	if len(m.Reports) > 0 {
		next, err := d.board.Move([]task.Move{m}, func(string) string { return "" }, d.nowMS())
		if err != nil {
			return task.Move{} // never: reports alone are not refused
		}
		a = next.Assignments[a.ID]
	}
	d.act(a, &m)
	return m
}

// act says what to do with an assignment.
func (d *decision) act(a *task.Assignment, m *task.Move) {
	switch {
	case a.Phase == task.Ending:
		if d.settled(a) {
			m.Do = task.Close
		}
	case d.orphaned(a):
		d.judge(m, false, "assignment "+a.Joins+", which it joined, has ended")
	case d.late(a):
		d.judge(m, a.Met(), fmt.Sprintf("timed out after %v%s", time.Duration(a.TimeoutMS)*time.Millisecond, during(a)))
	case a.Phase == task.Waiting && a.ExpiresMS > 0 && d.nowMS() >= a.ExpiresMS:
		d.judge(m, false, "expired before it was placed"+during(a))
	case a.Phase == task.Waiting:
		d.begin(a, m)
	case !a.Possible():
		d.fail(a, m)
	case a.Met() && !d.runs(a):
		d.judge(m, true, "")
	case a.Due():
		m.Do = task.Pass
	}
}

// orphaned reports whether an assignment joins one that has ended, and nobody waits for it any more: what runs beside one that has succeeded
// goes on to its end, and what has not started by then has come too late. One that is not kept any more has succeeded.
func (d *decision) orphaned(a *task.Assignment) bool {
	if a.Joins == "" {
		return false
	}
	main := d.board.Assignments[a.Joins]
	if main == nil || main.Verdict == task.Succeeded {
		return a.Phase == task.Waiting || a.Phase == task.Preparing
	}
	return !main.Open()
}

// judge gives the verdict.
func (d *decision) judge(m *task.Move, succeeded bool, why string) {
	m.Do, m.Verdict, m.Why = task.Judge, task.Failed, state.ClipWords(why, task.MaxText)
	if succeeded {
		m.Verdict, m.Why = task.Succeeded, ""
	}
}

// late reports whether the assignment has had its time.
func (d *decision) late(a *task.Assignment) bool {
	return a.TimeoutMS > 0 && d.nowMS()-a.CreatedMS >= a.TimeoutMS
}

// during says what went on when an assignment timed out.
func during(a *task.Assignment) string {
	if a.Phase == task.Waiting && a.Wants != "" {
		return ", waiting: " + a.Wants
	}
	for _, m := range a.Members {
		if !m.Succeeded() && !m.Bad() {
			return fmt.Sprintf(": %s is %s", m.Node, m.State)
		}
	}
	return ""
}

// runs reports whether members run for whom it is worth to wait: those of groups that do not only serve others.
func (d *decision) runs(a *task.Assignment) bool {
	return slices.ContainsFunc(a.Groups, func(g task.Group) bool { return g.Least > 0 && a.Tally(g.Name).Running > 0 })
}

// fail ends an epoch that can't succeed any more, and the assignment unless there may be another.
func (d *decision) fail(a *task.Assignment, m *task.Move) {
	why := blame(a)
	if a.Epoch > a.Retries {
		d.judge(m, false, why)
		return
	}
	m.Do, m.Why = task.Withdraw, state.ClipWords(why, task.MaxText)
}

// blame says whose end it was that an assignment can't succeed.
func blame(a *task.Assignment) string {
	first := slices.IndexFunc(a.Members, func(m task.Member) bool { return m.Bad() })
	for i, m := range a.Members { // who ended first is more likely the cause than who ended of it
		if m.Bad() && m.ChangedMS < a.Members[first].ChangedMS {
			first = i
		}
	}
	if first < 0 {
		return "too few members"
	}
	m := a.Members[first]
	why := fmt.Sprintf("%s %s", m.Node, m.State)
	switch {
	case m.State == task.Exited && m.Code < 0: // nothing of it has run to an end: it has no exit code
		why = m.Node + " failed"
	case m.State == task.Exited:
		why += fmt.Sprintf(" with code %d", m.Code)
	case m.State == task.Lost:
		why = m.Node + " was lost"
	}
	if m.Text != "" {
		why += ": " + m.Text
	}
	return why
}

// settled is Settled for this leader. That leases are over which another leader saw begin, by another clock, it counts from its own
// beginning: no host has heard of the others since.
func (d *decision) settled(a *task.Assignment) bool {
	since := d.in.Since.UnixMilli()
	before := slices.ContainsFunc(a.Members, func(m task.Member) bool { return !m.Cleaned && m.LostMS < since })
	return a.Settled(d.nowMS()) && (!before || d.nowMS()-since >= task.SettleMS)
}
