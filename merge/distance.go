package merge

import (
	"fmt"
	"math"
)

// maxSquares bounds a shard's squared distance, so that the sum over all owners
// is finite whatever contributors send.
const maxSquares = 1e300

// strip is how many elements of each contributor are decoded at a time for
// work that needs all contributors' elements together.
const strip = 256

// Distances sums the squared distances between all pairs of contributors over
// the float tensors of the leaves that it is given: an owner's shard. The sums
// are float64. It is for one goroutine.
type Distances struct {
	layout   *Layout
	n        int
	sums     []float64
	rows     []float64 // n strips
	segments []Segment
}

// NewDistances returns sums of 0 for n contributors.
func NewDistances(l *Layout, n int) *Distances {
	return &Distances{layout: l, n: n, sums: make([]float64, n*(n-1)/2), rows: make([]float64, n*strip)}
}

// Sums returns a copy of the n(n-1)/2 sums so far, in the order of
// Contributors.Distances.
func (d *Distances) Sums() []float64 { return append([]float64(nil), d.sums...) }

// Add adds the distances over one leaf. A value that is not finite, or so large
// that its square is useless, is an error of type *NonFinite; the sums must
// not be used afterwards. Add does not allocate unless it fails.
func (d *Distances) Add(leaf int, sources [][]byte) error {
	if leaf < 0 || leaf >= d.layout.Leaves() || len(sources) != d.n || d.n == 0 {
		return fmt.Errorf("distances of leaf %d: %d sources for %d contributors and %d leaves",
			leaf, len(sources), d.n, d.layout.Leaves())
	}
	if err := checkLeaf(d.layout, leaf, sources[0], sources, nil); err != nil {
		return err
	}
	d.segments = d.layout.AppendSegments(d.segments[:0], leaf)
	for _, s := range d.segments {
		if !s.DType.float() {
			continue
		}
		if err := d.segment(s, sources); err != nil {
			err.locate(d.layout, leaf)
			return err
		}
	}
	return nil
}

func (d *Distances) segment(s Segment, sources [][]byte) *NonFinite {
	size := s.DType.Size()
	for at := s.Start; at < s.End; at += strip * size {
		end := min(at+strip*size, s.End)
		k := (end - at) / size
		for i, src := range sources {
			row := widen(s.DType, src[at:end], d.rows[i*strip:])
			if e := notFinite(row); e >= 0 {
				return &NonFinite{Contributor: i, Offset: int64(at + e*size), Value: row[e]}
			}
		}
		pair := 0
		for i := range d.n {
			a := d.rows[i*strip : i*strip+k]
			for j := i + 1; j < d.n; j++ {
				sum := d.sums[pair] + squares(a, d.rows[j*strip:j*strip+k])
				if sum > maxSquares || math.IsNaN(sum) {
					return d.largest(k, at, size)
				}
				d.sums[pair] = sum
				pair++
			}
		}
	}
	return nil
}

// largest blames the contributor of the largest magnitude among the strips.
func (d *Distances) largest(k, at, size int) *NonFinite {
	worst, e := 0, 0
	for i := range d.n {
		for j := range k {
			if math.Abs(d.rows[i*strip+j]) > math.Abs(d.rows[worst*strip+e]) {
				worst, e = i, j
			}
		}
	}
	return &NonFinite{Contributor: worst, Offset: int64(at + e*size), Value: d.rows[worst*strip+e]}
}

// squares returns |a-b|². Four sums hide the latency of addition; their order
// is fixed, and the conversions keep compilers from fusing.
func squares(a, b []float64) float64 {
	var s0, s1, s2, s3 float64
	b = b[:len(a)]
	for len(a) >= 4 {
		x, y := a[:4:4], b[:4:4]
		d0, d1, d2, d3 := x[0]-y[0], x[1]-y[1], x[2]-y[2], x[3]-y[3]
		s0 += float64(d0 * d0)
		s1 += float64(d1 * d1)
		s2 += float64(d2 * d2)
		s3 += float64(d3 * d3)
		a, b = a[4:], b[4:]
	}
	b = b[:len(a)]
	for i := range a {
		d := a[i] - b[i]
		s0 += float64(d * d)
	}
	return s0 + s1 + (s2 + s3)
}

// UpdateSquares returns the sum of squares of x-base over a leaf's float
// elements. x and base must have the leaf's length; a nil base is zero. The sum
// is NaN or infinite if a value is.
func UpdateSquares(l *Layout, leaf int, x, base []byte) float64 {
	var a, b [strip]float64
	var sum float64
	for _, s := range l.AppendSegments(nil, leaf) {
		if !s.DType.float() {
			continue
		}
		size := s.DType.Size()
		for at := s.Start; at < s.End; at += strip * size {
			end := min(at+strip*size, s.End)
			row := widen(s.DType, x[at:end], a[:])
			from := b[:len(row)]
			if base != nil {
				from = widen(s.DType, base[at:end], b[:])
			}
			sum += squares(row, from)
		}
	}
	return sum
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
