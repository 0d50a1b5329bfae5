package merge

// coordMedian is the weighted median of each coordinate (Yin et al. 2018,
// "Byzantine-robust distributed learning", with weights).
var coordMedian = spec{
	name: "coordmedian",
	doc:  "weighted median of each coordinate",
	leaf: func(_ values, in Contributors) leafFunc {
		n := len(in.Weights)
		if equal(in.Weights) {
			ranks := make([]float64, n)
			ranks[(n-1)/2], ranks[n/2] = 1, 1
			return rankwise(ranks)
		}
		weights, total := in.Weights, weightSum(in.Weights)
		return columnwise(n, func(v []float64, order []uint16) float64 {
			var sum uint64
			for r, i := range order {
				sum += uint64(weights[i])
				switch {
				case 2*sum > total:
					return v[r]
				case 2*sum == total:
					return middle(v[r], v[r+1])
				}
			}
			return 0 // Not reached: the sum ends at the total.
		})
	},
}
