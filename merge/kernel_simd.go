//go:build goexperiment.simd && amd64

package merge

import "simd/archsimd"

func kernels() []kernel {
	var all []kernel
	if archsimd.X86.AVX512() {
		all = append(all, kernel{"avx512", weigh512})
	}
	if archsimd.X86.AVX2() {
		all = append(all, kernel{"avx2", weigh256})
	}
	return append(all, plain)
}

// Four vectors at a time stay in registers while all rows are added. v - v is 0 if v is finite, else NaN: or-ed together,
// the bits of these are 0 as long as all is finite. Mul and Add stay two operations: nothing fuses them but MulAdd.

func weigh512(acc []float32, rows [][]float32, weights []float32, onto bool, sum float32) (at int, finite bool) {
	const width = 64
	var bits archsimd.Int32x16
	s := archsimd.BroadcastFloat32x16(sum)
	weights = weights[:len(rows)]
	for ; at+width <= len(acc); at += width {
		d := (*[width]float32)(acc[at:])
		var a0, a1, a2, a3 archsimd.Float32x16
		first := 0
		if onto {
			a0, a1, a2, a3 = load512(d)
		} else {
			w := archsimd.BroadcastFloat32x16(weights[0])
			x0, x1, x2, x3 := load512((*[width]float32)(rows[0][at:]))
			a0, a1, a2, a3 = x0.Mul(w), x1.Mul(w), x2.Mul(w), x3.Mul(w)
			first = 1
		}
		for i := first; i < len(rows); i++ {
			w := archsimd.BroadcastFloat32x16(weights[i])
			x0, x1, x2, x3 := load512((*[width]float32)(rows[i][at:]))
			a0, a1, a2, a3 = a0.Add(x0.Mul(w)), a1.Add(x1.Mul(w)), a2.Add(x2.Mul(w)), a3.Add(x3.Mul(w))
		}
		if sum != 0 {
			a0, a1, a2, a3 = a0.Div(s), a1.Div(s), a2.Div(s), a3.Div(s)
			bits = bits.Or(a0.Sub(a0).AsInt32x16()).Or(a1.Sub(a1).AsInt32x16())
			bits = bits.Or(a2.Sub(a2).AsInt32x16()).Or(a3.Sub(a3).AsInt32x16())
		}
		a0.Store((*[16]float32)(d[:]))
		a1.Store((*[16]float32)(d[16:]))
		a2.Store((*[16]float32)(d[32:]))
		a3.Store((*[16]float32)(d[48:]))
	}
	finite = bits.Equal(archsimd.Int32x16{}).ToBits() == 0xffff
	archsimd.ClearAVXUpperBits() // or the scalar code that follows would be slow
	return at, finite
}

func load512(b *[64]float32) (x0, x1, x2, x3 archsimd.Float32x16) {
	return archsimd.LoadFloat32x16((*[16]float32)(b[:])), archsimd.LoadFloat32x16((*[16]float32)(b[16:])),
		archsimd.LoadFloat32x16((*[16]float32)(b[32:])), archsimd.LoadFloat32x16((*[16]float32)(b[48:]))
}

func weigh256(acc []float32, rows [][]float32, weights []float32, onto bool, sum float32) (at int, finite bool) {
	const width = 32
	var bits archsimd.Int32x8
	s := archsimd.BroadcastFloat32x8(sum)
	weights = weights[:len(rows)]
	for ; at+width <= len(acc); at += width {
		d := (*[width]float32)(acc[at:])
		var a0, a1, a2, a3 archsimd.Float32x8
		first := 0
		if onto {
			a0, a1, a2, a3 = load256(d)
		} else {
			w := archsimd.BroadcastFloat32x8(weights[0])
			x0, x1, x2, x3 := load256((*[width]float32)(rows[0][at:]))
			a0, a1, a2, a3 = x0.Mul(w), x1.Mul(w), x2.Mul(w), x3.Mul(w)
			first = 1
		}
		for i := first; i < len(rows); i++ {
			w := archsimd.BroadcastFloat32x8(weights[i])
			x0, x1, x2, x3 := load256((*[width]float32)(rows[i][at:]))
			a0, a1, a2, a3 = a0.Add(x0.Mul(w)), a1.Add(x1.Mul(w)), a2.Add(x2.Mul(w)), a3.Add(x3.Mul(w))
		}
		if sum != 0 {
			a0, a1, a2, a3 = a0.Div(s), a1.Div(s), a2.Div(s), a3.Div(s)
			bits = bits.Or(a0.Sub(a0).AsInt32x8()).Or(a1.Sub(a1).AsInt32x8())
			bits = bits.Or(a2.Sub(a2).AsInt32x8()).Or(a3.Sub(a3).AsInt32x8())
		}
		a0.Store((*[8]float32)(d[:]))
		a1.Store((*[8]float32)(d[8:]))
		a2.Store((*[8]float32)(d[16:]))
		a3.Store((*[8]float32)(d[24:]))
	}
	finite = bits.IsZero()
	archsimd.ClearAVXUpperBits() // or the scalar code that follows would be slow
	return at, finite
}

func load256(b *[32]float32) (x0, x1, x2, x3 archsimd.Float32x8) {
	return archsimd.LoadFloat32x8((*[8]float32)(b[:])), archsimd.LoadFloat32x8((*[8]float32)(b[8:])),
		archsimd.LoadFloat32x8((*[8]float32)(b[16:])), archsimd.LoadFloat32x8((*[8]float32)(b[24:]))
}
