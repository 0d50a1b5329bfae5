package merge

import "math"

// blend merges to centre + Σ shares_i (x_i - centre), in float64, rounded once.
type blend struct {
	weights []uint32  // who is blamed when sums overflow
	shares  []float64 // a contributor with 0 takes no part
	centre  int       // the contributor around which is summed; -1: base
	alone   bool      // the centre is all
}

// average returns a leafFunc for shares of a sum of 1. Summing around one of
// the contributors gives back exactly what all agree on.
func average(weights []uint32, shares []float64, centre int) leafFunc {
	b := &blend{weights: weights, shares: shares, centre: centre, alone: true}
	for i, s := range shares {
		if i != centre && s != 0 {
			b.alone = false
		}
	}
	return b.leaf
}

func (b *blend) leaf(w *work) error {
	for _, s := range w.segments {
		if bad := b.segment(w, s); bad >= 0 {
			return blame(w.sources, b.weights, s.DType, bad)
		}
	}
	return nil
}

// segment returns the leaf offset of the first element that is not finite, or -1.
func (b *blend) segment(w *work, s Segment) int {
	from := w.base
	if b.centre >= 0 {
		from = w.sources[b.centre]
	}
	var mid, sum, row [strip]float64
	size := s.DType.Size()
	for at := s.Start; at < s.End; at += strip * size {
		end := min(at+strip*size, s.End)
		k := (end - at) / size
		c, a := mid[:k], sum[:k]
		if from != nil {
			c = widen(s.DType, from[at:end], mid[:])
		}
		if b.alone && s.DType != Bool {
			if e := notFinite(c); e >= 0 {
				return at + e*size
			}
			copy(w.dst[at:end], from[at:end]) // 64-bit integers too, which float64 does not hold.
			continue
		}
		clear(a)
		for i, share := range b.shares {
			if i == b.centre || share == 0 {
				continue
			}
			x := widen(s.DType, w.sources[i][at:end], row[:])
			for e := range a {
				a[e] += float64(share * (x[e] - c[e]))
			}
		}
		for e := range a {
			a[e] += c[e]
		}
		if e := notFinite(a); e >= 0 {
			return at + e*size
		}
		narrow(s.DType, w.dst[at:end], a)
	}
	return -1
}

// pairs reads squared distances between n contributors from the list of pairs.
type pairs struct {
	n int
	d []float64
}

// at returns the squared distance of i and j.
func (p pairs) at(i, j int) float64 {
	switch {
	case i == j:
		return 0
	case i > j:
		i, j = j, i
	}
	return p.d[i*(2*p.n-i-1)/2+j-i-1]
}

// medoid returns the contributor with the least weighted sum of distances to
// the others, the first of equals. Less than half of the weight can not move it
// away from the rest.
func (p pairs) medoid(weights []uint32) int {
	best, least := 0, math.Inf(1)
	for i := range p.n {
		var sum float64
		for j := range p.n {
			sum += float64(float64(weights[j]) * math.Sqrt(p.at(i, j)))
		}
		if sum < least {
			best, least = i, sum
		}
	}
	return best
}
