package task

import (
	"slices"

	"github.com/swarmd/swarmd/identity/naming"
)

// JobTerms are what a job is asked to be, beside what every assignment is. Those of other tasks have none.
type JobTerms struct {
	// Done says which groups must have succeeded for the job to be done, of those that must at all: DoneAll, DoneMain or DoneAny.
	Done string `json:"done,omitempty"`
	// ReadyMS is how long after an epoch began all members must be ready; 0: nobody waits for that.
	ReadyMS int64 `json:"ready_ms,omitempty"`
	// LivesMS is how long after all members were ready the job has succeeded, also if programs have ended by then. 0: it is done as Done says.
	LivesMS int64 `json:"lives_ms,omitempty"`
	// Together has all members be on one host.
	Together bool `json:"together,omitempty"`
	// GraceMS is how long a member may take to end after it was asked to, also by a host whose lease is over. Another epoch waits for that.
	GraceMS int64 `json:"grace_ms,omitempty"`
	// Stops has the job succeed when a host of one of its members asks for its end: there is a stop file in the folder of the run.
	// One whose members' exits count then has its grace for these.
	Stops bool `json:"stops,omitempty"`
	// Beside is the SL that runs rank 0 itself. The job ends when it is gone. Empty: hosts have all members.
	Beside string `json:"beside,omitempty"`
}

// What JobTerms.Done says.
const (
	DoneAll  = ""     // all of them
	DoneMain = "main" // the first
	DoneAny  = "any"  // one of them
)

// checkTerms holds the terms of a job to their bounds.
func checkTerms(j JobTerms, bad func(format string, args ...any) error) error {
	if !slices.Contains([]string{DoneAll, DoneMain, DoneAny}, j.Done) {
		return bad("it is done when %s: want main, any, or nothing for all", clipped(j.Done))
	}
	for _, ms := range []int64{j.ReadyMS, j.LivesMS} {
		if ms < 0 || ms > maxTimeoutMS {
			return bad("%d ms until it is ready or has lived are out of bounds: at most 30 days", ms)
		}
	}
	if j.GraceMS < 0 || j.GraceMS > maxGraceMS {
		return bad("its members have %d ms to end: at most 10 minutes", j.GraceMS)
	}
	if j.Beside != "" && !naming.ValidNode(j.Beside) {
		return bad("it is beside %s: want the name of an SL", clipped(j.Beside))
	}
	return nil
}

// fitsTask holds a request to what its task is: jobs alone have terms of their own, and no job joins another one, whose members know nothing of it.
func fitsTask(q *Request, t *Task) error {
	switch {
	case t.Type != RunJob && q.JobTerms != JobTerms{}:
		return illegal(Bad, "", "assignment %s has terms of a job, and task %s is a %s", q.ID, t.Name, t.Type)
	case t.Type != RunJob && slices.ContainsFunc(q.Groups, func(g Group) bool { return !Plain(g) }):
		return illegal(Bad, "", "assignment %s says what members take of their hosts, as jobs do, and task %s is a %s", q.ID, t.Name, t.Type)
	case t.Type == RunJob && q.Joins != "":
		return illegal(Bad, "assign it by itself", "assignment %s joins another, and task %s is a job", q.ID, t.Name)
	case t.Type == RunJob && sizeOf(q.Groups) > mostMembers(q):
		remedy := "name more hosts, or have fewer members"
		if q.Together {
			remedy = "have fewer members, or let them be on several hosts"
		}
		return illegal(Bad, remedy, "job %s would have %d members, and its hosts can have %d of them", t.Name, sizeOf(q.Groups), mostMembers(q))
	}
	return nil
}

func sizeOf(groups []Group) (n uint64) {
	for _, g := range groups {
		n += uint64(g.Peers)
	}
	return n
}

// mostMembers is how many members a job may have on its hosts.
func mostMembers(q *Request) uint64 {
	switch {
	case q.Together:
		return MaxHosted
	case len(q.Hosts) > 0:
		return MaxHosted * uint64(len(q.Hosts))
	}
	return MaxMembers
}

