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
	half32      = 0x3f000000 // bits of one half, whose last place is that of float16's subnormals
	tooBFloat16 = 0x7f7f8000 // the least magnitude that rounds to infinity
	tooFloat16  = 0x477ff000 // the same: 65520
	least16     = 0x38800000 // the least normal float16: 2^-14
	places16    = 13 << 23   // the bits by which float16's fraction is shorter, in the exponent
)

// subBFloat16 writes x-b, rounded to nearest, ties to even.
func subBFloat16(code []byte, x, b []float32) {
	b, code = b[:len(x)], code[:2*len(x)]
	at, carry := subVectors(BFloat16, code, x, b)
	for ; at+4 <= len(x); at += 4 {
		xs, bs := (*[4]float32)(x[at:]), (*[4]float32)(b[at:])
		u0, u1, u2, u3 := pattern(xs[0]-bs[0]), pattern(xs[1]-bs[1]), pattern(xs[2]-bs[2]), pattern(xs[3]-bs[3])
		carry |= (u0&abs32 + (sign32 - tooBFloat16)) | (u1&abs32 + (sign32 - tooBFloat16)) |
			(u2&abs32 + (sign32 - tooBFloat16)) | (u3&abs32 + (sign32 - tooBFloat16))
		h := uint64(roundB(u0)) | uint64(roundB(u1))<<16 | uint64(roundB(u2))<<32 | uint64(roundB(u3))<<48
		binary.LittleEndian.PutUint64(code[2*at:], h)
	}
	for ; at < len(x); at++ {
		u := pattern(x[at] - b[at])
		carry |= u&abs32 + (sign32 - tooBFloat16)
		binary.LittleEndian.PutUint16(code[2*at:], uint16(roundB(u)))
	}
	if carry&sign32 != 0 {
		subCareful(code, x, b, toBFloat16, 0x7f7f)
	}
}

// pattern returns the bits of v. It is short because the kernels use it so
// often.
func pattern(v float32) uint32 { return math.Float32bits(v) }

// roundB rounds the bits of a float32, not of a NaN, to bfloat16.
func roundB(u uint32) uint32 { return (u + 0x7fff + u>>16&1) >> 16 }

// subFloat16 is subBFloat16 for float16.
func subFloat16(code []byte, x, b []float32) {
	b, code = b[:len(x)], code[:2*len(x)]
	at, carry := subVectors(Float16, code, x, b)
	for ; at+4 <= len(x); at += 4 {
		xs, bs := (*[4]float32)(x[at:]), (*[4]float32)(b[at:])
		u0, u1, u2, u3 := pattern(xs[0]-bs[0]), pattern(xs[1]-bs[1]), pattern(xs[2]-bs[2]), pattern(xs[3]-bs[3])
		carry |= (u0&abs32 + (sign32 - tooFloat16)) | (u1&abs32 + (sign32 - tooFloat16)) |
			(u2&abs32 + (sign32 - tooFloat16)) | (u3&abs32 + (sign32 - tooFloat16))
		h := uint64(roundH(u0)) | uint64(roundH(u1))<<16 | uint64(roundH(u2))<<32 | uint64(roundH(u3))<<48
		binary.LittleEndian.PutUint64(code[2*at:], h)
	}
	for ; at < len(x); at++ {
		u := pattern(x[at] - b[at])
		carry |= u&abs32 + (sign32 - tooFloat16)
		binary.LittleEndian.PutUint16(code[2*at:], uint16(roundH(u)))
	}
	if carry&sign32 != 0 {
		subCareful(code, x, b, toFloat16, 0x7bff)
	}
}

// roundH rounds the bits of a float32 below 65520 to float16. Adding a power of two whose exponent is 13 above that of the number, or of the
// least normal result, moves the wanted bits to the end of the fraction, and rounds them; a normal result's leading one, and
// the carry of what is rounded up, add to the exponent as they should.
func roundH(u uint32) uint32 {
	a := u & abs32
	e := max(a&inf32, least16)
	f := float32(math.Float32frombits(a) + math.Float32frombits(e+places16))
	return u>>16&0x8000 | ((e-least16)>>13 + pattern(f) - (e + places16))
}

