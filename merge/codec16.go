package merge

import (
	"encoding/binary"
	"math"
)

// The kernels work on at most one block. Sums and differences are rounded to
// float32 by themselves: there is no product that a compiler could fuse with
// them. Each looks in one go whether any element needs care, which is rare: a
// number that reaches a bound carries into the sign bit when its distance from
// 2^31 is added.

const (
	sign32 = 1 << 31
	abs32  = sign32 - 1

	inf32       = 0x7f800000 // bits of infinity
	tooBFloat16 = 0x7f7f8000 // the least magnitude that rounds to infinity
	tooFloat16  = 0x477ff000 // the same: 65520
)

// subBFloat16 writes x-b, rounded to nearest, ties to even.
func subBFloat16(code []byte, x, b []float32) {
	b, code = b[:len(x)], code[:2*len(x)]
	var carry uint32
	for i := range x {
		u := math.Float32bits(x[i] - b[i])
		carry |= u&abs32 + (sign32 - tooBFloat16)
		binary.LittleEndian.PutUint16(code[2*i:], uint16((u+0x7fff+u>>16&1)>>16))
	}
	if carry&sign32 != 0 {
		subCareful(code, x, b, toBFloat16, 0x7f7f)
	}
}

// subFloat16 is subBFloat16 for float16. Scaling up makes what is too large
// infinite; adding a power of two that depends on the exponent moves the wanted
// bits to the end of the fraction, and rounds them.
func subFloat16(code []byte, x, b []float32) {
	b, code = b[:len(x)], code[:2*len(x)]
	var carry uint32
	for i := range x {
		u := math.Float32bits(x[i] - b[i])
		a := u & abs32
		carry |= a + (sign32 - tooFloat16)
		// The exponent of the power of two: 13 above that of the number, not below that for subnormal results.
		e := max(a&inf32, 0x38800000) + 13<<23
		f := float32(math.Float32frombits(a) + math.Float32frombits(e))
		// The sum's fraction counts units of the result's last place; without subnormals' missing one its carry is in place.
		m := math.Float32bits(f) - e
		binary.LittleEndian.PutUint16(code[2*i:], uint16(u>>16&0x8000|((e-(0x38800000+13<<23))>>13+m)))
	}
	if carry&sign32 != 0 {
		subCareful(code, x, b, toFloat16, 0x7bff)
	}
}

// subCareful is for blocks in which a difference is too large, or a number not
// finite.
func subCareful(code []byte, x, b []float32, round func(float32) uint16, largest uint16) {
	for i, v := range x {
		d := v - b[i]
		h := round(d)
		switch {
		case !finite32(v):
			h = round(v) // as it is: whose it is must be found
		case math.Float32bits(d)&abs32 <= inf32 && h&0x7fff == largest+1:
			h = h&0x8000 | largest
		}
		binary.LittleEndian.PutUint16(code[2*i:], h)
	}
}

// addBFloat16 adds to y what code holds.
func addBFloat16(y []float32, code []byte) {
	code = code[:2*len(y)]
	var carry uint32
	for i := range y {
		d := math.Float32frombits(uint32(binary.LittleEndian.Uint16(code[2*i:])) << 16)
		v := y[i] + d
		y[i] = v
		carry |= math.Float32bits(v)&abs32 + (sign32 - inf32)
	}
	if carry&sign32 == 0 {
		return
	}
	for i := range y {
		mend(&y[i], math.Float32frombits(uint32(binary.LittleEndian.Uint16(code[2*i:]))<<16))
	}
}

// addFloat16 is addBFloat16 for float16.
func addFloat16(y []float32, code []byte) {
	code = code[:2*len(y)]
	var carry uint32
	for i := range y {
		h := uint32(binary.LittleEndian.Uint16(code[2*i:]))
		a := h & 0x7fff
		u := a<<13 + 0x38000000
		// Where a subnormal is the end of the fraction of one half, processors do not slow down for it.
		small := math.Float32bits(math.Float32frombits(0x3f000000+a) - 0.5)
		if a < 0x0400 {
			u = small
		}
		v := y[i] + math.Float32frombits(h<<16&sign32|u)
		y[i] = v
		carry |= math.Float32bits(v)&abs32 + (sign32 - inf32) | (a+0x0400)<<16
	}
	if carry&sign32 == 0 {
		return
	}
	for i := range y {
		mend(&y[i], fromFloat16(binary.LittleEndian.Uint16(code[2*i:])))
	}
}

// mend corrects a sum with d: it is finite if d is, and d if that is not.
func mend(v *float32, d float32) {
	switch {
	case !finite32(d):
		*v = d
	case !finite32(*v):
		*v = float32(math.Copysign(math.MaxFloat32, float64(*v)))
	}
}
