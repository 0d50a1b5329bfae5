//go:build goexperiment.simd && amd64

package merge

import "simd/archsimd"

// subVectors is the loop of the kernels that encode, as far as its vectors fit: how many elements that are, and a sign bit
// if any needs care.
func subVectors(wire DType, code []byte, x, b []float32) (at int, carry uint32) {
	const width = 16
	if !archsimd.X86.AVX512() {
		return 0, 0 // AVX2 has no instruction that takes the lower halves
	}
	b, code = b[:len(x)], code[:2*len(x)]
	var care archsimd.Uint32x16
	magnitude := archsimd.BroadcastUint32x16(abs32)
	if wire == BFloat16 {
		bound, almost, one := archsimd.BroadcastUint32x16(sign32-tooBFloat16), archsimd.BroadcastUint32x16(0x7fff), archsimd.BroadcastUint32x16(1)
		for ; at+width <= len(x); at += width {
			u := difference(x[at:], b[at:])
			care = care.Or(u.And(magnitude).Add(bound))
			u = u.Add(almost).Add(u.ShiftAllRight(16).And(one)).ShiftAllRight(16)
			u.TruncateToUint16().AsUint8x32().Store((*[2 * width]byte)(code[2*at:]))
		}
	} else {
		bound, sign := archsimd.BroadcastUint32x16(sign32-tooFloat16), archsimd.BroadcastUint32x16(0x8000)
		exponent, least := archsimd.BroadcastUint32x16(inf32), archsimd.BroadcastUint32x16(least16)
		places := archsimd.BroadcastUint32x16(places16)
		for ; at+width <= len(x); at += width {
			u := difference(x[at:], b[at:])
			a := u.And(magnitude)
			care = care.Or(a.Add(bound))
			e := a.And(exponent).Max(least)
			p := e.Add(places)
			m := a.AsFloat32x16().Add(p.AsFloat32x16()).AsUint32x16().Sub(p)
			h := e.Sub(least).ShiftAllRight(13).Add(m).Or(u.ShiftAllRight(16).And(sign))
			h.TruncateToUint16().AsUint8x32().Store((*[2 * width]byte)(code[2*at:]))
		}
	}
	if care.Greater(magnitude).ToBits() != 0 {
		carry = sign32
	}
	archsimd.ClearAVXUpperBits() // or the scalar code that follows would be slow
	return at, carry
}

// difference has the bits of x-b.
func difference(x, b []float32) archsimd.Uint32x16 {
	return archsimd.LoadFloat32x16((*[16]float32)(x)).Sub(archsimd.LoadFloat32x16((*[16]float32)(b))).AsUint32x16()
}

// addVectors is subVectors for the kernels that decode.
func addVectors(wire DType, y []float32, code []byte) (at int, carry uint32) {
	const width = 8
	if !archsimd.X86.AVX2() {
		return 0, 0
	}
	code = code[:2*len(y)]
	var care archsimd.Int32x8
	magnitude, bound := archsimd.BroadcastInt32x8(abs32), archsimd.BroadcastInt32x8(sign32-inf32)
	if wire == BFloat16 {
		for ; at+width <= len(y); at += width {
			d := codes(code[2*at:]).ShiftAllLeft(16).AsFloat32x8()
			v := archsimd.LoadFloat32x8((*[width]float32)(y[at:])).Add(d).Add(archsimd.Float32x8{})
			v.Store((*[width]float32)(y[at:]))
			care = care.Or(v.AsInt32x8().And(magnitude).Add(bound))
		}
	} else {
		low, sign, infinite := archsimd.BroadcastInt32x8(0x7fff), archsimd.BroadcastInt32x8(0x8000), archsimd.BroadcastInt32x8(0x0400)
		rebase, one, half := archsimd.BroadcastInt32x8(least16-1<<23), archsimd.BroadcastInt32x8(half32), archsimd.BroadcastFloat32x8(0.5)
		for ; at+width <= len(y); at += width {
			h := codes(code[2*at:]).AsInt32x8()
			a := h.And(low)
			u := a.ShiftAllLeft(13).Add(rebase)
			small := a.Add(one).AsFloat32x8().Sub(half).AsInt32x8()
			u = small.Merge(u, infinite.Greater(a)).Or(h.And(sign).ShiftAllLeft(16))
			v := archsimd.LoadFloat32x8((*[width]float32)(y[at:])).Add(u.AsFloat32x8()).Add(archsimd.Float32x8{})
			v.Store((*[width]float32)(y[at:]))
			care = care.Or(v.AsInt32x8().And(magnitude).Add(bound)).Or(a.Add(infinite).ShiftAllLeft(16))
		}
	}
	if (archsimd.Int32x8{}).Greater(care).ToBits() != 0 {
		carry = sign32
	}
	archsimd.ClearAVXUpperBits()
	return at, carry
}

// codes are eight of them.
func codes(code []byte) archsimd.Uint32x8 {
	return archsimd.LoadUint8x16((*[16]byte)(code)).AsUint16x8().ExtendToUint32()
}
