package merge

import "slices"

// bulyan chooses by repeated krum, then averages per coordinate what lies
// around the median (El Mhamdi et al. 2018, "The hidden vulnerability of
// distributed learning in Byzantium").
var bulyan = spec{
	name:      "bulyan",
	doc:       "models chosen by repeated krum, then the mean around the median of each coordinate",
	params:    []param{liars},
	least:     func(p values) int { return 4*int(p[0]) + 3 },
	distances: true,
	leaf: func(p values, in Contributors) leafFunc {
		d := pairs{n: len(in.Weights), d: in.Distances}
		f := int(p[0])
		left, chosen := everyone(d.n), []int(nil)
		for len(chosen) < d.n-2*f {
			best := d.krum(in.Weights, left, f)[0]
			chosen = append(chosen, best)
			left = slices.DeleteFunc(left, func(i int) bool { return i == best })
		}
		slices.Sort(chosen)
		return amongChosen(chosen, in.Weights, len(chosen)-2*f)
	},
}

// amongChosen merges, per coordinate, the keep values of the chosen models that
// lie closest to their median.
func amongChosen(chosen []int, weights []uint32, keep int) leafFunc {
	w := make([]uint32, len(chosen))
	for k, i := range chosen {
		w[k] = weights[i]
	}
	leaf := columnwise(len(chosen), func(s *sorter, e int) float64 {
		v, order := s.column(e)
		return around(v, order, w, keep)
	})
	inner := work{sources: make([][]byte, len(chosen))}
	return func(o *work) error {
		for k, i := range chosen {
			inner.sources[k] = o.sources[i]
		}
		inner.dst, inner.segments = o.dst, o.segments
		err := leaf(&inner)
		inner.dst, inner.segments = nil, nil
		clear(inner.sources)
		if err == nil {
			return nil
		}
		if nf, ok := err.(*NonFinite); ok && nf.Contributor >= 0 { //nolint:errorlint // This package's own, not wrapped.
			nf.Contributor = chosen[nf.Contributor]
		}
		return err
	}
}

// around returns the weighted mean of the keep values closest to the unweighted
// median. Of values equally far, those of heavier, then of earlier contributors
// stay. It may reorder equal values.
func around(v []float64, order []uint16, weights []uint32, keep int) float64 {
	n := len(v)
	median := middle(v[(n-1)/2], v[n/2])
	low, high := 0, n-1
	for high-low+1 > keep {
		below, above := median-v[low], v[high]-median
		// The last of those that are farthest goes; equal values stand together.
		drop := -1
		if below >= above {
			for r := low; r <= high && v[r] == v[low]; r++ {
				drop = lesser(order, weights, drop, r)
			}
		}
		if above >= below {
			for r := high; r >= low && v[r] == v[high]; r-- {
				drop = lesser(order, weights, drop, r)
			}
		}
		if v[drop] == v[low] {
			order[drop], order[low] = order[low], order[drop]
			low++
		} else {
			order[drop], order[high] = order[high], order[drop]
			high--
		}
	}
	var sum, total float64
	for r := low; r <= high; r++ {
		w := float64(weights[order[r]])
		sum += float64(w * v[r])
		total += w
	}
	return min(max(sum/total, v[low]), v[high])
}

// lesser returns which of two ranks goes first when one must; -1 is none.
func lesser(order []uint16, weights []uint32, a, b int) int {
	if a < 0 || byWeight(weights, int(order[a]), int(order[b])) < 0 {
		return b
	}
	return a
}
