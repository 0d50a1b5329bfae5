package merge

import (
	"math"
	"slices"
)

// normClip bounds each update's norm around the last committed model, then
// takes the weighted mean (Sun et al. 2019, "Can you really backdoor federated
// learning?"; the adaptive bound as in MediSwarm). Integers take the plain mean.
var normClip = spec{
	name: "normclip",
	doc:  "weighted mean of updates whose norm is bounded",
	params: []param{
		{name: "factor", initial: 1.5, max: 1e6, above: true, doc: "bound on an update's norm, as a multiple of the weighted median of all norms"},
		{name: "cap", max: 1e300, doc: "fixed bound on an update's norm, instead of factor; 0: none"},
	},
	boundsNorms: true,
	base:        true,
	leaf: func(_ values, in Contributors) leafFunc {
		total := float64(weightSum(in.Weights))
		c := &combination{weights: in.Weights, shares: make([]float64, len(in.Weights)), centre: -1}
		for i, w := range in.Weights {
			c.shares[i] = float64(w) * in.Factors[i] / total
		}
		return func(w *work) error {
			for _, s := range w.segments {
				var bad int
				if s.DType.float() {
					bad = c.segment(w, s)
				} else {
					bad = mean64(w.dst, w.sources, c.weights, s)
				}
				if bad >= 0 {
					return blame(w.sources, c.weights, s.DType, bad)
				}
			}
			return nil
		}
	},
}

// leastFactor stands for 0, which a factor can not be: the update of a
// contributor with it counts for nothing in any number format.
const leastFactor = 0x1p-1022

// Factors returns what each contributor's update is scaled by: min(1, bound /
// norm). The bound is the parameter cap if that is above 0, else the parameter
// factor times the weighted median of the norms. A norm that is negative or not
// a number counts as infinite. It returns nil for a method without bounds.
func (m *Method) Factors(weights []uint32, norms []float64) []float64 {
	if !m.spec.boundsNorms || len(weights) != len(norms) {
		return nil
	}
	sane := slices.Clone(norms)
	for i, v := range sane {
		if !(v >= 0) {
			sane[i] = math.Inf(1)
		}
	}
	factor, bound := m.values[0], m.values[1]
	if bound == 0 {
		bound = factor * weightedMedian(weights, sane)
	}
	out := make([]float64, len(sane))
	for i, v := range sane {
		out[i] = 1
		if v > bound {
			out[i] = max(bound/v, leastFactor)
		}
	}
	return out
}

// weightedMedian returns the 0.5 quantile: the value at which the cumulative
// weight passes half, or the mean of two if it hits half between them.
func weightedMedian(weights []uint32, v []float64) float64 {
	order := make([]int, len(v))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case v[a] < v[b]:
			return -1
		case v[a] > v[b]:
			return 1
		}
		return 0
	})
	total := weightSum(weights)
	var sum uint64
	for k, i := range order {
		sum += uint64(weights[i])
		switch {
		case 2*sum > total:
			return v[i]
		case 2*sum == total:
			return middle(v[i], v[order[k+1]])
		}
	}
	return 0
}
