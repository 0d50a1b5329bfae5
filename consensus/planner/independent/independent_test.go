package independent_test

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/swarmd/swarmd/consensus/planner/independent"
)

// TestMaximum compares the size of the set with all subsets.
func TestMaximum(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		n := 2 + rng.IntN(8)
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf("sl-%d", i))
		}
		var edges [][2]string
		for range rng.IntN(2 * n) {
			edges = append(edges, [2]string{all[rng.IntN(n)], all[rng.IntN(n)]})
		}
		best := 0
		for set := range uint(1) << n {
			ok := true
			for _, e := range edges {
				i, j := int(e[0][3]-'0'), int(e[1][3]-'0')
				ok = ok && (set&(1<<i) == 0 || set&(1<<j) == 0)
			}
			if ok {
				best = max(best, bits.OnesCount(set))
			}
		}
		got := independent.Maximum(all, edges)
		if len(got) != best || slices.ContainsFunc(edges, func(e [2]string) bool { return slices.Contains(got, e[0]) && slices.Contains(got, e[1]) }) {
			t.Fatalf("Maximum(%v, %v) = %v, the largest set has %d", all, edges, got, best)
		}
	}
}

func TestWhichOfEqualSets(t *testing.T) {
	for _, tt := range []struct {
		name  string
		nodes []string
		edges [][2]string
		want  []string
	}{
		{"no edges", []string{"a", "b", "c"}, nil, []string{"a", "b", "c"}},
		{"of two the earlier", []string{"b", "a", "c"}, [][2]string{{"a", "b"}}, []string{"b", "c"}},
		{"an edge to oneself", []string{"a", "b"}, [][2]string{{"a", "a"}}, []string{"b"}},
		{"strangers count for nothing", []string{"a", "b"}, [][2]string{{"a", "x"}, {"", "b"}}, []string{"a", "b"}},
		{"a pair that is named twice", []string{"a", "b", "c"}, [][2]string{{"a", "b"}, {"b", "a"}}, []string{"a", "c"}},
	} {
		if got := independent.Maximum(tt.nodes, tt.edges); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestManyEdgesEndSoon: beyond exactLimit there is no branching, which would take longer than anybody waits.
func TestManyEdgesEndSoon(t *testing.T) {
	var nodes []string
	var edges [][2]string
	for i := range 200 {
		nodes = append(nodes, fmt.Sprint(i))
		for j := range i {
			if (i+j)%3 > 0 {
				edges = append(edges, [2]string{fmt.Sprint(i), fmt.Sprint(j)})
			}
		}
	}
	got := independent.Maximum(nodes, edges)
	if len(got) == 0 || slices.ContainsFunc(edges, func(e [2]string) bool { return slices.Contains(got, e[0]) && slices.Contains(got, e[1]) }) {
		t.Errorf("%v", got)
	}
}

// TestWhoHasNoEdgeCostsNothing: among so many nodes each step of the branching would take as long as all of it does without them.
func TestWhoHasNoEdgeCostsNothing(t *testing.T) {
	var nodes []string
	var edges [][2]string
	for i := range 1024 {
		nodes = append(nodes, fmt.Sprint(i))
	}
	for i := range 20 {
		for d := range 3 {
			edges = append(edges, [2]string{nodes[50*i], nodes[50*((i+d+1)%20)]})
		}
	}
	got := independent.Maximum(nodes, edges)
	if len(got) != 1024-20+5 || slices.ContainsFunc(edges, func(e [2]string) bool { return slices.Contains(got, e[0]) && slices.Contains(got, e[1]) }) {
		t.Errorf("%d nodes", len(got))
	}
	if !slices.IsSortedFunc(got, func(a, b string) int { return slices.Index(nodes, a) - slices.Index(nodes, b) }) {
		t.Error("in another order")
	}
}