// fitsJob refuses members that no epoch of a job can have: each is one peer, a host has MaxHosted of them, and all are together if they must.
func fitsJob(a *Assignment, members []Member) error {
	if !a.Shares {
		return nil
	}
	on, in := map[string]int{}, map[string]uint32{}
	for _, m := range members {
		on[m.Node]++
		in[m.Group]++
		if m.Peers != 1 || on[m.Node] > MaxHosted || in[m.Group] > a.Groups[a.group(m.Group)].Peers {
			return illegal(Bad, "", "job %s would have %s as a member for %d peers, or more members on it than %d, or than group %s has", a.ID, m.Node, m.Peers, MaxHosted, m.Group)
		}
	}
	if a.Together && len(on) > 1 {
		return illegal(Bad, "", "job %s would be on %d hosts, and is to be on one", a.ID, len(on))
	}
	return nil
}

// deciding are the groups that must have succeeded for a job to be done, and whether one of them is enough.
func deciding(a *Assignment) (groups []Group, one bool) {
	for _, g := range a.Groups {
		if g.Least > 0 && (a.Done != DoneMain || len(groups) == 0) {
			groups = append(groups, g)
		}
	}
	return groups, a.Done == DoneAny
}

// jobDone reports whether a job is done by its programs. One that lives for a time is not.
func jobDone(a *Assignment) bool {
	met := func(g Group) bool { return a.Tally(g.Name).Succeeded >= g.Least }
	groups, one := deciding(a)
	switch {
	case a.LivesMS > 0:
		return false
	case one:
		return slices.ContainsFunc(groups, met)
	}
	return !slices.ContainsFunc(groups, func(g Group) bool { return !met(g) })
}

// Awaits reports whether members run for whom it is worth to wait though as many have succeeded as must: those of groups that do not only serve
// others, and of a job those of groups by which it is done.
func Awaits(a *Assignment) bool {
	if a.Shares {
		return jobAwaits(a)
	}
	return slices.ContainsFunc(a.Groups, func(g Group) bool { return g.Least > 0 && a.Tally(g.Name).Running > 0 })
}

// jobAwaits reports whether members of the groups by which a job is done still run: if one group is enough, of each that would do.
func jobAwaits(a *Assignment) bool {
	groups, one := deciding(a)
	runs := func(g Group) bool { return a.Tally(g.Name).Running > 0 }
	if one {
		return !slices.ContainsFunc(groups, func(g Group) bool { return a.Tally(g.Name).Succeeded >= g.Least && !runs(g) })
	}
	return slices.ContainsFunc(groups, runs)
}

// jobCan reports whether a job is done, or can be: nobody who serves the others has ended, and each group can succeed, or one if that is enough.
func jobCan(a *Assignment) bool {
	if a.Met() {
		return true
	}
	if slices.ContainsFunc(a.Members, func(m Member) bool { return m.State.ended() && Serves(a, m) }) {
		return false
	}
	return groupsCan(a)
}

// groupsCan reports whether as many can succeed of each group of a job as must, or of one if that is enough.
func groupsCan(a *Assignment) bool {
	can := func(g Group) bool { return a.Tally(g.Name).Possible >= g.Least }
	if groups, one := deciding(a); one && len(groups) > 0 {
		return slices.ContainsFunc(groups, can)
	}
	return !slices.ContainsFunc(a.Groups, func(g Group) bool { return !can(g) })
}

// partingMS is how long a program may still run after it has ended those that served it.
const partingMS = 5_000

// Parting reports whether members that serve the others have ended with success just now while those by whom a job is done go on: a program may have
// ended them as the last of what it does.
func Parting(a *Assignment, atMS int64) bool {
	if groups, _ := deciding(a); !a.Shares || a.Phase != Running || len(groups) == 0 || !groupsCan(a) {
		return false
	}
	parted := false
	for _, m := range a.Members {
		if m.State.ended() && Serves(a, m) {
			if !m.Succeeded() || atMS-m.ChangedMS >= partingMS {
				return false
			}
			parted = true
		}
	}
	return parted && jobAwaits(a)
}

// Serves reports whether a member of a job serves the others: it has failed if it ends before the job is done, whatever its exit code.
func Serves(a *Assignment, m Member) bool {
	i := a.group(m.Group)
	return a.Shares && i >= 0 && a.Groups[i].Least == 0
}
