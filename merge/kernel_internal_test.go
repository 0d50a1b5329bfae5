package merge

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// hostile are values at which arithmetic that is only nearly the same would differ.
var hostile = []uint32{
	0, 1 << 31, // both zeros
	1, 1<<31 | 1, 0x007fffff, 0x00800000, // smallest, largest subnormal, smallest normal
	0x3f800000, 0xbf800000, 0x3f800001, 0x33800000, // 1, -1, their neighbours
	0x7f7fffff, 0xff7fffff, 0x7f000000, // largest and half of it: sums overflow
	0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001, 0xffc12345, // infinities, quiet and signalling NaN
}

// some returns a number of any magnitude; one in so many is hostile, one in three shares its magnitude with most others.
func some(rng *rand.Rand, oneIn int) float32 {
	if oneIn > 0 && rng.IntN(oneIn) == 0 {
		return math.Float32frombits(hostile[rng.IntN(len(hostile))])
	}
	if rng.IntN(3) == 0 {
		return float32(rng.NormFloat64())
	}
	for {
		if v := math.Float32frombits(rng.Uint32()); finite32(v) {
			return v
		}
	}
}

// weighed is what every kernel must come to, one element after the other.
func weighed(acc []float32, rows [][]float32, weights []float32, onto bool, sum float32) (out []float32, finite bool) {
	finite = true
	for e, v := range acc {
		for i := range rows {
			product := float32(weights[i] * rows[i][e])
			if i == 0 && !onto {
				v = product
			} else {
				v = float32(v + product)
			}
		}
		if sum != 0 {
			v = float32(v / sum)
			finite = finite && finite32(v)
		}
		out = append(out, v)
	}
	return out, finite
}

// sameBits compares bits; which NaN it is, is nobody's business.
func sameBits(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
}

// TestKernelsGiveTheSameBits holds every kernel that this processor runs to the plain definition.
func TestKernelsGiveTheSameBits(t *testing.T) {
	var lengths []int
	for n := range 68 {
		lengths = append(lengths, n)
	}
	lengths = append(lengths, 127, 128, 129, 191, 193, 255, 1023, 1024)
	for _, k := range kernels() {
		t.Run(k.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(21, 22))
			notFinite := 0
			for _, n := range lengths {
				for try := range 40 {
					oneIn := []int{0, 3, 40, 4 * (n + 1)}[try%4]
					rows, weights := make([][]float32, 1+rng.IntN(group)), []float32(nil)
					for i := range rows {
						from := rng.IntN(4) // vectors that straddle cache lines
						rows[i] = make([]float32, from+n)[from:]
						for e := range rows[i] {
							rows[i][e] = some(rng, oneIn)
						}
						weights = append(weights, float32(1+rng.Uint32()>>rng.IntN(32)))
					}
					acc, onto, sum := make([]float32, n+1), try&4 != 0, float32(0)
					for e := range acc {
						acc[e] = some(rng, oneIn)
					}
					if try&8 != 0 {
						sum = float32(1 + rng.Uint32()>>rng.IntN(32))
					}
					want, wantFinite := weighed(acc[:n], rows, weights, onto, sum)
					behind := acc[n]
					finite := k.run(acc[:n], rows, weights, onto, sum)
					if finite != wantFinite {
						t.Fatalf("%d elements of %d rows: finite is %t, want %t", n, len(rows), finite, wantFinite)
					}
					for e := range want {
						if !sameBits(acc[e], want[e]) {
							t.Fatalf("%d elements of %d rows, onto %t, sum %g: element %d is %x, want %x",
								n, len(rows), onto, sum, e, math.Float32bits(acc[e]), math.Float32bits(want[e]))
						}
					}
					if !sameBits(acc[n], behind) {
						t.Fatalf("%d elements of %d rows: wrote behind the end", n, len(rows))
					}
					if !finite {
						notFinite++
					}
				}
			}
			if notFinite < 100 {
				t.Errorf("only %d cases were not finite: the values are tame", notFinite)
			}
		})
	}
}