// subCareful is for blocks in which a difference is too large, or a number not
// finite.
func subCareful(code []byte, x, b []float32, round func(float32) uint16, largest uint16) {
	for i, v := range x {
		d := v - b[i]
		h := round(d)
		switch {
		case !finite32(v):
			h = round(v) // kept, so that the merge finds its contributor
		case math.Float32bits(d)&abs32 <= inf32 && h&0x7fff == largest+1:
			h = h&0x8000 | largest
		}
		binary.LittleEndian.PutUint16(code[2*i:], h)
	}
}

// addBFloat16 adds to y what code holds. Adding 0 to the sum makes -0 of it 0: the difference of -0 and -0 is 0, so that -0 would not
// travel twice.
func addBFloat16(y []float32, code []byte) {
	code = code[:2*len(y)]
	at, carry := addVectors(BFloat16, y, code)
	for ; at+4 <= len(y); at += 4 {
		h, ys := binary.LittleEndian.Uint64(code[2*at:]), (*[4]float32)(y[at:])
		v0, v1 := ys[0]+math.Float32frombits(uint32(h)<<16)+0, ys[1]+math.Float32frombits(uint32(h)&0xffff0000)+0
		v2, v3 := ys[2]+math.Float32frombits(uint32(h>>32)<<16)+0, ys[3]+math.Float32frombits(uint32(h>>32)&0xffff0000)+0
		ys[0], ys[1], ys[2], ys[3] = v0, v1, v2, v3
		carry |= excess(v0) | excess(v1) | excess(v2) | excess(v3)
	}
	for ; at < len(y); at++ {
		y[at] = y[at] + math.Float32frombits(uint32(binary.LittleEndian.Uint16(code[2*at:]))<<16) + 0
		carry |= excess(y[at])
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
	at, carry := addVectors(Float16, y, code)
	for ; at+4 <= len(y); at += 4 {
		h, ys := binary.LittleEndian.Uint64(code[2*at:]), (*[4]float32)(y[at:])
		v0, v1 := ys[0]+decodeHalf(uint32(h))+0, ys[1]+decodeHalf(uint32(h)>>16)+0
		v2, v3 := ys[2]+decodeHalf(uint32(h>>32))+0, ys[3]+decodeHalf(uint32(h>>48))+0
		ys[0], ys[1], ys[2], ys[3] = v0, v1, v2, v3
		carry |= excess(v0) | excess(v1) | excess(v2) | excess(v3) | infinities(h)
	}
	for ; at < len(y); at++ {
		h := uint32(binary.LittleEndian.Uint16(code[2*at:]))
		y[at] = y[at] + decodeHalf(h) + 0
		carry |= excess(y[at]) | infinities(uint64(h))
	}
	if carry&sign32 == 0 {
		return
	}
	for i := range y {
		mend(&y[i], fromFloat16(binary.LittleEndian.Uint16(code[2*i:])))
	}
}

// decodeHalf converts the low half of h, unless that is infinite or NaN. It reads a subnormal as the end of the fraction of one
// half, since processors compute slowly with subnormals.
func decodeHalf(h uint32) float32 {
	a := h & 0x7fff
	u := a<<13 + (least16 - 1<<23)
	small := pattern(math.Float32frombits(half32+a) - 0.5)
	if a < 0x0400 {
		u = small
	}
	return math.Float32frombits(h<<16&sign32 | u)
}

// infinities sets the sign bit if any of four codes is infinite or NaN.
func infinities(h uint64) uint32 {
	h = h&0x7fff7fff7fff7fff + 0x0400040004000400
	h |= h >> 32
	return uint32(h) | uint32(h)<<16
}

// mend corrects a sum v of which d is one term: v becomes finite if d is
// finite, else v becomes d.
func mend(v *float32, d float32) {
	switch {
	case !finite32(d):
		*v = d
	case !finite32(*v):
		*v = float32(math.Copysign(math.MaxFloat32, float64(*v)))
	}
}
