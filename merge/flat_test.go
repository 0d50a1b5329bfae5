package merge_test

import (
	"encoding/binary"
	"math"

	"github.com/swarmd/swarmd/merge"
)

// The tests' own encoding of elements, apart from the package's.

// flat encodes a model's elements, tensor behind tensor; padding is zero.
func flat(l *merge.Layout, values []float64) []byte {
	b := make([]byte, l.Bytes())
	for i := range l.Len() {
		t := l.Tensor(i)
		at := l.Offset(i)
		for range t.Elements() {
			put(t.DType, b[at:], values[0])
			values = values[1:]
			at += int64(t.DType.Size())
		}
	}
	return b
}

// unflat decodes all elements.
func unflat(l *merge.Layout, b []byte) (values []float64) {
	for i := range l.Len() {
		t := l.Tensor(i)
		at := l.Offset(i)
		for range t.Elements() {
			values = append(values, get(t.DType, b[at:]))
			at += int64(t.DType.Size())
		}
	}
	return values
}

// put encodes a value that the type holds, or rounds it down.
func put(d merge.DType, b []byte, v float64) {
	le := binary.LittleEndian
	switch d {
	case merge.Float64:
		le.PutUint64(b, math.Float64bits(v))
	case merge.Float32:
		le.PutUint32(b, math.Float32bits(float32(v)))
	case merge.BFloat16:
		le.PutUint16(b, uint16(math.Float32bits(float32(v))>>16))
	case merge.Float16:
		le.PutUint16(b, half(v))
	case merge.Bool:
		b[0] = 0
		if v != 0 {
			b[0] = 1
		}
	case merge.Uint64:
		le.PutUint64(b, uint64(v))
	default:
		n := uint64(int64(v))
		for i := range d.Size() {
			b[i] = byte(n >> (8 * i))
		}
	}
}

// half finds the largest float16 whose magnitude is not above that of v.
func half(v float64) uint16 {
	lo, hi := uint16(0), uint16(0x7bff)
	for lo < hi {
		mid := lo + (hi-lo+1)/2
		if halfValue(mid) <= math.Abs(v) {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	if math.Signbit(v) {
		lo |= 0x8000
	}
	return lo
}

func halfValue(h uint16) float64 {
	sign, exp, frac := 1.0, int(h>>10&0x1f), float64(h&0x3ff)
	if h>>15 != 0 {
		sign = -1
	}
	switch exp {
	case 0:
		return sign * math.Ldexp(frac, -24)
	case 31:
		return sign * math.Inf(1)
	}
	return sign * math.Ldexp(1024+frac, exp-25)
}

func get(d merge.DType, b []byte) float64 {
	le := binary.LittleEndian
	switch d {
	case merge.Float64:
		return math.Float64frombits(le.Uint64(b))
	case merge.Float32:
		return float64(math.Float32frombits(le.Uint32(b)))
	case merge.BFloat16:
		return float64(math.Float32frombits(uint32(le.Uint16(b)) << 16))
	case merge.Float16:
		return halfValue(le.Uint16(b))
	case merge.Uint8, merge.Bool:
		return float64(b[0])
	case merge.Int8:
		return float64(int8(b[0]))
	case merge.Uint16:
		return float64(le.Uint16(b))
	case merge.Int16:
		return float64(int16(le.Uint16(b)))
	case merge.Uint32:
		return float64(le.Uint32(b))
	case merge.Int32:
		return float64(int32(le.Uint32(b)))
	case merge.Uint64:
		return float64(le.Uint64(b))
	}
	return float64(int64(le.Uint64(b)))
}
