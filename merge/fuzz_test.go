package merge_test

import (
	"errors"
	"math"
	"testing"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/mergetest"
)

// FuzzMethods merges whatever bits there are, as each float type: either
// somebody's value is not finite and named, or the result is finite, and between
// the contributors' values where the method promises it.
func FuzzMethods(f *testing.F) {
	f.Add(uint8(0), uint8(3), uint64(0x0102030405060708), []byte("some values that look like nothing in particular, but are."))
	f.Add(uint8(2), uint8(7), uint64(1), make([]byte, 200))
	f.Add(uint8(1), uint8(8), uint64(0xffffffffffffffff), []byte{0xff, 0xff, 0x7f, 0x7f, 0xff, 0xff, 0x7f, 0xff, 0, 0, 0x80, 0, 1, 0, 0, 0})
	f.Fuzz(func(t *testing.T, kind, count uint8, seeds uint64, bits []byte) {
		d := []merge.DType{merge.Float64, merge.Float32, merge.Float16, merge.BFloat16}[kind%4]
		n := 7 + int(count%5)
		elements := min(len(bits)/n/d.Size(), 40)
		l := layoutOf(t, merge.Tensor{Name: "x", DType: d, Shape: []int64{int64(elements)}})
		weights, xs := make([]uint32, n), make([][]byte, n)
		for i := range xs {
			weights[i] = 1 + uint32(seeds>>(i%8*8)&0xff)*uint32(seeds>>(i%3)&1)
			xs[i] = bits[i*elements*d.Size() : (i+1)*elements*d.Size()]
		}
		for _, name := range all {
			m := parse(t, name)
			got, _, err := mergetest.Merge(m, l, weights, xs, nil, nil)
			if nf := (*merge.NonFinite)(nil); errors.As(err, &nf) {
				if nf.Contributor < 0 || nf.Contributor >= n || nf.Tensor != "x" || nf.Index < 0 || nf.Index >= int64(elements) {
					t.Fatalf("%s: %+v", name, nf)
				}
				continue
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for e, v := range unflat(l, got) {
				low, high := 0.0, 0.0 // normclip starts at 0
				if !m.BoundsNorms() {
					low, high = math.Inf(1), math.Inf(-1)
				}
				for i := range xs {
					x := get(d, xs[i][e*d.Size():])
					low, high = min(low, x), max(high, x)
				}
				slack := 1e-5 * max(math.Abs(low), math.Abs(high), 1e-30)
				if !(v >= low-slack && v <= high+slack) {
					t.Fatalf("%s, element %d: %g is not between %g and %g", name, e, v, low, high)
				}
			}
		}
	})
}
