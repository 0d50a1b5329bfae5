package planner

import (
	"slices"

	"github.com/swarmd/swarmd/consensus/planner/independent"
	"github.com/swarmd/swarmd/consensus/state"
)

// readmit decides who goes on when those whom a failed attempt leaves are too few: the largest set without a broken link, as
// unconnected has it, but of all who are ready, and by all links that have broken in this round. So who was left out for a link
// to one that has gone on to break others comes back, and that one goes. Each failure adds a link, and honest peers' links hold:
// after as many attempts as liars have links the set is one of honest peers. Of equally large sets one with the nodes that the
// rules require goes on; a larger one without them does not carry the round. Who was left out by its own word stays out.
//
// Where that set does not carry the round, as one that has failed by its own word can't be spared, it is looked for once more as if
// nobody had failed so: then those go who named it.
//
// Where no set of two or more carries the round, the same is tried again, as ever, and what broke before is forgotten: it may
// have healed.
func (bl *blame) readmit(failures []failure) {
	p := bl.facts.c.Plan
	var more []peer
	for _, o := range bl.lineup.roster() {
		if o.live && o.ready && bl.facts.planned(o.session.Node) == "" {
			more = append(more, o)
		}
	}
	parts := slices.DeleteFunc(append(slices.Clone(p.Participants), bl.lineup.participants(more)...), func(o state.Participant) bool {
		return slices.Contains(bl.out.proven, o.Node)
	})
	nodes := bl.fewestBroken(nodesOf(parts))
	bl.facts.requiredFirst(nodes)
	keep := independent.Maximum(nodes, append(links(unlinked(failures)), bl.out.links()...))
	if !bl.carry(parts, keep) {
		keep = independent.Maximum(nodes, append(links(others(failures)), bl.out.links()...))
	}
	if !bl.carry(parts, keep) {
		bl.out.broken = nil
		return
	}
	for _, node := range nodes {
		if !slices.Contains(keep, node) {
			bl.out.exclude(node)
			continue
		}
		bl.out.readmit(node)
		if bl.facts.planned(node) == "" {
			bl.out.readmittedIn = p.Attempt
		}
	}
}

// carry reports whether those who are kept, two or more, could hold the round.
func (bl *blame) carry(parts []state.Participant, keep []string) bool {
	kept := slices.DeleteFunc(slices.Clone(parts), func(o state.Participant) bool { return !slices.Contains(keep, o.Node) })
	return len(kept) >= 2 && bl.lineup.carries(bl.lineup.fit(kept))
}

// others are the failures that were laid to somebody else.
func others(failures []failure) []failure {
	return slices.DeleteFunc(slices.Clone(failures), func(f failure) bool { return f.alone || f.blamed == f.node })
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// requiredFirst moves the nodes that the rules require to the front.
func (f *facts) requiredFirst(nodes []string) {
	if rules := f.c.Rules; rules != nil {
		slices.SortStableFunc(nodes, func(a, b string) int {
			return bit(slices.Contains(rules.Required, b)) - bit(slices.Contains(rules.Required, a))
		})
	}
}
