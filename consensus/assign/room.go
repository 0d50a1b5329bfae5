package assign

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/swarmd/swarmd/consensus/ledger"
	"github.com/swarmd/swarmd/consensus/task"
)

// room is what a host has for members of jobs.
type room struct {
	host         string
	offers, left ledger.Needs // of the latter nothing was given to members
	members      int          // that it can have beside those that it has
}

// roomOf is the room of a host by its offer, of which nothing was given yet.
func roomOf(host string, o *task.Offer) room {
	r := room{host: host, members: task.MaxHosted}
	if o != nil {
		r.offers = ledger.Needs{MilliCPU: o.CPUs * 1000, Memory: o.MemoryBytes, GPUs: o.GPUs}
	}
	r.left = r.offers
	return r
}

// give gives some of it to a member. An offer may have become smaller since what it was before was given.
func (r *room) give(n ledger.Needs) {
	l := &r.left
	l.MilliCPU, l.Memory, l.GPUs, l.Disk = l.MilliCPU-min(l.MilliCPU, n.MilliCPU), l.Memory-min(l.Memory, n.Memory), l.GPUs-min(l.GPUs, n.GPUs), l.Disk-min(l.Disk, n.Disk)
	r.members = max(0, r.members-1)
}

// takes reports whether a member finds what it needs.
func (r *room) takes(n ledger.Needs) bool { return r.members > 0 && isWithin(n, r.left) }

// isWithin reports whether needs are no more than there is.
func isWithin(n, there ledger.Needs) bool {
	return n.MilliCPU <= there.MilliCPU && n.Memory <= there.Memory && n.GPUs <= there.GPUs && n.Disk <= there.Disk
}

// larger orders needs by what is scarce first.
func larger(a, b ledger.Needs) int {
	return cmp.Or(cmp.Compare(b.GPUs, a.GPUs), cmp.Compare(b.MilliCPU, a.MilliCPU), cmp.Compare(b.Memory, a.Memory), cmp.Compare(b.Disk, a.Disk))
}

// fillRooms finds a room for each of some members: they take turns in the rooms, so that as many hosts as may be carry the job. Where that leads to no
// end, the largest are put first, each where it leaves least. Members that all need the same have a place if there is one; of others with needs of
// several kinds it may be missed. If they are to be together, the first room that has them all has them.
func fillRooms(rooms []room, needs []ledger.Needs, together bool) (at []int, ok bool) {
	if together {
		for i := range rooms {
			if _, ok := inTurn(slices.Clone(rooms[i:i+1]), needs); ok {
				return slices.Repeat([]int{i}, len(needs)), true
			}
		}
		return nil, false
	}
	if at, ok = inTurn(slices.Clone(rooms), needs); !ok {
		at, ok = tight(slices.Clone(rooms), needs)
	}
	return at, ok
}

// inTurn changes the rooms.
func inTurn(rooms []room, needs []ledger.Needs) (at []int, ok bool) {
	next := 0
	for _, n := range needs {
		found := false
		for i := range rooms {
			k := (next + i) % len(rooms)
			if found = rooms[k].takes(n); found {
				rooms[k].give(n)
				at, next = append(at, k), k+1
				break
			}
		}
		if !found {
			return nil, false
		}
	}
	return at, true
}

// tight changes the rooms.
func tight(rooms []room, needs []ledger.Needs) (at []int, ok bool) {
	order := make([]int, len(needs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return larger(needs[i], needs[j]) })
	at = make([]int, len(needs))
	for _, i := range order {
		best := -1
		for k := range rooms {
			if rooms[k].takes(needs[i]) && (best < 0 || larger(rooms[k].left, rooms[best].left) > 0) {
				best = k
			}
		}
		if best < 0 {
			return nil, false
		}
		rooms[best].give(needs[i])
		at[i] = best
	}
	return at, true
}

// lacks says what a host has too little of for a member.
func (r *room) lacks(n ledger.Needs) string {
	for _, x := range []struct{ needs, offers, left ledger.Needs }{
		{ledger.Needs{GPUs: n.GPUs}, ledger.Needs{GPUs: r.offers.GPUs}, ledger.Needs{GPUs: r.left.GPUs}},
		{ledger.Needs{MilliCPU: n.MilliCPU}, ledger.Needs{MilliCPU: r.offers.MilliCPU}, ledger.Needs{MilliCPU: r.left.MilliCPU}},
		{ledger.Needs{Memory: n.Memory}, ledger.Needs{Memory: r.offers.Memory}, ledger.Needs{Memory: r.left.Memory}},
		{ledger.Needs{Disk: n.Disk}, ledger.Needs{Disk: r.offers.Disk}, ledger.Needs{Disk: r.left.Disk}},
	} {
		switch {
		case !isWithin(x.needs, x.offers):
			return "offers " + cmp.Or(task.NeedsWords(x.offers), "no "+lackedKind(x.needs))
		case !isWithin(x.needs, x.left):
			return fmt.Sprintf("has %s left of %s", cmp.Or(task.NeedsWords(x.left), "no "+lackedKind(x.needs)), task.NeedsWords(x.offers))
		}
	}
	fits := 0
	for x := *r; x.takes(n); fits++ {
		x.give(n)
	}
	if fits == 0 {
		return fmt.Sprintf("has %d members already", task.MaxHosted)
	}
	return "has room for " + strconv.Itoa(fits)
}

// lackedKind is what needs of one kind are of.
func lackedKind(n ledger.Needs) string {
	switch {
	case n.GPUs > 0:
		return "GPU"
	case n.MilliCPU > 0:
		return "CPU"
	case n.Memory > 0:
		return "memory"
	}
	return "disk"
}
