package merge

import "math"

// trimmedMean drops a share of the weight at each end of each coordinate (Yin
// et al. 2018, with weights); name and default as Flower's FedTrimmedAvg.
var trimmedMean = spec{
	name: "trimmedmean",
	doc:  "mean of each coordinate without the largest and smallest values",
	params: []param{
		{name: "share", initial: 0.2, max: 0.49, doc: "share of the total weight that is dropped at each end"},
	},
	leaf: func(p values, in Contributors) leafFunc {
		total := float64(weightSum(in.Weights))
		low := whole(float64(p[0] * total))
		high := total - low
		// inside is what remains of a weight that begins at a place of the
		// cumulative weight.
		inside := func(from, weight float64) float64 { return max(0, min(from+weight, high)-max(from, low)) }
		if equal(in.Weights) {
			ranks := make([]float64, len(in.Weights))
			w := float64(in.Weights[0])
			for r := range ranks {
				ranks[r] = inside(float64(w*float64(r)), w)
			}
			return rankwise(ranks)
		}
		weights := make([]float64, len(in.Weights))
		for i, w := range in.Weights {
			weights[i] = float64(w)
		}
		return columnwise(len(weights), func(s *sorter, e int) float64 {
			var to, sum, kept, least, most float64
			for r := 0; to < high; r++ {
				from := to
				to += weights[s.owner(r, e)]
				if to <= low {
					continue
				}
				most = s.value(r, e)
				if kept == 0 {
					least = most
				}
				k := to - from
				if from < low || to > high {
					k = inside(from, k)
				}
				sum += float64(k * most)
				kept += k
			}
			return min(max(sum/kept, least), most)
		})
	},
}

// whole removes a rounding error from a sum of weights, which are whole
// numbers: the remainder that an error leaves of a weight, times a huge value,
// must not count.
func whole(v float64) float64 {
	if r := math.Round(v); math.Abs(v-r) <= 1e-9*max(1, r) {
		return r
	}
	return v
}
