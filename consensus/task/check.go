package task

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/swarmd/swarmd/identity/naming"
)

// Check returns what must never be true of a board that was made of old, which was without fault, or nil. It looks at what the two do
// not share.
func (b *Board) Check(old *Board) error {
	if b == old || b == nil {
		return nil
	}
	if b.Tasks == nil || b.Taskrunners == nil || b.Assignments == nil {
		return errors.New("tasks without their maps")
	}
	before := old.Whole()
	var errs []error
	for name, t := range b.Tasks {
		if t == nil || t != before.Tasks[name] || !b.hasTask(t.Prereq) {
			errs = append(errs, b.checkTask(name, t))
		}
	}
	for name, r := range b.Taskrunners {
		if r == nil || r.Name != name || !naming.ValidContract(name) || r.Assignment != "" && b.Assignments[r.Assignment] == nil || r.Reset && r.Assignment == "" {
			errs = append(errs, fmt.Errorf("bad taskrunner under %s", clipped(name)))
		}
	}
	for id, a := range b.Assignments {
		if a == nil || a != before.Assignments[id] || a.Live() {
			errs = append(errs, b.checkAssignment(id, a))
		}
	}
	slices.SortFunc(errs, func(x, y error) int { return strings.Compare(fmt.Sprint(x), fmt.Sprint(y)) })
	if err := errors.Join(errs...); err != nil {
		return err
	}
	live := len(b.LiveIDs())
	if len(b.Tasks) > MaxTasks || len(b.Taskrunners) > MaxTaskrunners+1 || live > MaxLive || len(b.Assignments)-live > MaxOver || definitions(b) > MaxDefinitions || approvalBytes(b, func(string) bool { return true }) > MaxApprovalBytes {
		return errors.New("more tasks, taskrunners or assignments than there may be")
	}
	return nil
}

func (b *Board) checkTask(name string, t *Task) error {
	if t == nil || t.Name != name || t.check() != nil || len(t.Definition) > MaxDefinition {
		return fmt.Errorf("bad task under %s", clipped(name))
	}
	if !b.hasTask(t.Prereq) {
		return fmt.Errorf("task %s needs task %s, which does not exist", name, t.Prereq)
	}
	if t.Final() && (t.Digest != t.Sum() || len(t.Definition) == 0) {
		return fmt.Errorf("task %s is finalised with another digest, or empty", name)
	}
	if t.Final() && t.PrereqDigest != prereqDigest(b, t) || !t.Final() && t.PrereqDigest != "" {
		return fmt.Errorf("task %s has another digest of what it needs", name)
	}
	return nil
}

func (b *Board) checkAssignment(id string, a *Assignment) error {
	if a == nil || a.ID != id || a.Check() != nil || !validDigest(a.Digest) || !naming.ValidContract(a.Task) {
		return fmt.Errorf("bad assignment under %s", clipped(id))
	}
	if a.Live() && a.Taskrunner != "" && a.Joins == "" && !b.holds(a) {
		return fmt.Errorf("assignment %s is live, and not its taskrunner's last one", id)
	}
	if t := b.Task(a.Task); a.Live() && (t == nil || t.Digest != a.Digest) {
		return fmt.Errorf("assignment %s is live, and its task %s is gone or was changed", id, a.Task)
	}
	if t := b.Task(a.Task); a.Live() && (t.Type == RunJob) != a.Shares {
		return fmt.Errorf("assignment %s is live, and its task %s is a %s", id, a.Task, t.Type)
	}
	if err := a.checkPhase(); err != nil {
		return fmt.Errorf("assignment %s: %w", id, err)
	}
	if a.Number > b.Over || a.Live() != (a.Number == 0) {
		return fmt.Errorf("assignment %s is number %d of %d that are over", id, a.Number, b.Over)
	}
	if err := a.checkApprovals(); err != nil {
		return err
	}
	return a.checkMembers()
}

