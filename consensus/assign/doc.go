// Package assign holds the duties of the SN that leads the raft group towards hosts that carry out tasks: it places the members of
// assignments on hosts that offer themselves, passes barriers, times out, and judges.
//
// [Decide] is pure: it gets the time with its inputs. [Scheduler] runs it and proposes what it says. What hosts report lives in the
// leader's memory only: they repeat it with each heartbeat, so a new leader learns it anew. Reports are gathered for a moment and
// committed together with the steps that follow from them, so that an assignment to many hosts takes few entries of the log.
package assign
