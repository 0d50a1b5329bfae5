package assign

import (
	"cmp"
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
	d.given = givenBy(d.board)
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
	given map[string][]given // by hosts, to members that may still run
	room  int                // how many reports the command has room for
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
		d.judge(a, m, task.EndMemberFailed, "assignment "+a.Joins+", which it joined, has ended")
	case d.bereft(a) && a.Met(): // done it stays, and nobody needs those any more who still run
		d.judge(a, m, task.EndEntryDone, "")
	case d.bereft(a):
		d.judge(a, m, task.EndHostLost, "SL "+a.Beside+", which runs rank 0, is gone")
	case task.Outlived(a, d.nowMS()):
		d.judge(a, m, task.EndTTL, "")
	case task.ToFail(a) && !a.Met():
		d.judge(a, m, task.EndMemberFailed, "there is a file stop_fail in the folder of its run")
	case task.ToStop(a) && !a.ExitsCount:
		d.judge(a, m, task.EndStopFile, "")
	case task.ToStop(a) && !d.late(a):
		d.stop(a, m)
	case d.late(a):
		d.endLate(a, m)
	case a.Phase == task.Waiting && d.expired(a) && !goesOn(a):
		d.judge(a, m, cmp.Or(a.LastEnd, task.EndNoCapacity), cmp.Or(a.LastWhy, "expired before it was placed"+during(a)))
	case a.Phase == task.Waiting:
		d.begin(a, m)
	case !a.Possible() && task.Parting(a, d.nowMS()): // soon it is done, or has failed
	case !a.Possible():
		who, why := blame(a, guilty)
		d.fail(a, m, endBy(who), why)
	case a.Met() && !task.Awaits(a):
		d.judge(a, m, task.EndEntryDone, "")
	case d.jobEnds(a, m):
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

// judge gives the verdict that comes with an end, and the end if the assignment is of a job: others have none.
func (d *decision) judge(a *task.Assignment, m *task.Move, end task.End, why string) {
	m.Do, m.Verdict, m.Why = task.Judge, end.Verdict(), state.ClipWords(why, task.MaxText)
	if m.Verdict == task.Succeeded {
		m.Why = ""
	}
	if a.Shares {
		m.End = end
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

// fail ends an epoch that can't succeed any more, and the assignment unless there may be another.
func (d *decision) fail(a *task.Assignment, m *task.Move, end task.End, why string) {
	if a.Epoch > a.Retries || a.Shares && d.expired(a) && !goesOn(a) {
		d.judge(a, m, end, why)
		return
	}
	m.Do, m.Why = task.Withdraw, state.ClipWords(why, task.MaxText)
	if a.Shares {
		m.End = end
	}
}

// blame says whose end it was, of those who may be, that an assignment can't succeed, and in words why. If it was nobody's there are too few members.
func blame(a *task.Assignment, guilty func(a *task.Assignment, i int) bool) (who task.Member, why string) {
	first := -1
	for i := range a.Members {
		if guilty(a, i) && (first < 0 || likelier(a, i, first)) {
			first = i
		}
	}
	if first < 0 {
		return who, "too few members"
	}
	m := a.Members[first]
	name := m.Node
	if a.Shares {
		name = memberWords(a, first)
	}
	switch why = name + " " + string(m.State); {
	case m.State == task.Exited && m.Code < 0: // nothing of it has run to an end: it has no exit code
		why = name + " failed"
	case m.State == task.Exited:
		why += fmt.Sprintf(" with code %d", m.Code)
	case m.State == task.Lost:
		why = name + " was lost"
	}
	if m.Succeeded() {
		why += " while the others needed it"
	}
	if m.Text != "" {
		why += ": " + m.Text
	}
	return m, why
}

// guilty reports whether a member may be why an assignment can't succeed.
func guilty(a *task.Assignment, i int) bool {
	m := a.Members[i]
	return m.Bad() || m.Succeeded() && task.Serves(a, m)
}

// likelier reports whether one member is more likely the cause than another. Those whom the others of a job need come first: without them the others
// fail too. Then who ended first, rather than who ended of it.
func likelier(a *task.Assignment, i, other int) bool {
	x, y := a.Members[i], a.Members[other]
	if serves := task.Serves(a, x); serves != task.Serves(a, y) {
		return serves
	}
	return x.ChangedMS < y.ChangedMS
}

// settled is Settled for this leader. That leases are over which another leader saw begin, by another clock, it counts from its own
// beginning: no host has heard of the others since.
func (d *decision) settled(a *task.Assignment) bool {
	since := d.in.Since.UnixMilli()
	before := slices.ContainsFunc(a.Members, func(m task.Member) bool { return !m.Cleaned && m.LostMS < since })
	return a.Settled(d.nowMS()) && (!before || d.nowMS()-since >= task.SettlesMS(a))
}
