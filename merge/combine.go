package merge

// combination merges to centre + Σ shares_i (x_i - centre), in float64, rounded once.
type combination struct {
	weights    []uint32  // to find whom to blame when a sum overflows
	shares     []float64 // a contributor with 0 takes no part
	centre     int       // the contributor that differences are taken from; -1: the base
	centreOnly bool      // no other contributor has a share
}

// average returns a leafFunc for shares whose sum is 1. It sums differences
// from one contributor, so elements on which all contributors agree come out
// exactly.
func average(weights []uint32, shares []float64, centre int) leafFunc {
	c := &combination{weights: weights, shares: shares, centre: centre, centreOnly: true}
	for i, s := range shares {
		if i != centre && s != 0 {
			c.centreOnly = false
		}
	}
	return c.leaf
}

func (c *combination) leaf(w *work) error {
	for _, s := range w.segments {
		if bad := c.segment(w, s); bad >= 0 {
			return blame(w.sources, c.weights, s.DType, bad)
		}
	}
	return nil
}

// segment returns the leaf offset of the first element that is not finite, or -1.
func (c *combination) segment(w *work, s Segment) int {
	from := w.base
	if c.centre >= 0 {
		from = w.sources[c.centre]
	}
	var around, sum, row [strip]float64
	size := s.DType.Size()
	for at := s.Start; at < s.End; at += strip * size {
		end := min(at+strip*size, s.End)
		k := (end - at) / size
		origin, a := around[:k], sum[:k]
		if from != nil {
			origin = widen(s.DType, from[at:end], around[:])
		}
		if c.centreOnly && s.DType != Bool {
			if e := notFinite(origin); e >= 0 {
				return at + e*size
			}
			copy(w.dst[at:end], from[at:end]) // 64-bit integers too, which float64 does not hold.
			continue
		}
		clear(a)
		for i, share := range c.shares {
			if i == c.centre || share == 0 {
				continue
			}
			x := widen(s.DType, w.sources[i][at:end], row[:])
			for e := range a {
				a[e] += float64(share * (x[e] - origin[e]))
			}
		}
		for e := range a {
			a[e] += origin[e]
		}
		if e := notFinite(a); e >= 0 {
			return at + e*size
		}
		narrow(s.DType, w.dst[at:end], a)
	}
	return -1
}
