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
	ports        []port       // to which members listen there
}

// want is what a member takes of its host.
type want struct {
	needs ledger.Needs
	ports []uint32
}

// port is one of a host, and the assignment of the member that listens to it.
type port struct {
	number     uint32
	assignment string
}

// wantOf is what a member of a group takes, which may be the first of it.
func wantOf(g task.Group, first bool) want {
	if first && len(g.FirstPorts) > 0 {
		return want{g.Needs, slices.Concat(g.Ports, g.FirstPorts)}
	}
	return want{g.Needs, g.Ports}
}

// roomOf is the room of a host by its offer, of which nothing was given yet.
func roomOf(host string, o *task.Offer) room {
	r := room{host: host, members: task.MaxHosted}
	if o != nil {
		r.offers = ledger.Needs{MilliCPU: o.CPUs * 1000, Memory: o.MemoryBytes, GPUs: o.GPUs, Disk: o.DiskBytes}
	}
	r.left = r.offers
	return r
}

// give gives some of it to a member of an assignment. An offer may have become smaller since what it was before was given.
func (r *room) give(w want, assignment string) {
	l, n := &r.left, w.needs
	l.MilliCPU, l.Memory, l.GPUs, l.Disk = l.MilliCPU-min(l.MilliCPU, n.MilliCPU), l.Memory-min(l.Memory, n.Memory), l.GPUs-min(l.GPUs, n.GPUs), l.Disk-min(l.Disk, n.Disk)
	r.members = max(0, r.members-1)
	r.ports = slices.Clip(r.ports) // copies of it are given others
	for _, p := range w.ports {
		r.ports = append(r.ports, port{p, assignment})
	}
}

// takes reports whether a member finds what it wants.
func (r *room) takes(w want) bool {
	_, listens := r.listener(w)
	return r.members > 0 && !listens && isWithin(w.needs, r.left)
}

// listener is a port that a member would listen to and another one does, if there is one.
func (r *room) listener(w want) (port, bool) {
	i := slices.IndexFunc(r.ports, func(p port) bool { return slices.Contains(w.ports, p.number) })
	if i < 0 {
		return port{}, false
	}
	return r.ports[i], true
}

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
func fillRooms(rooms []room, wants []want, together bool) (at []int, ok bool) {
	if together {
		for i := range rooms {
			if _, ok := inTurn(slices.Clone(rooms[i:i+1]), wants); ok {
				return slices.Repeat([]int{i}, len(wants)), true
			}
		}
		return nil, false
	}
	if at, ok = inTurn(slices.Clone(rooms), wants); !ok {
		at, ok = tight(slices.Clone(rooms), wants)
	}
	return at, ok
}

// inTurn changes the rooms.
func inTurn(rooms []room, wants []want) (at []int, ok bool) {
	next := 0
	for _, w := range wants {
		found := false
		for i := range rooms {
			k := (next + i) % len(rooms)
			if found = rooms[k].takes(w); found {
				rooms[k].give(w, "")
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
func tight(rooms []room, wants []want) (at []int, ok bool) {
	order := make([]int, len(wants))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return larger(wants[i].needs, wants[j].needs) })
	at = make([]int, len(wants))
	for _, i := range order {
		best := -1
		for k := range rooms {
			if rooms[k].takes(wants[i]) && (best < 0 || larger(rooms[k].left, rooms[best].left) > 0) {
				best = k
			}
		}
		if best < 0 {
			return nil, false
		}
		rooms[best].give(wants[i], "")
		at[i] = best
	}
	return at, true
}

// lacks says what a host has too little of for a member.
func (r *room) lacks(w want) string {
	n := w.needs
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
	if p, listens := r.listener(w); listens {
		return fmt.Sprintf("has a member of assignment %s that listens to port %d", p.assignment, p.number)
	}
	fits := 0
	for x := *r; x.takes(w); fits++ {
		x.give(w, "")
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