// TestKernelsFindEveryPlace: a lone value that is not finite, at each place of vectors and tails.
func TestKernelsFindEveryPlace(t *testing.T) {
	const n = 3*64 + 7
	for _, k := range kernels() {
		for _, bad := range []float32{float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())} {
			for e := range n {
				row, acc := make([]float32, n), make([]float32, n)
				row[e] = bad
				if k.run(acc, [][]float32{row}, []float32{3}, false, 3) {
					t.Fatalf("%s: %g at element %d was not seen", k.name, bad, e)
				}
			}
		}
	}
}

// TestMeanByEveryKernel goes through blocks, groups of sources, types and memory that is not aligned.
func TestMeanByEveryKernel(t *testing.T) {
	for _, k := range kernels() {
		for _, d := range []DType{Float32, BFloat16, Float16} {
			t.Run(fmt.Sprint(k.name, "/", d), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(23, 24))
				failed := 0
				for try := range 24 {
					n := 1 + rng.IntN(3*group)
					elements := []int{1 + rng.IntN(67), block - 1 + rng.IntN(3), 2*block + rng.IntN(block)}[try%3]
					if checkMean(t, rng, k, d, n, elements, try%4 == 3) {
						failed++
					}
				}
				if failed == 0 || failed == 24 {
					t.Errorf("%d of 24 means were not finite", failed)
				}
			})
		}
	}
}

// checkMean compares one mean with the definition and reports whether it was not finite.
func checkMean(t *testing.T, rng *rand.Rand, k kernel, d DType, n, elements int, wild bool) (failed bool) {
	t.Helper()
	size, oneIn := d.Size(), 0
	if wild {
		oneIn = 2 * elements
	}
	start := size * rng.IntN(3)
	s := Segment{DType: d, Start: start, End: start + elements*size}
	memory := func() []byte { return make([]byte, s.End+9)[rng.IntN(2):] } // every other is not aligned
	sources, rows := make([][]byte, n), make([][]float32, n)
	weights, floats := make([]uint32, n), make([]float32, n)
	for i := range sources {
		sources[i], weights[i] = memory(), 1+rng.Uint32N(1000)
		floats[i] = float32(weights[i])
		for at := s.Start; at < s.End; at += size {
			v := some(rng, oneIn)
			if oneIn == 0 || d == Float16 {
				v = float32(rng.NormFloat64())
			}
			store32(d, sources[i][at:at+size], []float32{v})
			rows[i] = append(rows[i], float32(loadFloat(d, sources[i][at:])))
		}
	}
	if wild && d == Float16 {
		e := rng.IntN(elements)
		binary.LittleEndian.PutUint16(sources[n-1][s.Start+2*e:], 0xfc00)
		rows[n-1][e] = float32(math.Inf(-1))
	}
	want, finite := weighed(make([]float32, elements), rows, floats, false, float32(weightSum(weights)))
	dst := memory()
	got := newMeaner(weights, k).segment(dst, sources, s)
	if finite != (got < 0) {
		t.Fatalf("%d sources of %d elements: got offset %d, finite is %t", n, elements, got, finite)
	}
	for e, v := range want {
		at := s.Start + e*size
		if !finite32(v) {
			if got != at {
				t.Fatalf("%d sources of %d elements: the first that is not finite is at %d, want %d", n, elements, got, at)
			}
			return true
		}
		code := make([]byte, size)
		store32(d, code, []float32{v})
		if finite && string(dst[at:at+size]) != string(code) {
			t.Fatalf("%d sources of %d elements: element %d is %x, want %x", n, elements, e, dst[at:at+size], code)
		}
	}
	for at, v := range dst {
		if v != 0 && (at < s.Start || at >= s.End) {
			t.Fatalf("wrote at %d, outside of %d to %d", at, s.Start, s.End)
		}
	}
	return false
}