func (a *Assignment) checkPhase() error {
	ended := a.Phase == Ending || a.Phase == Over
	switch {
	case !slices.Contains([]Phase{Waiting, Preparing, Running, Ending, Over}, a.Phase):
		return fmt.Errorf("unknown phase %s", clipped(string(a.Phase)))
	case ended != slices.Contains([]Verdict{Succeeded, Failed, Cancelled}, a.Verdict), !ended && a.Verdict != "":
		return fmt.Errorf("phase %s with verdict %s", a.Phase, clipped(string(a.Verdict)))
	case !text(a.Wants, MaxText) || !text(a.Reason, MaxText):
		return errors.New("texts out of bounds")
	case (a.Epoch == 0) != (len(a.Members) == 0) || a.Epoch > a.Retries+1:
		return fmt.Errorf("%d members in epoch %d of %d", len(a.Members), a.Epoch, a.Retries+1)
	case a.Phase == Running && a.Passed == 0 || (a.Phase == Waiting || a.Phase == Preparing) && a.Passed > 0 || int(a.Passed) > len(a.Groups):
		return fmt.Errorf("phase %s with %d barriers passed", a.Phase, a.Passed)
	case a.End.Verdict() != a.Verdict && a.Shares || a.End != "" && !a.Shares:
		return fmt.Errorf("end %s with verdict %s", clipped(string(a.End)), clipped(string(a.Verdict)))
	case !a.Shares && (a.PlacedMS != 0 || a.ReadySinceMS != 0 || a.JobTerms != JobTerms{}) || a.Shares && (a.PlacedMS > 0) != (a.Epoch > 0):
		return errors.New("a job that began at no time, or the times of one that is none")
	case (a.ExitsCount && !a.Shares || a.StoppedMS != 0) && (!a.ExitsCount || !a.Stops || a.Phase == Waiting || a.Phase == Preparing):
		return errors.New("asked to end, which it can't be")
	case !checkAsked(a):
		return errors.New("asked to end by nobody")
	case a.LastEnd != "" && (!a.Shares || a.LastEnd.Verdict() != Failed || a.Phase == Preparing || a.Phase == Running) || a.LastEnd == "" && a.LastWhy != "" || !text(a.LastWhy, MaxText):
		return errors.New("an end of an epoch that was not withdrawn")
	case a.Phase == Over && a.Order != nil:
		return errors.New("over with an order")
	case a.Phase == Preparing && a.Epoch == 0 || len(a.Avoid) > MaxMembers || len(a.Members) > MaxMembers:
		return errors.New("preparing without members, or too many of them")
	}
	return nil
}

func (a *Assignment) checkMembers() error {
	for i, m := range a.Members {
		started := m.State == Started || m.State == Ready || m.Succeeded()
		switch {
		case m.State.stage() == 0 || m.Peers == 0 || a.group(m.Group) < 0 || !naming.ValidNode(m.Node) || !text(m.Text, MaxText) || !visible(m.Signature, maxSignature):
			return fmt.Errorf("assignment %s: bad member %d", a.ID, i)
		case m.Asks != "" && (m.Asks != AskStop && (m.Asks != AskFail || !a.ExitsCount) || !a.Shares || !a.Stops):
			return fmt.Errorf("assignment %s: member %d asks for %s", a.ID, i, clipped(m.Asks))
		case m.Address != Address{} && !a.Shares || !m.proper():
			return fmt.Errorf("assignment %s: member %d is at %s", a.ID, i, clipped(m.IP))
		case m.Cleaned && !m.State.ended() || m.State == Lost && m.LostMS == 0:
			return fmt.Errorf("assignment %s: member %d is cleaned though it has not ended, or lost at no time", a.ID, i)
		case started && a.Phase == Preparing, started && a.Phase == Running && !a.Started(m.Group):
			return fmt.Errorf("assignment %s: member %d has started before its barrier was passed", a.ID, i)
		case a.Phase == Over && !m.Cleaned && m.LostMS == 0:
			return fmt.Errorf("assignment %s is over, and member %d is not cleaned", a.ID, i)
		}
	}
	return fitsJob(a, a.Members)
}
