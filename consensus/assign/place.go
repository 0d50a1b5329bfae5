package assign

import (
	"fmt"
	"slices"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/identity/naming"
)

// given is what a host gives to a member that may still run.
type given struct {
	assignment string
	modest     bool // others may have some of the host beside it
	want
}

// givenBy is what hosts give to members that may still run.
func givenBy(b *task.Board) map[string][]given {
	by := map[string][]given{}
	for _, id := range b.LiveIDs() {
		a := b.Assignments[id]
		next := givenInTurn(a)
		for _, m := range a.Members {
			if g := next(m.Group); !m.Cleaned {
				by[m.Node] = append(by[m.Node], g)
			}
		}
	}
	return by
}

// givenInTurn returns what says what the members of an assignment are given, by the group of the next one. There may be many of them: what is the same
// for all is made once.
func givenInTurn(a *task.Assignment) func(group string) given {
	modest, begun := task.Modest(a), map[string]bool{}
	return func(group string) given {
		g := given{assignment: a.ID, modest: modest}
		if i := slices.IndexFunc(a.Groups, func(x task.Group) bool { return x.Name == group }); i >= 0 {
			g.want = wantOf(a.Groups[i], !begun[group])
		}
		begun[group] = true
		return g
	}
}

// taken is the assignment that keeps another from a host; empty: none does. Of what is placed nothing of its own is left.
func (d *decision) taken(a *task.Assignment, host string) string {
	for _, g := range d.given[host] {
		if g.assignment != a.ID && (!g.modest || !task.Modest(a)) {
			return g.assignment
		}
	}
	return ""
}

// begin places an epoch, or says what it waits for.
func (d *decision) begin(a *task.Assignment, m *task.Move) {
	if !d.settled(a) {
		return // Wants says why the last one was withdrawn
	}
	find := d.place
	if a.Shares {
		find = d.placeJob
	}
	places, lack := find(a)
	switch {
	case lack == "":
		m.Do, m.Members = task.Place, places
		next := givenInTurn(a)
		for _, p := range places {
			d.given[p.Node] = append(d.given[p.Node], next(p.Group))
		}
	case d.hopeless(a):
		d.judge(a, m, task.EndRefused, "too few of the hosts that were named can take it: "+a.Wants)
	case state.ClipWords(lack, task.MaxText) != a.Wants:
		m.Do, m.Why = task.Wait, state.ClipWords(lack, task.MaxText)
	}
}

// hopeless reports whether so many of the hosts that alone may take an assignment have refused that it can't be placed.
func (d *decision) hopeless(a *task.Assignment) bool {
	if len(a.Hosts) == 0 {
		return false
	}
	var need, may uint32
	for _, g := range a.Groups {
		need += g.Peers
	}
	for _, h := range a.Hosts {
		if !slices.Contains(a.Avoid, h) && !d.missed(a, h) {
			may += d.counts(a, d.in.View.Nodes[h])
		}
	}
	return may < need
}

// place finds hosts for all groups, in the order of their names, so that each leader finds the same. lack says what is missing.
func (d *decision) place(a *task.Assignment) (places []task.Placement, lack string) {
	free := d.free(a)
	for _, g := range a.Groups {
		found := uint32(0)
		for found < g.Peers && len(free) > 0 {
			p := task.Placement{Node: free[0].Name, Group: g.Name, Peers: d.counts(a, free[0])}
			places, free, found = append(places, p), free[1:], found+p.Peers
		}
		if found < g.Peers {
			return nil, d.lack(a, g, found)
		}
	}
	return places, ""
}

// lack says what is missing.
func (d *decision) lack(a *task.Assignment, g task.Group, found uint32) string {
	on := "on taskrunner " + a.Taskrunner
	if len(a.Hosts) > 0 {
		on = "on the hosts that were named"
	}
	of := ""
	if len(a.Groups) > 1 {
		of = " of group " + g.Name
	}
	return fmt.Sprintf("%d more of %d peers%s %s", g.Peers-found, g.Peers, of, on)
}

// free are the hosts that can take a member of the assignment, by name.
func (d *decision) free(a *task.Assignment) []*state.Node {
	return slices.DeleteFunc(d.in.View.NodesByRole(naming.RoleSWOP), func(n *state.Node) bool {
		listens := n.Offer != nil && n.Offer.Taskrunner == a.Taskrunner
		if len(a.Hosts) > 0 {
			listens = slices.Contains(a.Hosts, n.Name)
		}
		if a.Shares && (n.Offer == nil || n.Offer.Jobs == "") {
			return true
		}
		return !listens || !n.Live || d.in.View.Banned(n.PeerID) != nil || d.taken(a, n.Name) != "" || slices.Contains(a.Avoid, n.Name) || d.missed(a, n.Name)
	})
}

// counts is for how many peers a host counts; one that is not known yet for one. Of a job it may be as many members.
func (d *decision) counts(a *task.Assignment, n *state.Node) uint32 {
	if a.Shares {
		return task.MaxHosted
	}
	t := d.board.Task(a.Task)
	if n == nil || n.Offer == nil || t == nil {
		return 1
	}
	return n.Offer.Counts(t.Type)
}
