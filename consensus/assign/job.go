package assign

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/swarmd/swarmd/consensus/task"
)

// placeJob finds hosts for all members of a job, so that each leader finds the same; or one host for all if they are to be together. lack says what is
// missing.
func (d *decision) placeJob(a *task.Assignment) (places []task.Placement, lack string) {
	var wants []want
	for _, g := range a.Groups {
		for i := range g.Peers {
			wants = append(wants, wantOf(g, i == 0))
		}
	}
	rooms := d.rooms(a)
	at, ok := fillRooms(rooms, wants, a.Together)
	if !ok {
		return nil, d.lackOf(a, rooms)
	}
	for _, g := range a.Groups {
		for range g.Peers {
			places = append(places, task.Placement{Node: rooms[at[len(places)]].host, Group: g.Name, Peers: 1})
		}
	}
	return places, ""
}

// rooms are what the hosts that can take members of a job have left for them, by name.
func (d *decision) rooms(a *task.Assignment) (all []room) {
	for _, n := range d.free(a) {
		r := roomOf(n.Name, n.Offer)
		for _, g := range d.given[n.Name] {
			if g.assignment != a.ID { // of its own nothing is left when it is placed
				r.give(g.want, g.assignment)
			}
		}
		all = append(all, r)
	}
	return all
}

// lackOf says what a job waits for: what its members need, and why each host does not have it.
func (d *decision) lackOf(a *task.Assignment, rooms []room) string {
	size, most, each := 0, a.Groups[0], " each"
	for _, g := range a.Groups {
		size += int(g.Peers)
		if g.Needs != a.Groups[0].Needs {
			each = ""
		}
		if larger(g.Needs, most.Needs) < 0 {
			most = g
		}
	}
	what := "hosts for " + task.Amount(strconv.Itoa(size), "member")
	if size == 1 {
		each = ""
	}
	if a.Together && size > 1 {
		what = "one host for " + task.Amount(strconv.Itoa(size), "member")
	}
	switch needs := task.NeedsWords(most.Needs); {
	case needs == "":
	case size > 1 && each == "":
		what += fmt.Sprintf(", of group %s each with %s", most.Name, needs)
	default:
		what += " with " + needs + each
	}
	return what + d.whyNot(a, rooms)
}

// whyNot says of the hosts that were named why they don't take the members of a job now.
func (d *decision) whyNot(a *task.Assignment, rooms []room) string {
	if len(a.Hosts) == 0 {
		return " on taskrunner " + a.Taskrunner
	}
	var all []string
	for _, h := range a.Hosts {
		n := d.in.View.Nodes[h]
		i := slices.IndexFunc(rooms, func(r room) bool { return r.host == h })
		switch busy := d.taken(a, h); {
		case i >= 0:
			all = append(all, h+" "+lacked(rooms[i], a.Groups))
		case slices.Contains(a.Avoid, h):
			all = append(all, h+" has refused it")
		case d.missed(a, h):
			all = append(all, h+" had no part of it just before, and it has expired")
		case n == nil:
			all = append(all, h+" is no node of the swarm")
		case d.in.View.Banned(n.PeerID) != nil:
			all = append(all, h+" was banned")
		case !n.Live:
			all = append(all, h+" is not heard")
		case n.Offer == nil || n.Offer.Jobs == "":
			all = append(all, h+" takes no jobs")
		case busy != "":
			all = append(all, h+" is busy with assignment "+busy)
		}
	}
	return ": " + strings.Join(all, ", ")
}

// lacked says what a host has too little of for the first member that it can't have beside no other of the job, or for how many it has room.
func lacked(r room, groups []task.Group) (why string) {
	largest := groups[0]
	for _, g := range groups {
		if larger(g.Needs, largest.Needs) < 0 {
			largest = g
		}
		if first := wantOf(g, true); !r.takes(first) {
			return r.lacks(first)
		}
	}
	return r.lacks(want{largest.Needs, largest.Ports})
}

