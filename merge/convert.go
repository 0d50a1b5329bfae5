package merge

import "math"

// float reports whether d is a floating point type. Distances and
// optimisers ignore all others.
func (d DType) float() bool {
	return d == Float64 || d == Float32 || d == Float16 || d == BFloat16
}

// widen decodes into scratch, which must not be shorter than b has elements,
// and returns what it filled. All values but 64-bit integers beyond 2^53 are
// exact.
func widen(d DType, b []byte, scratch []float64) []float64 {
	size := d.Size()
	out := scratch[:len(b)/size]
	if d != Float32 && d != Float16 && d != BFloat16 {
		copy(out, load64(d, b, scratch))
		return out
	}
	var narrow [strip]float32
	for at := 0; at < len(out); at += strip {
		end := min(at+strip, len(out))
		x := load32(d, b[at*size:end*size], narrow[:])
		o := out[at:end]
		x = x[:len(o)]
		for i := range o {
			o[i] = float64(x[i])
		}
	}
	return out
}

// narrow encodes, rounding once: to nearest, ties to even. Integers saturate.
func narrow(d DType, b []byte, x []float64) {
	size := d.Size()
	switch d {
	case Float32:
		var f [strip]float32
		for at := 0; at < len(x); at += strip {
			end := min(at+strip, len(x))
			for i, v := range x[at:end] {
				f[i] = float32(v)
			}
			store32(d, b[at*size:end*size], f[:end-at])
		}
	case Float16, BFloat16:
		var f [strip]float32
		for at := 0; at < len(x); at += strip {
			end := min(at+strip, len(x))
			for i, v := range x[at:end] {
				f[i] = odd32(v)
			}
			store32(d, b[at*size:end*size], f[:end-at])
		}
	default:
		for i, v := range x {
			storeFloat(d, b[i*size:], within(d, v))
		}
	}
}

// odd32 rounds to float32 such that a second rounding to 16 bits gives what one
// rounding would: towards zero, and to an odd last bit if that lost something
// (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
func odd32(v float64) float32 {
	f := float32(v)
	if float64(f) == v || math.IsNaN(v) || math.IsInf(v, 0) {
		return f
	}
	b := math.Float32bits(f)
	if math.Abs(float64(f)) > math.Abs(v) {
		b--
	}
	return math.Float32frombits(b | 1)
}

// within keeps a rounding error at an end of an integer type's range inside it.
func within(d DType, v float64) float64 {
	switch d {
	case Uint8, Uint16, Uint32, Uint64:
		return max(v, 0)
	case Int64:
		return max(v, -(1 << 63))
	}
	return v
}

// notFinite returns the index of the first element that is NaN or infinite, or
// -1: adding one to an exponent of all ones carries into the sign bit.
func notFinite(x []float64) int {
	var carry uint64
	for _, v := range x {
		carry |= math.Float64bits(v)&^(1<<63) + 1<<52
	}
	if carry>>63 == 0 {
		return -1
	}
	for i, v := range x {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return i
		}
	}
	return -1
}
