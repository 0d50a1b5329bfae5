package merge

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
)

// wires are the kernels of both types, and the conversions of one number that element.go has.
var wires = map[DType]struct {
	add   func(y []float32, code []byte)
	sub   func(code []byte, x, b []float32)
	to    func(float32) uint16
	from  func(uint16) float32
	large float32
}{
	BFloat16: {addBFloat16, subBFloat16, toBFloat16, func(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }, 0x1.fep127},
	Float16:  {addFloat16, subFloat16, toFloat16, fromFloat16, 65504},
}

// TestEveryCodeIsADifference: all 65536 codes decode to what they are as numbers, and go back.
func TestEveryCodeIsADifference(t *testing.T) {
	for wire, k := range wires {
		for start := 0; start < 1<<16; start += block {
			code, again := make([]byte, 2*block), make([]byte, 2*block)
			y, zero := make([]float32, block), make([]float32, block)
			for i := range block {
				binary.LittleEndian.PutUint16(code[2*i:], uint16(start+i))
			}
			k.add(y, code)
			for i, v := range y {
				want := k.from(uint16(start + i))
				if math.Float32bits(v) != math.Float32bits(0+want) && !(v != v && want != want) {
					t.Fatalf("%s: code %#04x is %g, want %g", wire, start+i, v, want)
				}
			}
			k.sub(again, y, zero)
			for i := range block {
				got, want := binary.LittleEndian.Uint16(again[2*i:]), k.to(y[i])
				if got != want {
					t.Fatalf("%s: %g is %#04x, want %#04x", wire, y[i], got, want)
				}
			}
		}
	}
}

// TestRoundingOfDifferences holds the kernels to the conversion of single numbers, over all exponents, with ties. In every
// other run nothing needs care, so that it is the fast loops that are tested, at their ends too.
func TestRoundingOfDifferences(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for wire, k := range wires {
		for n := range 2000 {
			x := make([]float32, block-n%40)
			b, code := make([]float32, len(x)), make([]byte, 2*len(x))
			for i := range x {
				u := rng.Uint32()
				switch i % 4 {
				case 0: // ties of either type
					u &^= 0xfff
				case 1:
					u = u&^0x7fff | u&1
				}
				x[i] = math.Float32frombits(u)
				for n%2 == 0 && !(math.Abs(float64(x[i])) <= float64(k.large)) {
					x[i] = math.Float32frombits(rng.Uint32() &^ 0xfff)
				}
			}
			k.sub(code, x, b)
			for i, v := range x {
				want := k.to(v)
				if d := k.from(want); finite32(v) && !finite32(d) {
					want = k.to(float32(math.Copysign(float64(k.large), float64(v))))
				}
				if got := binary.LittleEndian.Uint16(code[2*i:]); got != want {
					t.Fatalf("%s: %g (%#x), %d of %d, is %#04x, want %#04x", wire, v, math.Float32bits(v), i, len(x), got, want)
				}
			}
			y := append([]float32(nil), x...)
			k.add(y, code)
			for i, v := range y {
				d := k.from(binary.LittleEndian.Uint16(code[2*i:]))
				want := x[i] + d
				switch {
				case !finite32(d):
					want = d
				case !finite32(want):
					want = float32(math.Copysign(math.MaxFloat32, float64(want)))
				}
				if v != want && (v == v || want == want) {
					t.Fatalf("%s: %g and %g is %g, want %g, %d of %d", wire, x[i], d, v, want, i, len(x))
				}
			}
		}
	}
}

// TestTravelTwice: what was decoded encodes to something that decodes to the same, so that a merged leaf can be sent from
// where it is stored.
func TestTravelTwice(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for wire, k := range wires {
		x, b, y, z := make([]float32, block), make([]float32, block), make([]float32, block), make([]float32, block)
		code := make([]byte, 2*block)
		for n := range 3000 {
			for i := range b {
				b[i] = anyFinite(rng)
				switch n % 4 {
				case 0: // anything at all
					x[i] = anyFinite(rng)
				case 1: // a little different
					x[i] = b[i] + float32(math.Ldexp(rng.Float64()-0.5, rng.IntN(40)-30))*b[i]
				case 2: // some units in the last place, also across a power of two
					b[i] = math.Float32frombits(math.Float32bits(b[i])&^0x7fffff + uint32(rng.IntN(4000)) - 2000)
					x[i] = math.Float32frombits(math.Float32bits(b[i]) + uint32(rng.IntN(8000)) - 4000)
				default: // around the largest difference
					x[i] = b[i] + k.large*(1+float32(rng.NormFloat64())/1000)
				}
				if !finite32(b[i]) {
					b[i] = math.MaxFloat32
				}
				if !finite32(x[i]) {
					x[i] = -math.MaxFloat32
				}
			}
			k.sub(code, x, b)
			copy(y, b)
			k.add(y, code)
			k.sub(code, y, b)
			copy(z, b)
			k.add(z, code)
			for i := range z {
				if !finite32(y[i]) || z[i] != y[i] {
					t.Fatalf("%s, case %d: %g around %g travels as %g, and that as %g", wire, n%4, x[i], b[i], y[i], z[i])
				}
			}
		}
	}
}

// TestMinusZero: a difference that rounds to nothing gives the same zero when what was decoded is sent again.
func TestMinusZero(t *testing.T) {
	minusZero := float32(math.Copysign(0, -1))
	for wire, k := range wires {
		x, b := make([]float32, block-5), make([]float32, block-5)
		for i := range x {
			x[i], b[i] = -math.SmallestNonzeroFloat32, minusZero
		}
		code := make([]byte, 2*len(x))
		k.sub(code, x, b)
		y := append([]float32(nil), b...)
		k.add(y, code)
		k.sub(code, y, b)
		z := append([]float32(nil), b...)
		k.add(z, code)
		for i := range z {
			if math.Float32bits(z[i]) != math.Float32bits(y[i]) {
				t.Fatalf("%s: %g travels as %g, and that as %g, %d of %d", wire, x[i], y[i], z[i], i, len(x))
			}
		}
	}
}

func anyFinite(rng *rand.Rand) float32 {
	for {
		if v := math.Float32frombits(rng.Uint32()); finite32(v) {
			return v
		}
	}
}

func BenchmarkCodec(b *testing.B) {
	l, err := NewLayout([]Tensor{{Name: "w", DType: Float32, Shape: []int64{256 * MaxLeafSize / 4}}})
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	x, base := make([]byte, MaxLeafSize), make([]byte, MaxLeafSize)
	for i := 0; i < MaxLeafSize; i += 4 {
		w := rng.Float32() - 0.5
		binary.LittleEndian.PutUint32(base[i:], math.Float32bits(w))
		binary.LittleEndian.PutUint32(x[i:], math.Float32bits(w+float32(rng.NormFloat64()*1e-4)))
	}
	for _, wire := range Wires() {
		m, err := ParseMethod("mean(wire=" + wire + ")")
		if err != nil {
			b.Fatal(err)
		}
		c := m.NewCodec(l)
		code := make([]byte, c.Len(0))
		b.Run("Encode/"+wire, func(b *testing.B) {
			b.SetBytes(MaxLeafSize)
			for b.Loop() {
				_ = c.Encode(0, code, x, base)
			}
		})
		b.Run("Decode/"+wire, func(b *testing.B) {
			b.SetBytes(MaxLeafSize)
			for b.Loop() {
				_ = c.Decode(0, base, code)
			}
		})
	}
}
