package task

import "slices"

// End is why a job has ended, in one word; empty: it has not, or the assignment is none of a job. An assignment has one.
type End string

// The ends of jobs.
const (
	EndEntryDone    End = "entry_done"    // its programs are done
	EndTTL          End = "ttl"           // it has lived as long as it was to
	EndStopFile     End = "stop_file"     // there is a stop file in the folder of its run
	EndCancelled    End = "cancelled"     // by an operator
	EndNoCapacity   End = "no_capacity"   // it found no hosts in its time
	EndMaxRuntime   End = "max_runtime"   // it did not end in its time
	EndMainTimeout  End = "main_timeout"  // a member of the main group was not ready in time
	EndReadyTimeout End = "ready_timeout" // another member was not
	EndMemberFailed End = "member_failed"
	EndHostLost     End = "host_lost"
	EndRefused      End = "refused" // by a host
)

// Verdict is the one that comes with an end; empty: it is none.
func (e End) Verdict() Verdict {
	switch e {
	case EndEntryDone, EndTTL, EndStopFile:
		return Succeeded
	case EndCancelled:
		return Cancelled
	case EndNoCapacity, EndMaxRuntime, EndMainTimeout, EndReadyTimeout, EndMemberFailed, EndHostLost, EndRefused:
		return Failed
	}
	return ""
}

// mayJudge reports whether a leader may give a verdict, which it gives with an end if the assignment is of a job.
func mayJudge(a *Assignment, m Move, atMS int64) bool {
	if !a.Shares {
		return m.End == "" && (m.Verdict == Failed || m.Verdict == Succeeded && a.Met())
	}
	switch m.End {
	case EndEntryDone:
		return m.Verdict == Succeeded && a.Met()
	case EndTTL:
		return m.Verdict == Succeeded && Outlived(a, atMS)
	case EndStopFile:
		return m.Verdict == Succeeded && ToStop(a)
	}
	return m.Verdict == Failed && m.End.Verdict() == Failed
}

// Outlived reports whether a job has lived as long as it was to, since all of its members were ready.
func Outlived(a *Assignment, atMS int64) bool {
	return a.LivesMS > 0 && a.Phase == Running && a.ReadySinceMS > 0 && atMS-a.ReadySinceMS >= a.LivesMS
}

// Late reports whether members of a job have had their time to become ready, and returns which one keeps the others waiting: of those that may go on
// the one that has come least far.
func Late(a *Assignment, atMS int64) (i int, late bool) {
	if a.ReadyMS == 0 || a.ReadySinceMS > 0 || a.Phase != Preparing && a.Phase != Running || atMS-a.PlacedMS < a.ReadyMS {
		return 0, false
	}
	i = -1
	for j, m := range a.Members {
		waits := a.Phase == Running && !a.Started(m.Group) // for a group before its own
		if unready(m) && !waits && (i < 0 || m.State.stage() < a.Members[i].State.stage()) {
			i = j
		}
	}
	return i, i >= 0
}

// MainGroup is the name of a job's main group: the first of which members must succeed; empty: none has to.
func MainGroup(groups []Group) string {
	if i := slices.IndexFunc(groups, func(g Group) bool { return g.Least > 0 }); i >= 0 {
		return groups[i].Name
	}
	return ""
}

func unready(m Member) bool { return m.State != Ready && !m.State.ended() }

// noteReady remembers since when all members of a job are ready, or have ended.
func noteReady(a *Assignment, atMS int64) {
	if a.Shares && a.ReadySinceMS == 0 && a.Phase == Running && !slices.ContainsFunc(a.Members, unready) {
		a.ReadySinceMS = max(atMS, 1)
	}
}
