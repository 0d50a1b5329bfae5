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
		return columnwise(n, func(s *sorter, e int) float64 {
			var sum uint64
			for r := range n {
				sum += uint64(weights[s.owner(r, e)])
				switch {
				case 2*sum > total:
					return s.value(r, e)
				case 2*sum == total:
					return middle(s.value(r, e), s.value(r+1, e))
				}
			}
			return 0 // Not reached: the sum ends at the total.
		})
	},
}
