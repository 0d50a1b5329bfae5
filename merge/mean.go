package merge

import "math"

// mean is the weighted mean, federated averaging (McMahan et al. 2017).
var mean = spec{
	name: "mean",
	doc:  "weighted mean",
	leaf: meanOf,
}

func meanOf(_ values, in Contributors) leafFunc {
	weights := in.Weights
	return func(w *work) error { return meanLeaf(w.dst, w.sources, weights, w.segments) }
}

// block is how many elements are accumulated at a time: accumulator, scratch
// and source block stay in the L1 cache together.
const block = 1024

// meanLeaf is the weighted mean Σwx / Σw. Floating point types of up to 32 bits
// accumulate in float32, the others in float64; integers round half to even and
// saturate; bool is true when more than half of the weight says so.
func meanLeaf(dst []byte, sources [][]byte, weights []uint32, segments []Segment) error {
	for _, s := range segments {
		var bad int
		switch s.DType {
		case Float32, Float16, BFloat16:
			bad = mean32(dst, sources, weights, s)
		default:
			bad = mean64(dst, sources, weights, s)
		}
		if bad >= 0 {
			return blame(sources, weights, s.DType, bad)
		}
	}
	return nil
}

// mean32 returns the leaf offset of the first element that is not finite, or -1.
func mean32(dst []byte, sources [][]byte, weights []uint32, s Segment) int {
	var acc, scratch [block]float32
	sum := float32(weightSum(weights))
	size := s.DType.Size()
	for at := s.Start; at < s.End; at += block * size {
		end := min(at+block*size, s.End)
		a := acc[:(end-at)/size]
		for i, src := range sources {
			x := load32(s.DType, src[at:end], scratch[:])
			if i == 0 {
				scale32(a, x, float32(weights[i]))
			} else {
				addScaled32(a, x, float32(weights[i]))
			}
		}
		if finish32(a, sum) {
			for i, v := range a {
				if !finite32(v) {
					return at + i*size
				}
			}
		}
		store32(s.DType, dst[at:end], a)
	}
	return -1
}

// The explicit float32 conversions forbid the compiler to fuse multiply and
// add, which some architectures would do and others not.

func scale32(a, x []float32, w float32) {
	x = x[:len(a)]
	for i := range a {
		a[i] = float32(w * x[i])
	}
}

func addScaled32(a, x []float32, w float32) {
	x = x[:len(a)]
	for len(a) >= 4 {
		a0, x0 := a[:4:4], x[:4:4]
		a0[0] += float32(w * x0[0])
		a0[1] += float32(w * x0[1])
		a0[2] += float32(w * x0[2])
		a0[3] += float32(w * x0[3])
		a, x = a[4:], x[4:]
	}
	x = x[:len(a)]
	for i := range a {
		a[i] += float32(w * x[i])
	}
}

// finish32 divides by the sum and reports whether any result is not finite:
// adding one to an exponent of all ones carries into the sign bit.
func finish32(a []float32, sum float32) bool {
	var carry uint32
	for i := range a {
		v := a[i] / sum
		a[i] = v
		carry |= math.Float32bits(v)&0x7fffffff + 0x00800000
	}
	return carry>>31 != 0
}

func finite32(v float32) bool { return math.Float32bits(v)&0x7f800000 != 0x7f800000 }

// mean64 is mean32 for float64, integers and bool.
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
