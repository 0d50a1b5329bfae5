package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
)

// member is one of the host's, as this process knows it. All of it is the loop's.
type member struct {
	outcome

	label  Label
	hosted task.Hosted        // as it was shown last
	want   *task.HostedMember // as it is committed; nil: it is not, and is to end
	kind   string             // type of its task; empty: not known yet
	task   *task.Task         // nil: not fetched yet
	answer Answer             // the guard's; only Yes stays

	worker *worker // that does something for it; nil: nobody does
	due    pace
}

// outcome is what has become of a member.
type outcome struct {
	state   task.State // empty: nothing was done yet
	code    int32
	text    string
	says    saying
	gone    bool // nothing of it runs or is left to remove
	cleaned bool // and its guard knows, if it was the last of its epoch
}

// saying is what a host says of a member beside what has become of it.
type saying struct {
	asks    string // of its job, as long as it runs
	parting string // that it asks with its end; empty: nothing
	address string // its own, in its job's network; empty: it has none
}

// pace says when something is due for a member.
type pace struct {
	began    time.Time // when this process came to know it
	fetching time.Time // when it was first tried to fetch its task
	next     time.Time // not before this is anything done
	judge    time.Time // not before this is it asked whether what runs may go on
	cleanAt  time.Time // not before this is it cleaned
	failed   int       // tries to clean it
	tried    time.Time // when the last try to prepare or start it began
	vain     time.Time // since when an executor fails to prepare or start it of what passes; zero: the last try did not
	long     int       // tries in vain that came far
	looked   bool      // what there was of it was adopted, so that something may be begun
	restart  bool      // it is to be started again: the last try failed of what passes
	since    int       // the host's count when the last worker ended: looks from before tell nothing
}

// done forgets tries in vain: what was done is held against nothing that follows.
func (p *pace) done() { p.vain, p.long = time.Time{}, 0 }

// worker does something for a member.
type worker struct {
	cancel  context.CancelFunc
	cleans  bool
	locates bool // it asks where all members are
}

// over reports whether no other state follows.
func (o *outcome) over() bool {
	return o.state == task.Exited || o.state == task.Refused || o.state == task.Stopped
}

func (o *outcome) runs() bool { return o.state == task.Started || o.state == task.Ready }

// exit ends the member, unless it has ended.
func (o *outcome) exit(code int32, why string) {
	if !o.over() {
		o.state, o.code, o.text = task.Exited, code, clipped(why)
	}
}

// refuse ends the member, unless it has ended.
func (o *outcome) refuse(why string) {
	if !o.over() {
		o.state, o.text = task.Refused, clipped(why)
	}
}

// take follows what an executor says.
func (o *outcome) take(s Status) {
	if s.Asks != "" {
		o.says.asks = s.Asks
	}
	switch {
	case s.State == task.Exited:
		if !o.over() {
			o.says.parting = s.Asks
		}
		o.exit(s.Code, s.Text)
	case s.State == task.Ready && !o.over(), s.State == task.Started && !o.over() && o.state != task.Ready:
		o.state, o.text = s.State, clipped(s.Text)
	}
}

// untold stands for what a program printed where its host's owner keeps that.
const untold = "what it printed stays on its host, by the policy there: see the host's log"

// told is what an executor says of a member, in the words that the swarm may hear: it keeps and shows them to all its operators.
func told(g Guard, m *member, s Status) Status {
	switch {
	case s.Said == "" || m.over():
	case g.Tells(m.label.Assignment):
		s.Text = LastLines([]string{s.Said, s.Text})
	case s.Text == "":
		s.Text = untold
	}
	return s
}

// early reports whether the swarm knows of nothing that was prepared.
func (m *member) early() bool { return m.want.State == task.Placed || m.want.State == task.Asked }

// report is what the host says of a member that is committed, in a form that the state takes: another would keep it waiting for ever.
func (m *member) report() task.Report {
	r := task.Report{Member: m.label.Member, Node: m.label.Node, State: m.state, Code: m.code, Text: m.text, Cleaned: m.cleaned}
	if m.runs() && m.hosted.Stops {
		r.Asks = m.says.asks
	}
	if r.State == task.Exited && m.hosted.Stops {
		r.Asks = m.says.parting
	}
	if r.State == task.Prepared {
		r.IP = m.says.address
	}
	committed := m.want.State
	switch {
	case r.State == task.Refused && !m.early():
		r.State, r.Code = task.Exited, -1
	case r.State == task.Exited && r.Code == 0 && m.want.Stop && committed != task.Started && committed != task.Ready:
		r.State, r.Text, r.Asks = task.Stopped, "", "" // that it has succeeded comes too late
	}
	return r
}

