package merge

import "math"

// mean is the weighted mean, federated averaging (McMahan et al. 2017).
var mean = spec{
	name: "mean",
	doc:  "weighted mean",
	leaf: meanOf,
}

func meanOf(_ values, in Contributors) leafFunc {
	return newMeaner(in.Weights, fastest).leaf
}

const (
	// block is how many elements are accumulated at a time: the accumulator stays in the L1 cache.
	block = 1024
	// group is how many sources are added at a time. Processors prefetch about as many streams.
	group = 8
)

// meaner is the weighted mean Σwx / Σw. Floating point types of up to 32 bits
// accumulate in float32, the others in float64; integers round half to even and
// saturate; bool is true when more than half of the weight says so.
type meaner struct {
	kernel  kernel
	weights []uint32
	floats  []float32 // weights
	sum     float32   // of the weights
	acc     [block]float32
	rows    [group][]float32
	scratch [group][block]float32
}

func newMeaner(weights []uint32, k kernel) *meaner {
	m := &meaner{kernel: k, weights: weights, sum: float32(weightSum(weights))}
	for _, w := range weights {
		m.floats = append(m.floats, float32(w))
	}
	return m
}

func (m *meaner) leaf(w *work) error {
	defer clear(m.rows[:])
	for _, s := range w.segments {
		var bad int
		switch s.DType {
		case Float32, Float16, BFloat16:
			bad = m.segment(w.dst, w.sources, s)
		default:
			bad = mean64(w.dst, w.sources, m.weights, s)
		}
		if bad >= 0 {
			return blame(w.sources, m.weights, s.DType, bad)
		}
	}
	return nil
}

// segment merges types of up to 32 bits. It returns the leaf offset of the
// first element that is not finite, or -1.
func (m *meaner) segment(dst []byte, sources [][]byte, s Segment) int {
	size := s.DType.Size()
	for at := s.Start; at < s.End; at += block * size {
		end := min(at+block*size, s.End)
		a := m.acc[:(end-at)/size]
		inPlace := false
		if s.DType == Float32 {
			if v := view[float32](dst[at:end]); v != nil {
				a, inPlace = v, true
			}
		}
		if !m.accumulate(a, sources, s.DType, at, end) {
			for i, v := range a {
				if !finite32(v) {
					return at + i*size
				}
			}
		}
		if !inPlace {
			store32(s.DType, dst[at:end], a)
		}
	}
	return -1
}

// accumulate reports whether all of a is finite.
func (m *meaner) accumulate(a []float32, sources [][]byte, d DType, at, end int) (finite bool) {
	for first := 0; first < len(sources); first += group {
		last := min(first+group, len(sources))
		rows := m.rows[:last-first]
		for i := range rows {
			rows[i] = load32(d, sources[first+i][at:end], m.scratch[i][:])
		}
		var sum float32 // 0 until the last group, after which the result is divided
		if last == len(sources) {
			sum = m.sum
		}
		finite = m.kernel.run(a, rows, m.floats[first:last], first > 0, sum)
	}
	return finite
}

func finite32(v float32) bool { return math.Float32bits(v)&0x7f800000 != 0x7f800000 }

// mean64 is meaner.segment for float64, integers and bool.
func mean64(dst []byte, sources [][]byte, weights []uint32, s Segment) int {
	var acc, scratch [block]float64
	sum := float64(weightSum(weights))
	size := s.DType.Size()
	for at := s.Start; at < s.End; at += block * size {
		end := min(at+block*size, s.End)
		a := acc[:(end-at)/size]
		for i, src := range sources {
			x := load64(s.DType, src[at:end], scratch[:])
			w := float64(weights[i])
			for k := range a {
				if i == 0 {
					a[k] = float64(w * x[k])
				} else {
					a[k] += float64(w * x[k])
				}
			}
		}
		for k := range a {
			a[k] /= sum
			if v := a[k]; math.IsNaN(v) || math.IsInf(v, 0) {
				return at + k*size
			}
		}
		store64(s.DType, dst[at:end], a)
	}
	return -1
}

func weightSum(weights []uint32) uint64 {
	var sum uint64
	for _, w := range weights {
		sum += uint64(w)
	}
	return sum
}
