package merge_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/swarmd/swarmd/merge"
)

// TestMeanOfEveryType merges two elements of every type with weights 1 and 3.
func TestMeanOfEveryType(t *testing.T) {
	le := binary.LittleEndian
	u16 := func(v uint16) []byte { return le.AppendUint16(nil, v) }
	u32 := func(v uint32) []byte { return le.AppendUint32(nil, v) }
	u64 := func(v uint64) []byte { return le.AppendUint64(nil, v) }
	f64 := func(v float64) []byte { return u64(math.Float64bits(v)) }
	i := func(v int64) uint64 { return uint64(v) }
	tests := []struct {
		name       string
		dtype      merge.DType
		a, b, want []byte
	}{
		{"float64", merge.Float64, f64(0), f64(4), f64(3)},
		{"float32", merge.Float32, bytes32(0), bytes32(4), bytes32(3)},
		{"float16", merge.Float16, u16(0), u16(0x4400), u16(0x4200)},
		{"float16 subnormal", merge.Float16, u16(0), u16(0x0004), u16(0x0003)},
		{"float16 tie to even", merge.Float16, u16(0), u16(0x0002), u16(0x0002)}, // 1.5 units
		{"float16 largest", merge.Float16, u16(0x7bff), u16(0x7bff), u16(0x7bff)},
		{"bfloat16", merge.BFloat16, u16(0), u16(0x4080), u16(0x4040)},
		{"bfloat16 tie to even", merge.BFloat16, u16(0x3f80), u16(0x3f82), u16(0x3f82)}, // 1 + 1.5 units
		{"uint8 half to even", merge.Uint8, []byte{0}, []byte{2}, []byte{2}},            // 1.5
		{"uint8 half to even down", merge.Uint8, []byte{1}, []byte{3}, []byte{2}},       // 2.5
		{"int8", merge.Int8, []byte{0x80}, []byte{0x80}, []byte{0x80}},
		{"int16", merge.Int16, u16(uint16(i(-400))), u16(uint16(i(0))), u16(uint16(i(-100)))},
		{"uint16", merge.Uint16, u16(65535), u16(65535), u16(65535)},
		{"int32", merge.Int32, u32(uint32(i(-7))), u32(uint32(i(1))), u32(uint32(i(-1)))},
		{"uint32", merge.Uint32, u32(0), u32(math.MaxUint32), u32(3221225471)}, // …1.25
		{"int64", merge.Int64, u64(i(-4)), u64(i(4)), u64(i(2))},
		{"int64 saturates", merge.Int64, u64(math.MaxInt64), u64(math.MaxInt64), u64(math.MaxInt64)},
		{"int64 least", merge.Int64, u64(1 << 63), u64(1 << 63), u64(1 << 63)},
		{"uint64 saturates", merge.Uint64, u64(math.MaxUint64), u64(math.MaxUint64), u64(math.MaxUint64)},
		{"bool majority", merge.Bool, []byte{0}, []byte{7}, []byte{1}},
		{"bool minority", merge.Bool, []byte{1}, []byte{0}, []byte{0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := layoutOf(t, merge.Tensor{Name: "x", DType: tt.dtype, Shape: []int64{1}})
			got, err := mean(t, l, []uint32{1, 3}, tt.a, tt.b)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, tt.want) {
				t.Errorf("got %x, want %x", got, tt.want)
			}
		})
	}
}

// TestHalfFloatsSurvive sends every finite 16-bit pattern through a merge of one.
func TestHalfFloatsSurvive(t *testing.T) {
	for _, d := range []merge.DType{merge.Float16, merge.BFloat16} {
		exp := uint16(0x7c00)
		if d == merge.BFloat16 {
			exp = 0x7f80
		}
		var b []byte
		for v := range 1 << 16 {
			if uint16(v)&exp != exp {
				b = binary.LittleEndian.AppendUint16(b, uint16(v))
			}
		}
		l := layoutOf(t, merge.Tensor{Name: "x", DType: d, Shape: []int64{int64(len(b) / 2)}})
		got, err := mean(t, l, []uint32{1}, b)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, b) {
			t.Errorf("%s: some value changed in a merge of one", d)
		}
	}
}

// TestMeanProperties: unaligned memory, other bytes in padding and the cut into
// segments change nothing; a mean lies between its inputs.
func TestMeanProperties(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		n := 1 + rng.Int64N(5000)
		l := layoutOf(t,
			merge.Tensor{Name: "flag", DType: merge.Bool, Shape: []int64{1}},
			merge.Tensor{Name: "x", DType: merge.Float32, Shape: []int64{n}})
		var weights []uint32
		var aligned, shifted [][]byte
		for range 1 + rng.IntN(5) {
			b := []byte{1, 0, 0, 0}
			for range n {
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(rng.Float32()*2-1))
			}
			aligned = append(aligned, b)
			c := append([]byte{0}, b...)[1:]
			c[1], c[2], c[3] = 9, 9, 9
			shifted = append(shifted, c)
			weights = append(weights, 1+rng.Uint32N(100))
		}
		a, err := mean(t, l, weights, aligned...)
		if err != nil {
			t.Fatal(err)
		}
		b, err := mean(t, l, weights, shifted...)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a, b) {
			t.Fatal("alignment or padding changed the result")
		}
		for i, v := range floats32(a[4:]) {
			lo, hi := float32(math.Inf(1)), float32(math.Inf(-1))
			for _, s := range aligned {
				x := floats32(s[4+4*i : 8+4*i])[0]
				lo, hi = min(lo, x), max(hi, x)
			}
			if v < lo-1e-6 || v > hi+1e-6 {
				t.Fatalf("element %d: %g is not between %g and %g", i, v, lo, hi)
			}
		}
	}
}

// Every float16 decodes to what its fields say, also at an address where it can't be read in place.
func TestEveryFloat16(t *testing.T) {
	l := layoutOf(t, merge.Tensor{Name: "x", DType: merge.Float16, Shape: []int64{1 << 16}})
	var all []byte
	for h := range 1 << 16 {
		if exp := h >> 10 & 0x1f; exp == 0x1f {
			h &= 0x83ff // infinite and NaN are refused, which other tests hold
		}
		all = binary.LittleEndian.AppendUint16(all, uint16(h))
	}
	odd := append(make([]byte, 1, 1+len(all)), all...)[1:]
	for name, src := range map[string][]byte{"aligned": all, "not aligned": odd} {
		got, err := mean(t, l, []uint32{3}, src)
		if err != nil || !bytes.Equal(got, all) {
			t.Errorf("%s: the mean of one model is another, %v", name, err)
		}
		sum := 0.0
		for i := range 1 << 16 {
			h := binary.LittleEndian.Uint16(all[2*i:])
			frac, exp := float64(h&0x3ff), int(h>>10&0x1f)
			want := math.Ldexp(frac, -24)
			if exp > 0 {
				want = math.Ldexp(frac+1024, exp-25)
			}
			sum += want * want
		}
		// The mean can't tell a wrong decoding from one that its own encoding undoes; the norm can.
		total := 0.0
		for leaf := range l.Leaves() {
			from := l.LeafOffset(leaf)
			total += merge.UpdateSquares(l, leaf, src[from:from+int64(l.LeafLen(leaf))], nil)
		}
		if math.Abs(total-sum) > 1e-9*sum {
			t.Errorf("%s: sum of squares is %g, want %g", name, total, sum)
		}
	}
}
