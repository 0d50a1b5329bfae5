package planner

import (
	"slices"

	"github.com/swarmd/swarmd/consensus/state"
)

// recall decides who goes on when those whom a failed attempt leaves are too few: the largest set without a broken link, as
// unconnected has it, but of all who are ready, and by all links that have broken in this round. So who was left out for a link
// to one that has gone on to break others comes back, and that one goes. Each failure adds a link, and honest peers' links hold:
// after as many attempts as liars have links the set is one of honest peers. Of equally large sets one with the nodes that the
// rules require goes on; a larger one without them does not carry the round. Who was left out by its own word stays out.
//
// Where no set of two or more carries the round, the same is tried again, as ever, and what broke before is forgotten: it may
// have healed.
func (d *decider) recall(failures []failure) {
	p := d.c.Plan
	var others []peer
	for _, o := range d.roster() {
		if o.live && o.ready && d.planned(o.session.Node) == "" {
			others = append(others, o)
		}
	}
	parts := slices.DeleteFunc(append(slices.Clone(p.Participants), d.participants(others)...), func(o state.Participant) bool {
		return slices.Contains(d.mem.proven, o.Node)
	})
	nodes := d.fewestBroken(nodesOf(parts))
	if rules := d.c.Rules; rules != nil {
		slices.SortStableFunc(nodes, func(a, b string) int {
			return bit(slices.Contains(rules.Required, b)) - bit(slices.Contains(rules.Required, a))
		})
	}
	keep := connected(nodes, append(unlinked(failures), d.mem.links()...))
	parts = slices.DeleteFunc(parts, func(o state.Participant) bool { return !slices.Contains(keep, o.Node) })
	if len(parts) < 2 || !d.carries(d.fit(parts)) {
		d.mem.broken = nil
		return
	}
	for _, node := range nodes {
		if !slices.Contains(keep, node) {
			d.mem.exclude(node)
			continue
		}
		d.mem.readmit(node)
		if d.planned(node) == "" {
			d.mem.recalled = p.Attempt
		}
	}
}

// links returns those that have broken in this round.
func (m *Memory) links() []failure {
	var links []failure
	for node, peers := range m.broken {
		for _, peer := range peers {
			links = append(links, failure{node: node, blamed: peer})
		}
	}
	return links
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
