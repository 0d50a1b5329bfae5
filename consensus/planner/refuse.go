package planner

import (
	"slices"
	"strings"

	"github.com/swarmd/swarmd/consensus/planner/independent"
	"github.com/swarmd/swarmd/consensus/state"
)

// maxRefusals bounds the lines that tell people who refuses whom.
const maxRefusals = 8

// refusals are pairs of nodes of which the first takes part in nothing with the second, as it says itself.
func (f *facts) refusals(nodes []string) (pairs [][2]string) {
	for _, s := range f.c.Active() {
		r := f.in.Reports[s.ID].Ready
		if r == nil || !slices.Contains(nodes, s.Node) {
			continue
		}
		for _, other := range r.Refuses {
			if other != s.Node && slices.Contains(nodes, other) {
				pairs = append(pairs, [2]string{s.Node, other})
			}
		}
	}
	return pairs
}

// accepting returns the largest set of these nodes in which nobody refuses another, and none is where another has never reached it, nor
// it the other: an attempt with two of which that is so would fail before it begins. Who has most of this is left out first, and who the
// rules require last.
func (f *facts) accepting(nodes []string, turn uint64) []string {
	pairs, apart := f.refusals(nodes), f.neverMet(nodes)
	if len(pairs)+len(apart) == 0 {
		return nodes
	}
	broken := slices.Clone(pairs)
	for _, p := range apart {
		broken = append(broken, [2]string{p[0].Node, p[0].Other})
	}
	// Of equal sets the earliest in order stay: who refuses comes last, so that nobody puts another out by refusing it. Two that can't reach each
	// other take turns by the number of the round, which nobody can choose: in a fixed order a liar that says so, and answers no dial, would put
	// out for ever who came after it. Several liars can still put one out, as theirs is the larger set.
	says := map[string]int{}
	for _, p := range pairs {
		says[p[0]]++
	}
	order := slices.Clone(nodes)
	if len(apart) > 0 && turn%2 == 0 {
		slices.Reverse(order)
	}
	slices.SortStableFunc(order, func(a, b string) int { return says[a] - says[b] })
	if len(apart) > 0 {
		f.requiredFirst(order)
	}
	kept := independent.Maximum(order, broken)
	return slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return !slices.Contains(kept, n) })
}

// mutual leaves out who is not in the largest set that accept one another: of two equal ones that whose turn it is, or the other if only
// that carries the round, as it would wait for ever.
func (l *lineup) mutual(peers []peer) (first []peer) {
	for turn := range uint64(2) {
		kept := l.facts.accepting(peerNodes(peers), l.facts.round()+turn)
		set := slices.DeleteFunc(slices.Clone(peers), func(p peer) bool { return !slices.Contains(kept, p.session.Node) })
		if len(set) == len(peers) || l.carries(l.participants(set)) {
			return set
		}
		if turn == 0 {
			first = set
		}
	}
	return first
}

// mutualParts is mutual of a plan's participants.
func (f *facts) mutualParts(parts []state.Participant) []state.Participant {
	kept := f.accepting(nodesOf(parts), f.round())
	return slices.DeleteFunc(slices.Clone(parts), func(p state.Participant) bool { return !slices.Contains(kept, p.Node) })
}

func peerNodes(peers []peer) []string {
	nodes := make([]string, len(peers))
	for i, p := range peers {
		nodes[i] = p.session.Node
	}
	return nodes
}

// refusing tells who refuses whom, in one line; empty: nobody does.
func refusing(pairs [][2]string) string {
	var parts []string
	for _, p := range pairs[:min(len(pairs), maxRefusals)] {
		parts = append(parts, p[0]+" refuses "+p[1])
	}
	if len(pairs) > maxRefusals {
		parts = append(parts, "…")
	}
	return strings.Join(parts, ", ")
}