// act does what is to be done next for a member, or has it done.
func (h *Host) act(ctx context.Context, m *member, now time.Time) {
	over := h.leaseOver(now)
	found, _ := h.seen(m)
	switch {
	case m.cleaned || m.want == nil && !h.known && !over:
		return
	case m.over() || m.want == nil || m.want.Stop:
	case over && (m.state != "" || m.worker != nil || found != nil):
		m.exit(-1, fmt.Sprintf("no leader of the swarm answered its host for %v", lease))
	case m.late(now):
		m.exit(-1, fmt.Sprintf("timed out on its host after %v", m.timeout()))
	case m.overdue(h.cfg.Guard, now):
	case m.busy() && mute(h.blind(m.kind, now)) && h.unseen(m, now):
	case over || m.worker != nil || now.Before(m.due.next):
		return
	case m.due.restart:
		h.start(ctx, m)
	case m.runs():
		h.watch(m, now)
		judge(ctx, h, m, now)
	case m.state != task.Prepared:
		h.begin(ctx, m, now)
	case m.want.Start && m.says.address != "" && silent(h.worlds[m.label.epoch()]) != nil:
		locate(ctx, h, m)
	case m.want.Start:
		h.start(ctx, m)
	}
	if m.over() || m.want == nil || m.want.Stop {
		h.end(ctx, m, now)
	}
}

// busy reports whether an executor prepares or starts it. An engine that takes a call and answers nobody any more would keep one as long as the
// call may take. One that answers with an error, as it only can't list what runs, keeps none from going on.
func (m *member) busy() bool {
	return m.worker != nil && !m.worker.cleans && m.answer.May == Yes && m.kind != ""
}

func (m *member) timeout() time.Duration {
	return time.Duration(m.hosted.TimeoutMS) * time.Millisecond
}

func (m *member) late(now time.Time) bool {
	return m.timeout() > 0 && now.Sub(m.due.began) >= m.timeout()
}

// overdue ends a member that the host's owner has ended by now.
func (m *member) overdue(g Guard, now time.Time) bool {
	at, why := g.Until(m.label.Assignment, m.label.Epoch)
	if at.IsZero() || now.Before(at) {
		return false
	}
	m.exit(-1, why)
	return true
}

// watch follows a member that runs.
func (h *Host) watch(m *member, now time.Time) {
	found, sure := h.seen(m)
	switch {
	case h.unseen(m, now):
	case found != nil:
		m.take(told(h.cfg.Guard, m, found.Status))
	case sure:
		m.exit(-1, "it is gone: nothing of it is on its host any more")
	}
}

// unseen ends a member of which nobody could say for long whether it lives, and reports whether it is one.
func (h *Host) unseen(m *member, now time.Time) bool {
	err := h.blind(m.kind, now)
	if err != nil {
		m.exit(-1, fmt.Sprintf("its host could not see for %v what runs: %s", blindLimit, Explained(err)))
	}
	return err != nil
}

// begin leads a member to where it is prepared, step by step.
func (h *Host) begin(ctx context.Context, m *member, now time.Time) {
	if !m.due.looked {
		h.adopt(m, now)
	}
	switch {
	case !m.due.looked || m.over() || m.runs():
		return
	case h.older(m.label): // two epochs of an assignment would be in each other's way
		return
	case m.task == nil:
		h.fetch(ctx, m, now)
	case m.answer.May != Yes && h.cfg.Guard.HasEnded(m.label.Part()):
		m.refuse("this host has carried it out before, and does nothing twice: assign the task again, under a new ID")
	case m.answer.May != Yes:
		h.ask(ctx, m)
	case h.cfg.Types[m.kind].World && h.worlds[m.label.epoch()] == nil:
		locate(ctx, h, m)
	default:
		h.prepare(ctx, m)
	}
}

// older reports whether there is something of another epoch of the assignment.
func (h *Host) older(l Label) bool {
	for other, m := range h.members {
		if other.Assignment == l.Assignment && other.Epoch != l.Epoch && !m.cleaned {
			return true
		}
	}
	return false
}

