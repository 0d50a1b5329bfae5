package lead

import (
	"slices"

	"github.com/swarmd/swarmd/consensus/state"
)

// recall decides who goes on when those whom a failed attempt leaves are too few: the largest set without a broken link, as
// unconnected has it, but of all who are ready, and by all links that have broken in this round. So who was left out for a link
// to one that has gone on to break others comes back, and that one goes. Each failure adds a link, and honest peers' links hold:
// after as many attempts as liars have links the set is one of honest peers. Nodes that the rules require go last.
//
// Where no set carries the round, the same is tried again, as ever, and what broke before is forgotten: it may have healed.
func (d *decider) recall(failures []failure) {
	var others []peer
	for _, p := range d.roster() {
		if p.live && p.ready && d.planned(p.session.Node) == "" {
			others = append(others, p)
		}
	}
	parts := append(slices.Clone(d.c.Plan.Participants), d.participants(others)...)
	nodes := d.fewestBroken(nodesOf(parts))
	if rules := d.c.Rules; rules != nil {
		slices.SortStableFunc(nodes, func(a, b string) int {
			return bit(slices.Contains(rules.Required, b)) - bit(slices.Contains(rules.Required, a))
		})
	}
	keep := connected(nodes, append(unlinked(failures), d.mem.links()...))
	parts = slices.DeleteFunc(parts, func(p state.Participant) bool { return !slices.Contains(keep, p.Node) })
	if !d.carries(d.fit(parts)) {
		d.mem.broken = nil
		return
	}
	for _, node := range nodes {
		if slices.Contains(keep, node) {
			d.mem.readmit(node)
		} else {
			d.mem.exclude(node)
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
