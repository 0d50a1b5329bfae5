package planner

import (
	"slices"

	"github.com/swarmd/swarmd/consensus/planner/independent"
)

// witnessed returns the failures that tell something. Who only heard of one repeats another's word, which counts once, when it
// comes from where the talk began. Somebody must have begun it: where the chain of those who heard ends at one that reported
// no failure, or in a circle, all that is known there is that the teller left the attempt and gave the leader no reason. That
// is kept as a link that does not carry, with from still set. So whatever is reported, a failure is laid to someone.
func witnessed(failures []failure) []failure {
	by := map[string]failure{}
	for _, f := range failures {
		by[f.node] = f
	}
	var told []failure
	for _, f := range failures {
		switch {
		case f.from == "":
			f.alone = f.blamed == ""
			told = append(told, f)
		case baseless(f, by):
			f.blamed = f.from
			told = append(told, f)
		}
	}
	return told
}

// baseless reports whether an indirect report's teller has no failure of its own to report, or got it from the very one that heard.
func baseless(f failure, by map[string]failure) bool {
	teller, failed := by[f.from]
	if !failed {
		return true
	}
	for range by {
		if teller.node == f.node {
			return true
		}
		if teller.from == "" {
			return false
		}
		if teller, failed = by[teller.from]; !failed {
			return false // that is its tale
		}
	}
	return false
}

// unconnected returns the participants outside the largest set in which nobody failed because of another, and outside it too
// those who fail again and again and blame nobody. Of two ends of a broken link that one goes whose links to more peers have
// broken in this round: who accuses one after the other goes before the second.
func (bl *blame) unconnected(failures []failure) []string {
	nodes := bl.fewestBroken(nodesOf(bl.facts.c.Plan.Participants))
	keep := independent.Maximum(nodes, links(unlinked(failures)))
	return slices.DeleteFunc(nodes, func(n string) bool { return slices.Contains(keep, n) })
}

// fewestBroken sorts nodes by the number of their links that have broken in this round, and else leaves their order.
func (bl *blame) fewestBroken(nodes []string) []string {
	slices.SortStableFunc(nodes, func(a, b string) int { return len(bl.out.broken[a]) - len(bl.out.broken[b]) })
	return nodes
}

// links are the pairs of nodes between which failures were. Who blames nobody is in none.
func links(failures []failure) (broken [][2]string) {
	for _, f := range failures {
		if f.blamed != "" {
			broken = append(broken, [2]string{f.node, f.blamed})
		}
	}
	return broken
}

// unlinked lays the failures of those who blame nobody to themselves.
func unlinked(failures []failure) []failure {
	laid := slices.Clone(failures)
	for i, f := range laid {
		if f.alone {
			laid[i].blamed = f.node
		}
	}
	return laid
}