// fetch gets the member's task, and holds it to its digest.
func (h *Host) fetch(ctx context.Context, m *member, now time.Time) {
	if m.due.fetching.IsZero() {
		m.due.fetching = now
	}
	q := m.hosted.Request
	h.work(ctx, m, fetchLimit, func(ctx context.Context) func(time.Time) {
		t, err := h.cfg.Tasks.Task(ctx, q.Task)
		return func(now time.Time) {
			switch {
			case err != nil && (m.runs() || now.Sub(m.due.fetching) < fetchLimit): // what runs has the lease to end it
				m.due.next = now.Add(fetchPause)
			case err != nil:
				m.refuse(fmt.Sprintf("can't fetch task %s: %s", q.Task, Explained(err)))
			case t == nil || t.Name != q.Task || t.Digest != q.Digest || t.Sum() != q.Digest:
				m.refuse(fmt.Sprintf("what was fetched as task %s has not its digest: it was changed on the way", q.Task))
			default:
				h.fetched(m, t)
			}
		}
	})
}

// fetched goes on with a task.
func (h *Host) fetched(m *member, t *task.Task) {
	kind, known := h.cfg.Types[t.Type]
	m.task, m.kind = t, t.Type
	switch started := m.want != nil && (m.want.State == task.Started || m.want.State == task.Ready); {
	case m.runs():
	case !known:
		m.refuse(fmt.Sprintf("this host carries out no tasks of type %s", t.Type))
	case kind.Executor == nil:
		m.refuse(kind.Refuses)
	case started && !kind.Repeats:
		m.exit(-1, "it is gone: its host was restarted, and nothing of it is left")
	}
}

// ask asks the guard.
func (h *Host) ask(ctx context.Context, m *member) {
	hosted, t := m.hosted, m.task
	h.work(ctx, m, 0, func(ctx context.Context) func(time.Time) {
		answer := h.cfg.Guard.Consent(ctx, hosted, t)
		return func(now time.Time) {
			m.received(answer)
			switch {
			case m.over():
			case answer.May == Yes:
				m.state, m.answer = task.Asked, answer
			case answer.May == NotYet:
				m.state, m.text = task.Asked, clipped(answer.Why) // the swarm takes other words once after each approval
				m.due.next = now.Add(askPause)
			default:
				m.refuse(answer.Why)
			}
		}
	})
}

func (m *member) job(world []task.Site) Job {
	return Job{Label: m.label, Group: m.want.Group, Peers: m.want.Peers, Assignment: m.hosted.Request, Task: m.task, Image: m.answer.Image, Grant: m.answer.Grant, World: world}
}

// prepare has the executor prepare a member.
func (h *Host) prepare(ctx context.Context, m *member) {
	kind, job := h.cfg.Types[m.kind], m.job(h.worlds[m.label.epoch()])
	m.due.tried = time.Now()
	h.work(ctx, m, kind.Limit, func(ctx context.Context) func(time.Time) {
		var address string
		err := asTold(h, kind, &job)
		if err == nil {
			err = kind.tooLong(ctx, kind.Executor.Prepare(ctx, job))
		}
		if kind.Address != nil && err == nil {
			address, err = oneAddress(ctx, h, kind, job.Label)
		}
		return func(now time.Time) {
			switch {
			case m.over():
			case err == nil:
				m.state, m.text, m.says.address = task.Prepared, "", address
				m.due.done()
			default:
				h.inVain(m, "prepared", err, now)
			}
		}
	})
}

// start has the executor start a member.
func (h *Host) start(ctx context.Context, m *member) {
	kind, job := h.cfg.Types[m.kind], m.job(h.worlds[m.label.epoch()])
	m.state, m.due.restart, m.due.tried = task.Started, false, time.Now()
	h.work(ctx, m, kind.Limit, func(ctx context.Context) func(time.Time) {
		status, err := kind.Executor.Start(ctx, job)
		err = kind.tooLong(ctx, err)
		return func(now time.Time) {
			if err != nil {
				m.due.restart = h.inVain(m, "started", err, now)
				return
			}
			m.due.done()
			m.take(told(h.cfg.Guard, m, status))
		}
	})
}

// tooLong is the error of what was broken off at the type's limit. It is none that passes: the owner wants no more than that.
func (t *Type) tooLong(ctx context.Context, err error) error {
	if err == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	why := Explained(err)
	if passing, ok := errors.AsType[*Passing](err); ok {
		why = passing.Words
	}
	return fmt.Errorf("it was not done on its host within %v, as --prepare-timeout says there: %s", t.Limit, why)
}

