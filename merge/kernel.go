package merge

import "math"

// kernel is the mean's inner loop, written for one kind of processor. All kernels round every product and every sum in the
// same order, so that each gives the same bits.
type kernel struct {
	name string
	// weigh sets acc to Σ w_i x_i over the rows, or adds it to acc if onto, then divides by sum unless that is 0. It goes as
	// far as its vectors fit and returns how many elements that are, and whether all quotients are finite. No row may be
	// shorter than acc.
	weigh func(acc []float32, rows [][]float32, weights []float32, onto bool, sum float32) (int, bool)
}

// fastest is the first kernel that this processor can run; kernels ends with the plain one.
var fastest = kernels()[0]

// Kernel names the kernel that computes float32 means on this machine: "avx512", "avx2", or "plain" for Go's own loops.
func Kernel() string { return fastest.name }

var plain = kernel{"plain", func(acc []float32, rows [][]float32, weights []float32, onto bool, sum float32) (int, bool) {
	return len(acc), weighFrom(0, acc, rows, weights, onto, sum)
}}

// run is weigh over all elements.
func (k *kernel) run(acc []float32, rows [][]float32, weights []float32, onto bool, sum float32) bool {
	done, finite := k.weigh(acc, rows, weights, onto, sum)
	if done < len(acc) && !weighFrom(done, acc, rows, weights, onto, sum) {
		finite = false
	}
	return finite
}

// weighFrom is the plain loop. It begins with the element at, and keeps four sums in registers while it adds all rows.
//
// The explicit float32 conversions keep the compiler from fusing multiplication and addition, which it does for some architectures
// only.
func weighFrom(at int, acc []float32, rows [][]float32, weights []float32, onto bool, sum float32) bool {
	const width = 4
	var bits uint32
	weights = weights[:len(rows)]
	for ; at+width <= len(acc); at += width {
		d := (*[width]float32)(acc[at:])
		a0, a1, a2, a3 := d[0], d[1], d[2], d[3]
		first := 0
		if !onto {
			x, w := (*[width]float32)(rows[0][at:]), weights[0]
			a0, a1, a2, a3 = float32(w*x[0]), float32(w*x[1]), float32(w*x[2]), float32(w*x[3])
			first = 1
		}
		for i := first; i < len(rows); i++ {
			x, w := (*[width]float32)(rows[i][at:]), weights[i]
			a0 += float32(w * x[0])
			a1 += float32(w * x[1])
			a2 += float32(w * x[2])
			a3 += float32(w * x[3])
		}
		if sum != 0 {
			a0, a1, a2, a3 = a0/sum, a1/sum, a2/sum, a3/sum
			bits |= excess(a0) | excess(a1) | excess(a2) | excess(a3)
		}
		d[0], d[1], d[2], d[3] = a0, a1, a2, a3
	}
	for ; at < len(acc); at++ {
		a, first := acc[at], 0
		if !onto {
			a, first = float32(weights[0]*rows[0][at]), 1
		}
		for i := first; i < len(rows); i++ {
			a += float32(weights[i] * rows[i][at])
		}
		if sum != 0 {
			a /= sum
			bits |= excess(a)
		}
		acc[at] = a
	}
	return bits>>31 == 0
}

// excess sets the sign bit if v is not finite: adding one to an exponent of all ones carries into it.
func excess(v float32) uint32 { return math.Float32bits(v)&0x7fffffff + 0x00800000 }
