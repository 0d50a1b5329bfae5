package task

import (
	"slices"
	"strings"
)

// What a host asks of a job of one of its members: its end, or that it has failed.
const (
	AskStop = "stop"
	AskFail = "stop_fail" // of jobs whose members' exits count alone
)

// ToStop reports whether a job that runs is to end, as one of its hosts has asked. What was asked of one whose members' exits count stands, whatever becomes
// of who asked.
func ToStop(a *Assignment) bool {
	return a.Shares && a.Stops && a.Phase == Running && (a.StoppedMS > 0 || asksFor(a, AskStop))
}

// ToFail reports whether a host has asked that a job be judged to have failed.
func ToFail(a *Assignment) bool { return a.ExitsCount && a.Phase == Running && asksFor(a, AskFail) }

func asksFor(a *Assignment, what string) bool {
	return slices.ContainsFunc(a.Members, func(m Member) bool { return m.Asks == what })
}

// StopFails reports whether a member has ended of which a job that is to end has failed: too few can succeed, or one that serves the others has ended and
// has not succeeded. Without those that serve nobody is left who needs them.
func StopFails(a *Assignment) bool {
	return !groupsCan(a) || slices.ContainsFunc(a.Members, func(m Member) bool { return m.Bad() && Serves(a, m) })
}

// StopDone reports whether all members of a job that is to end have ended that could start, or have had their grace for that. The grace counts by the clock of
// the leader that asks, and from when it began to lead if what was noted of when the job was asked to end is yet to come: by another's clock, or as its own was
// set back, which can't be told apart.
func StopDone(a *Assignment, sinceMS, atMS int64) bool {
	asked := max(a.StoppedMS, sinceMS)
	if a.StoppedMS > atMS { // by another's clock
		asked = sinceMS
	}
	if atMS-asked >= a.GraceMS {
		return true
	}
	return !slices.ContainsFunc(a.Members, func(m Member) bool { return !m.State.ended() && a.Started(m.Group) })
}

// AskedEnd is what a host has signed that was the first to ask for the end of a job. The zero value is nothing.
type AskedEnd struct {
	Member    uint32 `json:"member,omitempty"` // index
	State     State  `json:"state,omitempty"`
	Code      int32  `json:"code,omitempty"`
	Signature string `json:"signature,omitempty"`
}

// noteStop remembers when a job whose members' exits count was first asked to end, and by whom.
func noteStop(a *Assignment, atMS int64) {
	if !a.ExitsCount || a.StoppedMS != 0 || !ToStop(a) {
		return
	}
	i := slices.IndexFunc(a.Members, func(m Member) bool { return m.Asks == AskStop })
	m := a.Members[i]
	a.StoppedMS, a.Asked = max(atMS, 1), AskedEnd{Member: uint32(i), State: m.State, Code: m.Code, Signature: m.Signature} //nolint:gosec // at most MaxMembers
}

// checkAsked holds what a host has signed to its bounds.
func checkAsked(a *Assignment) bool {
	if a.Asked == (AskedEnd{}) {
		return true
	}
	return a.StoppedMS != 0 && a.Phase != Over && uint64(a.Asked.Member) < uint64(len(a.Members)) && a.Asked.State.Known() && visible(a.Asked.Signature, maxSignature)
}

// mayAsk reports whether a host may say that a member is in a state and what it asks: nothing, or of a job that can be stopped so its end, while the
// member runs, and where exits count also with its end.
func mayAsk(a *Assignment, m *Member, r Report) bool {
	switch {
	case r.Asks == "":
		return true
	case !a.Shares || !a.Stops || r.Asks != AskStop && (r.Asks != AskFail || !a.ExitsCount):
		return false
	case r.State == Exited:
		return a.ExitsCount
	}
	return (r.State == Started || r.State == Ready) && a.Started(m.Group)
}

// asksNow reports whether a host asks something of a job for the first time, in the state in which the member is, or asks that it fail where it has asked
// for its end. What it signs with the end of a member it signs with that one's exit code.
func asksNow(a *Assignment, m *Member, r Report) bool {
	return r.Asks != "" && (m.Asks == "" || m.Asks == AskStop && r.Asks == AskFail) && r.State == m.State && (r.State != Exited || r.Code == m.Code) && !m.Cleaned && mayAsk(a, m, r) && visible(r.Signature, maxSignature)
}

// OfOracle reports whether a task is a job with compat: oci, as its definition has it where that is written out.
func OfOracle(t *Task) bool {
	if t == nil || t.Type != RunJob {
		return false
	}
	for line := range strings.Lines(string(t.Definition)) {
		switch strings.TrimRight(line, "\n") {
		case "compat: oci":
			return true
		case "--- source": // files follow
			return false
		}
	}
	return false
}

// CountExits has the exits of an assignment's members count once it is asked to end, if it is of a job with compat: oci.
func CountExits(b *Board, a *Assignment) { a.ExitsCount = a.Stops && OfOracle(b.Task(a.Task)) }