// jobEnds ends a job, or an epoch of it, for what only jobs end: its members are not ready in time.
func (d *decision) jobEnds(a *task.Assignment, m *task.Move) bool {
	i, late := task.Late(a, d.nowMS())
	if !late || a.Met() {
		return false
	}
	x, end := a.Members[i], task.EndReadyTimeout
	if x.Group == task.MainGroup(a.Groups) {
		end = task.EndMainTimeout
	}
	why := fmt.Sprintf("not ready after %v: %s is %s", time.Duration(a.ReadyMS)*time.Millisecond, memberWords(a, i), x.State)
	if x.Text != "" {
		why += ": " + x.Text
	}
	d.fail(a, m, end, why)
	return true
}

// stop judges a job that was asked to end by how its members end, if their exits count, within its grace. It is not placed anew: what has asked would ask
// again.
func (d *decision) stop(a *task.Assignment, m *task.Move) {
	switch {
	case a.Met() && !task.Awaits(a):
		d.judge(a, m, task.EndEntryDone, "")
	case a.Met(): // it has not failed any more
		if d.stopDone(a) {
			d.judge(a, m, task.EndStopFile, "")
		}
	case task.StopFails(a):
		who, why := blame(a, unsuccessful)
		d.judge(a, m, endBy(who), why+", after the job was asked to end")
	case d.stopDone(a):
		d.judge(a, m, task.EndStopFile, "")
	}
}

func (d *decision) stopDone(a *task.Assignment) bool {
	return task.StopDone(a, d.in.Since.UnixMilli(), d.nowMS())
}

// unsuccessful reports whether a member may be why a job fails that was asked to end: one that serves may end then.
func unsuccessful(a *task.Assignment, i int) bool { return a.Members[i].Bad() }

// memberWords say which member of a job it is, by its rank.
func memberWords(a *task.Assignment, i int) string {
	return fmt.Sprintf("member %d (%s) on %s", task.FirstRank(a.JobTerms)+i, a.Members[i].Group, a.Members[i].Node)
}

// endLate ends what has had its time: it has succeeded if it is done but for those who may still run. A job that waits to be placed anew has failed
// as its last epoch did.
func (d *decision) endLate(a *task.Assignment, m *task.Move) {
	end, why := task.EndMaxRuntime, fmt.Sprintf("timed out after %v%s", time.Duration(a.TimeoutMS)*time.Millisecond, during(a))
	switch {
	case a.Met():
		end = task.EndEntryDone
	case a.Phase == task.Waiting && a.LastEnd != "":
		end, why = a.LastEnd, a.LastWhy+"; not placed anew: "+why
	case a.Phase == task.Waiting && d.settled(a):
		end = task.EndNoCapacity
	}
	d.judge(a, m, end, why)
}

// expired reports whether no host begins an assignment any more of which it had no part before.
func (d *decision) expired(a *task.Assignment) bool {
	return a.ExpiresMS > 0 && d.nowMS() >= a.ExpiresMS
}

// goesOn reports whether an assignment that has expired may be placed once more: a job that was, and that has a time-out by which hosts bound it.
func goesOn(a *task.Assignment) bool {
	return a.Shares && a.Epoch > 0 && a.TimeoutMS > 0
}

// missed reports whether an assignment has expired before a host had a part of it: it does not begin that any more. Of epochs before the last one
// it is not known.
func (d *decision) missed(a *task.Assignment, host string) bool {
	return d.expired(a) && !slices.ContainsFunc(a.Members, func(m task.Member) bool { return m.Node == host })
}

// endBy is the end of a job by that of a member.
func endBy(m task.Member) task.End {
	switch m.State {
	case task.Lost:
		return task.EndHostLost
	case task.Refused:
		return task.EndRefused
	case task.Placed, task.Asked, task.Prepared, task.Started, task.Ready, task.Exited, task.Stopped:
	}
	return task.EndMemberFailed
}

// bereft reports whether the SL is gone that runs rank 0 of a job itself: nobody needs the others any more. One that is silent for less than a host's lease
// is not: it may be heard again, and its program runs on. This leader counts from its own beginning, as another's clock is another.
func (d *decision) bereft(a *task.Assignment) bool {
	if a.Beside == "" {
		return false
	}
	n := d.in.View.Nodes[a.Beside]
	if n == nil || n.Left() || d.in.View.Banned(n.PeerID) != nil {
		return true
	}
	return !n.Live && d.nowMS()-max(n.LiveSinceMS, d.in.Since.UnixMilli()) >= task.SettleMS
}
