package planner

import "slices"

// exactLimit is the number of nodes with broken links up to which the largest set is found exactly.
const exactLimit = 20

// connected returns the largest set of nodes without a broken link between two of them; of equal ones the one that holds
// the earliest nodes. With very many broken links the node with most of them is left out first, which may lose a few more
// than needed.
func connected(nodes []string, failures []failure) []string {
	broken := map[string]map[string]bool{}
	link := func(a, b string) {
		if broken[a] == nil {
			broken[a] = map[string]bool{}
		}
		broken[a][b] = true
	}
	for _, f := range failures {
		if f.blamed == "" || !slices.Contains(nodes, f.blamed) || !slices.Contains(nodes, f.node) {
			continue
		}
		link(f.node, f.blamed)
		link(f.blamed, f.node)
	}
	return largest(nodes, broken, len(broken) <= exactLimit)
}

// largest branches on the node with most broken links: either it is in the set, or it is not.
func largest(nodes []string, broken map[string]map[string]bool, exact bool) []string {
	worst, most := "", 0
	for _, n := range nodes {
		degree := 0
		for _, o := range nodes {
			if broken[n][o] {
				degree++
			}
		}
		if degree > most || degree > 0 && degree == most { // Of equal ones the latest is left out.
			worst, most = n, degree
		}
	}
	if most == 0 {
		return nodes
	}
	rest := slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return n == worst })
	without := largest(rest, broken, exact)
	if !exact || broken[worst][worst] {
		return without
	}
	with := largest(slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return broken[worst][n] }), broken, exact)
	if len(with) > len(without) {
		return with
	}
	return without
}
