// Package independent finds maximum independent sets: of nodes of which some pairs can't work together, as many as possible of whom all
// can. It is a pure function.
package independent

import "slices"

// exactLimit is the number of nodes with an edge up to which the maximum is found exactly.
const exactLimit = 20

// Maximum returns the largest set of nodes without an edge between two of them; of equal ones the one that holds the earliest nodes. A
// node with an edge to itself is in none, and edges to others than nodes count for nothing. With very many edges the node with most of
// them is left out first, which may lose a few more than needed. The nodes differ from each other.
func Maximum(nodes []string, edges [][2]string) []string {
	adjacent := map[string]map[string]bool{}
	link := func(a, b string) {
		if adjacent[a] == nil {
			adjacent[a] = map[string]bool{}
		}
		adjacent[a][b] = true
	}
	for _, e := range edges {
		if !slices.Contains(nodes, e[0]) || !slices.Contains(nodes, e[1]) {
			continue
		}
		link(e[0], e[1])
		link(e[1], e[0])
	}
	linked := slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return adjacent[n] == nil }) // The others are in every set, and cost nothing.
	kept := largest(linked, adjacent, len(adjacent) <= exactLimit)
	return slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return adjacent[n] != nil && !slices.Contains(kept, n) })
}

// largest branches on the node with most edges: either it is in the set, or it is not.
func largest(nodes []string, adjacent map[string]map[string]bool, exact bool) []string {
	worst, most := "", 0
	there := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		there[n] = true
	}
	for _, n := range nodes {
		degree := 0
		for o := range adjacent[n] {
			if there[o] {
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
	without := largest(rest, adjacent, exact)
	if !exact || adjacent[worst][worst] {
		return without
	}
	with := largest(slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return adjacent[worst][n] }), adjacent, exact)
	if len(with) > len(without) {
		return with
	}
	return without
}
