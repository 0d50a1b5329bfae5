package merge_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/mergetest"
)

func codec(t testing.TB, wire string, l *merge.Layout) *merge.Codec {
	t.Helper()
	c := parse(t, "mean(wire="+wire+")").NewCodec(l)
	if c == nil {
		t.Fatalf("no codec for %s", wire)
	}
	return c
}

// TestWireVectors compares what travels with an independent computation, testdata/wire.py.
func TestWireVectors(t *testing.T) {
	b, err := os.ReadFile("testdata/wire.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]struct {
		X, Base, Y []uint32
		Code       []uint16
	}
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	for _, wire := range merge.Wires() {
		v := all[wire]
		n := len(v.X)
		if n < 200 {
			t.Fatalf("%s: %d vectors", wire, n)
		}
		l := layoutOf(t, merge.Tensor{Name: "w", DType: merge.Float32, Shape: []int64{int64(n)}})
		var x, base []byte
		for i := range n {
			x = binary.LittleEndian.AppendUint32(x, v.X[i])
			base = binary.LittleEndian.AppendUint32(base, v.Base[i])
		}
		code := make([]byte, 2*n)
		for leaf, c := 0, codec(t, wire, l); leaf < l.Leaves(); leaf++ {
			at := l.LeafOffset(leaf) / 2
			if err := c.RoundTrip(leaf, code[at:at+int64(c.Len(leaf))], leafOf(l, leaf, x), leafOf(l, leaf, base)); err != nil {
				t.Fatal(err)
			}
		}
		for i := range n {
			from, around := math.Float32frombits(v.X[i]), math.Float32frombits(v.Base[i])
			if got := binary.LittleEndian.Uint16(code[2*i:]); got != v.Code[i] {
				t.Errorf("%s: %g around %g travels as %#04x, want %#04x", wire, from, around, got, v.Code[i])
			}
			want := math.Float32frombits(v.Y[i])
			if got := math.Float32frombits(binary.LittleEndian.Uint32(x[4*i:])); got != want && !(got != got && want != want) {
				t.Errorf("%s: %g around %g stands for %g, want %g", wire, from, around, got, want)
			}
		}
	}
}

// mixed has tensors of all types, so that leaves begin and end in any of them, and padding.
func mixed(t testing.TB) *merge.Layout {
	var tensors []merge.Tensor
	for i, d := range []string{
		"uint8", "float32", "bool", "float64", "float16", "float32", "int8", "bfloat16", "int64", "float32", "uint16", "int32", "uint32", "uint64", "int16",
	} {
		dt, err := merge.ParseDType(d)
		if err != nil {
			t.Fatal(err)
		}
		tensors = append(tensors, merge.Tensor{Name: fmt.Sprint(i), DType: dt, Shape: []int64{int64(5 + 9001*i)}})
	}
	return layoutOf(t, tensors...)
}

// TestOnlyFloat32IsShortened: other types travel bit for bit, padding does not travel, and lengths are those that are said.
func TestOnlyFloat32IsShortened(t *testing.T) {
	l := mixed(t)
	rng := rand.New(rand.NewPCG(1, 2))
	for _, wire := range merge.Wires() {
		c := codec(t, wire, l)
		var total int64
		for leaf := range l.Leaves() {
			n := l.LeafLen(leaf)
			x, base, want := make([]byte, n), make([]byte, n), make([]byte, n)
			for i := range x {
				x[i], base[i] = byte(rng.Uint32()), 0
			}
			code := make([]byte, c.Len(leaf))
			total += int64(len(code))
			copies := 0
			for _, s := range l.AppendSegments(nil, leaf) {
				if s.DType == merge.Float32 {
					copies += (s.End - s.Start) / 2
					clear(x[s.Start:s.End])
					continue
				}
				copies += s.End - s.Start
				copy(want[s.Start:s.End], x[s.Start:s.End])
			}
			if copies != len(code) {
				t.Errorf("leaf %d: %d bytes travel, want %d", leaf, len(code), copies)
			}
			if err := c.RoundTrip(leaf, code, x, base); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(x, want) {
				t.Errorf("%s: leaf %d: other types or padding changed", wire, leaf)
			}
		}
		if total != c.Total() || total >= l.Bytes() {
			t.Errorf("%s: %d bytes of %d travel, Total says %d", wire, total, l.Bytes(), c.Total())
		}
	}
	small := layoutOf(t, merge.Tensor{Name: "h", DType: merge.BFloat16, Shape: []int64{7}}, merge.Tensor{Name: "e", DType: merge.Float32, Shape: []int64{0}})
	if c := parse(t, "mean(wire=float16)").NewCodec(small); c != nil {
		t.Error("a codec without anything to shorten")
	}
	if c := parse(t, "mean").NewCodec(l); c != nil {
		t.Error("a codec of a method without a wire type")
	}
}

