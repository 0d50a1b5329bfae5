package merge

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
)

// TestHalvesInVectors: whole blocks convert as single elements do, which are too few for vectors: every 16-bit pattern, and
// float32 on, beside and between all that 16 bits hold, NaN included.
func TestHalvesInVectors(t *testing.T) {
	var codes []uint16
	var floats []float32
	for h := range uint32(1 << 16) {
		codes = append(codes, uint16(h))
		for _, low := range []uint32{
			0, 1, 0x0fff, 0x1000, 0x1001, 0x1fff, 0x2000, 0x3000, 0x5000, 0x7000, 0x7fff, 0x8000, 0x8001, 0x9000, 0xefff, 0xf000, 0xffff,
		} {
			floats = append(floats, math.Float32frombits(h<<16|low))
		}
	}
	rng := rand.New(rand.NewPCG(25, 26))
	for _, d := range []DType{BFloat16, Float16} {
		checkHalves(t, d, codes, floats)
		for n := range 68 { // ends of vectors, behind other elements
			from := rng.IntN(len(codes) - n)
			checkHalves(t, d, codes[from:from+n], floats[17*from:17*from+n])
		}
	}
}

func checkHalves(t *testing.T, d DType, codes []uint16, floats []float32) {
	t.Helper()
	raw := make([]byte, 2*len(codes))
	for i, h := range codes {
		binary.LittleEndian.PutUint16(raw[2*i:], h)
	}
	scratch := make([]float32, len(codes)+1)
	scratch[len(codes)] = 7
	for i, v := range load32(d, raw, scratch) {
		want := math.Float32frombits(uint32(codes[i]) << 16)
		if d == Float16 {
			want = fromFloat16(codes[i])
		}
		if math.Float32bits(v) != math.Float32bits(want) {
			t.Fatalf("%s %04x of %d: got %x, want %x", d, codes[i], len(codes), math.Float32bits(v), math.Float32bits(want))
		}
	}
	if scratch[len(codes)] != 7 {
		t.Fatalf("%s: wrote behind %d decoded elements", d, len(codes))
	}
	out := make([]byte, 2*len(floats)+2)
	store32(d, out[:2*len(floats)], floats)
	for i, v := range floats {
		want := toBFloat16(v)
		if d == Float16 {
			want = toFloat16(v)
		}
		if got := binary.LittleEndian.Uint16(out[2*i:]); got != want {
			t.Fatalf("%s of %x, one of %d: got %04x, want %04x", d, math.Float32bits(v), len(floats), got, want)
		}
	}
	if binary.LittleEndian.Uint16(out[2*len(floats):]) != 0 {
		t.Fatalf("%s: wrote behind %d encoded elements", d, len(floats))
	}
}
