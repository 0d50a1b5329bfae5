//go:build goexperiment.simd && amd64

package merge

import "simd/archsimd"

// decodeHalves decodes 16-bit floating point as far as its vectors fit and returns how many elements that are.
func decodeHalves(d DType, out []float32, in []uint16) (at int) {
	const width = 8
	if !archsimd.X86.AVX2() {
		return 0
	}
	in = in[:len(out)]
	if d == BFloat16 {
		for ; at+width <= len(out); at += width {
			h := archsimd.LoadUint16x8((*[width]uint16)(in[at:])).ExtendToUint32()
			h.ShiftAllLeft(16).AsFloat32x8().Store((*[width]float32)(out[at:]))
		}
		archsimd.ClearAVXUpperBits()
		return at
	}
	magnitude, sign := archsimd.BroadcastInt32x8(0x7fff), archsimd.BroadcastInt32x8(0x8000)
	rebase := archsimd.BroadcastInt32x8(0x38000000) // 112 more in the exponent
	normal, infinite := archsimd.BroadcastInt32x8(0x0400), archsimd.BroadcastInt32x8(0x7bff)
	bits, half := archsimd.BroadcastInt32x8(0x3f000000), archsimd.BroadcastFloat32x8(0.5)
	for ; at+width <= len(out); at += width {
		h := archsimd.LoadUint16x8((*[width]uint16)(in[at:])).ExtendToUint32().AsInt32x8()
		a := h.And(magnitude)
		u := a.ShiftAllLeft(13).Add(rebase)
		u = u.Add(rebase.Masked(a.Greater(infinite)))
		// A subnormal is put at the end of the fraction of one half, which is then taken away.
		small := a.Add(bits).AsFloat32x8().Sub(half).AsInt32x8()
		u = small.Merge(u, normal.Greater(a)).Or(h.And(sign).ShiftAllLeft(16))
		u.AsFloat32x8().Store((*[width]float32)(out[at:]))
	}
	archsimd.ClearAVXUpperBits()
	return at
}

// encodeHalves encodes to nearest, ties to even, as far as its vectors fit and returns how many elements that are.
func encodeHalves(d DType, out []uint16, in []float32) (at int) {
	const width = 16
	if !archsimd.X86.AVX512() {
		return 0 // AVX2 has no instruction that takes the lower halves
	}
	out = out[:len(in)]
	if d == BFloat16 {
		almost, one, quiet := archsimd.BroadcastUint32x16(0x7fff), archsimd.BroadcastUint32x16(1), archsimd.BroadcastUint32x16(0x40)
		for ; at+width <= len(in); at += width {
			x := archsimd.LoadFloat32x16((*[width]float32)(in[at:]))
			u := x.AsUint32x16()
			top := u.ShiftAllRight(16)
			u = u.Add(almost).Add(top.And(one)).ShiftAllRight(16)
			u = u.Merge(top.Or(quiet), x.Equal(x))
			u.TruncateToUint16().Store((*[width]uint16)(out[at:]))
		}
		archsimd.ClearAVXUpperBits()
		return at
	}
	magnitude, sign := archsimd.BroadcastUint32x16(0x7fffffff), archsimd.BroadcastUint32x16(0x8000)
	exponent, least := archsimd.BroadcastUint32x16(0x7f800000), archsimd.BroadcastUint32x16(0x38800000)
	places := archsimd.BroadcastUint32x16(13 << 23)
	large, infinite := archsimd.BroadcastUint32x16(0x477fefff), archsimd.BroadcastUint32x16(0x7c00)
	nan := archsimd.BroadcastUint32x16(0x7e00)
	for ; at+width <= len(in); at += width {
		x := archsimd.LoadFloat32x16((*[width]float32)(in[at:]))
		u := x.AsUint32x16()
		a := u.And(magnitude)
		// Adding a power of two whose exponent is 13 above that of the number, or of the smallest normal result, moves the
		// wanted bits to the end of the fraction, and rounds.
		e := a.And(exponent).Max(least)
		p := e.Add(places)
		m := a.AsFloat32x16().Add(p.AsFloat32x16()).AsUint32x16().Sub(p)
		r := e.Sub(least).ShiftAllRight(13).Add(m)
		r = infinite.Merge(r, a.Greater(large))
		r = r.Merge(nan, x.Equal(x))
		r = r.Or(u.ShiftAllRight(16).And(sign))
		r.TruncateToUint16().Store((*[width]uint16)(out[at:]))
	}
	archsimd.ClearAVXUpperBits()
	return at
}