// FuzzDecode: whatever comes, of any length, a leaf stays one that is not finite only where the code is not, and
// other types are what came.
func FuzzDecode(f *testing.F) {
	l := layoutOf(f, merge.Tensor{Name: "b", DType: merge.Uint8, Shape: []int64{3}}, merge.Tensor{Name: "w", DType: merge.Float32, Shape: []int64{11}},
		merge.Tensor{Name: "d", DType: merge.Float64, Shape: []int64{1}})
	f.Add([]byte("not so long"), uint32(0), false)
	f.Add(bytes.Repeat([]byte{0x7f, 0x80, 0xff}, 11), math.Float32bits(math.MaxFloat32), true)
	f.Fuzz(func(t *testing.T, code []byte, bits uint32, half bool) {
		c := codec(t, merge.Wires()[map[bool]int{true: 1}[half]], l)
		base, y := make([]byte, l.Bytes()), make([]byte, l.Bytes())
		at := int(l.Offset(1))
		if v := math.Float32frombits(bits); v-v == 0 {
			for i := range 11 {
				binary.LittleEndian.PutUint32(base[at+4*i:], bits)
			}
		}
		copy(y, base)
		if err := c.Decode(0, y, code); (err == nil) != (len(code) == c.Len(0)) {
			t.Fatalf("%d bytes: %v", len(code), err)
		} else if err != nil {
			return
		}
		for i := range 11 {
			h := binary.LittleEndian.Uint16(code[3+2*i:])
			odd := h&0x7f80 == 0x7f80
			if half {
				odd = h&0x7c00 == 0x7c00
			}
			v := math.Float32frombits(binary.LittleEndian.Uint32(y[at+4*i:]))
			if (v-v != 0) != odd {
				t.Fatalf("code %#04x on %g gives %g", h, math.Float32frombits(bits), v)
			}
		}
		if !bytes.Equal(y[:3], code[:3]) || !bytes.Equal(y[l.Offset(2):], code[25:]) {
			t.Fatal("other types changed")
		}
	})
}

// TestDifferencesKeepPrecision trains by gradient descent on a quadratic whose minimum three peers find together, though each
// of them is drawn elsewhere. With differences in 16 bits what is lost is a part of the peers' steps; with weights in bfloat16
// it is a part of the weights, and training stops where a step is less than half of a last place.
func TestDifferencesKeepPrecision(t *testing.T) {
	const n, peers, rounds, rate = 1000, 3, 120, 0.2
	rng := rand.New(rand.NewPCG(7, 8))
	minima, curve := make([][]float64, peers), make([][]float64, peers)
	best := make([]float64, n)
	for p := range peers {
		for range n {
			minima[p] = append(minima[p], 1+rng.NormFloat64()/10)
			curve[p] = append(curve[p], 0.5+rng.Float64())
		}
	}
	for i := range n {
		var sum, weight float64
		for p := range peers {
			sum, weight = sum+curve[p][i]*minima[p][i], weight+curve[p][i]
		}
		best[i] = sum / weight
	}
	l := layoutOf(t, merge.Tensor{Name: "w", DType: merge.Float32, Shape: []int64{n}})
	end := func(method string, round func([]float64)) (rms float64) {
		m := parse(t, method)
		base := flat(l, make([]float64, n))
		for range rounds {
			var models [][]byte
			for p := range peers {
				x := unflat(l, base)
				for i := range x {
					x[i] -= rate * curve[p][i] * (x[i] - minima[p][i])
				}
				round(x)
				models = append(models, flat(l, x))
			}
			merged, _, err := mergetest.Merge(m, l, []uint32{1, 1, 1}, models, base, nil)
			if err != nil {
				t.Fatal(err)
			}
			x := unflat(l, merged)
			round(x)
			base = flat(l, x)
		}
		for i, v := range unflat(l, base) {
			rms += (v - best[i]) * (v - best[i]) / n
		}
		return math.Sqrt(rms)
	}
	exact := end("mean", func([]float64) {})
	const step = rate / 10 // of a peer that is drawn elsewhere, about
	lost := map[string]float64{"bfloat16": 0x1p-8, "float16": 0x1p-11}
	for _, wire := range merge.Wires() {
		got := end("mean(wire="+wire+")", func([]float64) {})
		t.Logf("%s: ends %.2g from the minimum", wire, got)
		if got > exact+lost[wire]*step/rate {
			t.Errorf("%s: ends %.2g from the minimum, exact training %.2g", wire, got, exact)
		}
	}
	weights := end("mean", func(x []float64) {
		for i, v := range x {
			u := math.Float32bits(float32(v))
			x[i] = float64(math.Float32frombits((u + 0x7fff + u>>16&1) &^ 0xffff))
		}
	})
	t.Logf("from the minimum after %d rounds: exact %.2g, weights as bfloat16 %.2g", rounds, exact, weights)
	if weights < 20*lost["bfloat16"]*step/rate {
		t.Errorf("weights as bfloat16 end %.2g from the minimum: this problem shows nothing", weights)
	}
}
