package merge

import "slices"

// maxLiars bounds f: a plan has at most 4,096 participants.
const maxLiars = 2046

var liars = param{name: "f", initial: 1, max: maxLiars, whole: true, doc: "how many contributors may be hostile"}

// krum takes the model whose nearest others are nearest (Blanchard et al. 2017,
// "Machine learning with adversaries").
var krum = spec{
	name:      "krum",
	doc:       "the one model that lies closest to most others",
	params:    []param{liars},
	least:     func(p values) int { return 2*int(p[0]) + 3 },
	distances: true,
	leaf: func(p values, in Contributors) leafFunc {
		d := pairs{n: len(in.Weights), d: in.Distances}
		best := d.krum(in.Weights, everyone(d.n), int(p[0]))[0]
		return average(in.Weights, shares(in.Weights, []int{best}), best)
	},
}

func everyone(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// krum ranks the contributors in set by the sum of squared distances to their
// len(set)-f-2 nearest others in it, at least one. Weights decide nothing but
// ties, so that a heavy liar has no more say: the heavier, then the earlier one
// goes first.
func (p pairs) krum(weights []uint32, set []int, f int) []int {
	near := min(max(len(set)-f-2, 1), len(set)-1)
	scores := make([]float64, p.n)
	row := make([]float64, 0, len(set))
	for _, i := range set {
		row = row[:0]
		for _, j := range set {
			if i != j {
				row = append(row, p.at(i, j))
			}
		}
		slices.Sort(row)
		for _, d := range row[:near] {
			scores[i] += d
		}
	}
	ranked := slices.Clone(set)
	slices.SortStableFunc(ranked, func(a, b int) int {
		switch {
		case scores[a] < scores[b]:
			return -1
		case scores[a] > scores[b]:
			return 1
		}
		return byWeight(weights, a, b)
	})
	return ranked
}

// byWeight orders by weight, heaviest first, then by place in the plan.
func byWeight(weights []uint32, a, b int) int {
	switch {
	case weights[a] > weights[b]:
		return -1
	case weights[a] < weights[b]:
		return 1
	}
	return a - b
}

// shares returns the weights of the chosen as parts of their sum, and 0 for the
// others.
func shares(weights []uint32, chosen []int) []float64 {
	var total uint64
	for _, i := range chosen {
		total += uint64(weights[i])
	}
	out := make([]float64, len(weights))
	for _, i := range chosen {
		out[i] = float64(weights[i]) / float64(total)
	}
	return out
}