// inVain ends a member whose executor could not do its work, and reports whether that is tried again instead. One that was told to end is no
// failure.
func (h *Host) inVain(m *member, what string, err error, now time.Time) (again bool) {
	if m.over() || m.want == nil || m.want.Stop {
		return false
	}
	first := m.due.vain.IsZero()
	passing, again := m.tryAgain(err, now)
	lasting, lasts := errors.AsType[*Lasting](err)
	if !again || first {
		h.cfg.Log.Warn("can't do this host's part of an assignment", "to_be", what, "assignment", m.label.Assignment, "epoch", m.label.Epoch, "task", m.hosted.Task, "tried_again", again, "err", err)
	}
	end := func(words string) { m.exit(-1, words) }
	if passing != nil && passing.Refuses {
		end = m.refuse
	}
	switch {
	case again:
		m.text = clipped(fmt.Sprintf("not %s yet, and tried again for %v: %s", what, vainLimit, passing.Words))
	case passing != nil && m.due.long >= longLimit:
		end(fmt.Sprintf("it could not be %s, and %d tries took long: %s", what, m.due.long, passing.Words))
	case passing != nil:
		end(fmt.Sprintf("it could not be %s for %v: %s", what, vainLimit, passing.Words))
	case lasts:
		m.exit(-1, lasting.Words)
	default:
		m.exit(-1, Explained(err))
	}
	return again
}

// tryAgain has what failed of an error that passes done again soon, though not for long.
func (m *member) tryAgain(err error, now time.Time) (passing *Passing, again bool) {
	if !errors.As(err, &passing) {
		return nil, false
	}
	far := now.Sub(m.due.tried) >= vainLimit
	if far {
		m.due.long++
	}
	if m.due.vain.IsZero() || far && m.due.long < longLimit { // a try that came so far is no try in vain, unless what it does may be why it fails
		m.due.vain = now
	}
	m.due.next = now.Add(vainPause)
	return passing, now.Sub(m.due.vain) < vainLimit
}

// end has all that there is of a member ended and removed, again and again until nothing is left.
func (h *Host) end(ctx context.Context, m *member, now time.Time) {
	if m.worker != nil {
		if !m.worker.cleans {
			m.worker.cancel()
		}
		return
	}
	if now.Before(m.due.cleanAt) {
		return
	}
	if m.gone {
		h.tellEnd(ctx, m)
		return
	}
	kind := m.kind
	h.work(ctx, m, cmp.Or(h.cfg.Types[kind].CleanLimit, cleanLimit), func(ctx context.Context) func(time.Time) {
		parting, err := h.clean(ctx, m.label, kind)
		return func(now time.Time) {
			if err != nil {
				m.putOff(h.cfg.Log, now, err)
				return
			}
			m.due.failed = 0
			if m.gone = true; !m.over() {
				words := told(h.cfg.Guard, m, Status{Text: parting.Text, Said: parting.Said})
				m.state, m.code, m.text = task.Stopped, parting.Code, clipped(words.Text)
			}
		}
	})
	m.worker.cleans = true
}

// putOff has the end of a member tried again later.
func (m *member) putOff(log *slog.Logger, now time.Time, err error) {
	if m.due.failed++; m.due.failed == 1 {
		log.Warn("can't remove yet what is left of an assignment", "assignment", m.label.Assignment, "epoch", m.label.Epoch, "err", err)
	}
	m.due.cleanAt = now.Add(min(cleanPause<<min(m.due.failed-1, 8), maxPause))
}

// tellEnd tells the guard that nothing is left of a member, and of an epoch with its last one: beside the loop, as the guard may have to wait.
func (h *Host) tellEnd(ctx context.Context, m *member) {
	words := fmt.Sprintf("%s with code %d: %s", m.state, m.code, m.text)
	if m.state == task.Stopped && m.text == "" {
		words = "ended by its host"
	}
	tell := func() error { return h.cfg.Guard.Ended(m.label.Assignment, m.label.Epoch, words) }
	for l, other := range h.members {
		if other != m && !other.gone && l.epoch() == m.label.epoch() {
			tell = func() error { return h.cfg.Guard.PartEnded(m.label.Part()) }
		}
	}
	h.work(ctx, m, 0, func(context.Context) func(time.Time) {
		err := tell()
		return func(now time.Time) {
			if err != nil {
				m.putOff(h.cfg.Log, now, fmt.Errorf("keep that it has ended: %w", err))
				return
			}
			m.cleaned = true
		}
	})
	m.worker.cleans = true
}

// clean has the executor of a type clean up, or all if the type is not known.
func (h *Host) clean(ctx context.Context, l Label, kind string) (parting Parting, err error) {
	var errs []error
	for name, t := range h.cfg.Types {
		if t.Executor == nil || kind != "" && kind != name {
			continue
		}
		p, err := PartingOf(t.Executor.Clean(ctx, l))
		if errs = append(errs, err); p != nil {
			parting = *p
		}
	}
	return parting, errors.Join(errs...)
}
