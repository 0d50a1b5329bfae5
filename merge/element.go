package merge

import (
	"encoding/binary"
	"math"
	"unsafe"
)

// nativeLittle says whether memory holds numbers as the vector does.
var nativeLittle = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// view32 returns b as float32 without a copy, or nil where the machine's byte
// order or the alignment forbids it.
func view32(b []byte) []float32 {
	if !nativeLittle || len(b) == 0 || uintptr(unsafe.Pointer(&b[0]))%4 != 0 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), len(b)/4)
}

// load32 returns the elements as float32, in scratch unless they can be read in
// place.
func load32(d DType, b []byte, scratch []float32) []float32 {
	le := binary.LittleEndian
	switch d {
	case Float16:
		out := scratch[:len(b)/2]
		for i := range out {
			out[i] = fromFloat16(le.Uint16(b[2*i:]))
		}
		return out
	case BFloat16:
		out := scratch[:len(b)/2]
		for i := range out {
			out[i] = math.Float32frombits(uint32(le.Uint16(b[2*i:])) << 16)
		}
		return out
	}
	if v := view32(b); v != nil {
		return v
	}
	out := scratch[:len(b)/4]
	for i := range out {
		out[i] = math.Float32frombits(le.Uint32(b[4*i:]))
	}
	return out
}

func store32(d DType, b []byte, x []float32) {
	le := binary.LittleEndian
	switch d {
	case Float16:
		for i, v := range x {
			le.PutUint16(b[2*i:], toFloat16(v))
		}
		return
	case BFloat16:
		for i, v := range x {
			le.PutUint16(b[2*i:], toBFloat16(v))
		}
		return
	}
	if v := view32(b); v != nil {
		copy(v, x)
		return
	}
	for i, v := range x {
		le.PutUint32(b[4*i:], math.Float32bits(v))
	}
}

// load64 decodes into scratch. A bool is true when its byte is not 0.
func load64(d DType, b []byte, scratch []float64) []float64 {
	size := d.Size()
	out := scratch[:len(b)/size]
	for i := range out {
		out[i] = loadFloat(d, b[i*size:])
	}
	return out
}

// loadFloat decodes one element.
func loadFloat(d DType, b []byte) float64 {
	le := binary.LittleEndian
	switch d {
	case Float64:
		return math.Float64frombits(le.Uint64(b))
	case Float32:
		return float64(math.Float32frombits(le.Uint32(b)))
	case Float16:
		return float64(fromFloat16(le.Uint16(b)))
	case BFloat16:
		return float64(math.Float32frombits(uint32(le.Uint16(b)) << 16))
	case Uint8:
		return float64(b[0])
	case Int8:
		return float64(int8(b[0]))
	case Uint16:
		return float64(le.Uint16(b))
	case Int16:
		return float64(int16(le.Uint16(b)))
	case Uint32:
		return float64(le.Uint32(b))
	case Int32:
		return float64(int32(le.Uint32(b)))
	case Uint64:
		return float64(le.Uint64(b))
	case Int64:
		return float64(int64(le.Uint64(b)))
	}
	if b[0] != 0 {
		return 1
	}
	return 0
}

func store64(d DType, b []byte, x []float64) {
	size := d.Size()
	for i, v := range x {
		storeFloat(d, b[i*size:], v)
	}
}

// storeFloat encodes one finite element. A mean lies between its inputs, so
// only the float64 images of the extreme 64-bit integers can leave the range;
// they saturate.
func storeFloat(d DType, b []byte, v float64) {
	le := binary.LittleEndian
	switch d {
	case Float64:
		le.PutUint64(b, math.Float64bits(v))
	case Bool:
		b[0] = 0
		if v > 0.5 {
			b[0] = 1
		}
	case Uint64:
		u := uint64(math.MaxUint64)
		if r := math.RoundToEven(v); r < 1<<64 {
			u = uint64(r)
		}
		le.PutUint64(b, u)
	default:
		n := int64(math.MaxInt64)
		if r := math.RoundToEven(v); r < 1<<63 {
			n = int64(r)
		}
		switch d.Size() {
		case 1:
			b[0] = byte(n)
		case 2:
			le.PutUint16(b, uint16(n))
		case 4:
			le.PutUint32(b, uint32(n))
		default:
			le.PutUint64(b, uint64(n))
		}
	}
}

// fromFloat16 converts exactly.
func fromFloat16(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exp := uint32(h>>10) & 0x1f
	frac := uint32(h & 0x3ff)
	switch exp {
	case 0:
		// Zero and subnormals: frac · 2^-24 is exact in float32.
		v := float32(frac) * (1.0 / (1 << 24))
		return math.Float32frombits(sign | math.Float32bits(v))
	case 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// toFloat16 rounds to nearest, ties to even; too large becomes infinite.
func toFloat16(v float32) uint16 {
	b := math.Float32bits(v)
	sign := uint16(b >> 16 & 0x8000)
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000:
		return sign | 0x7e00
	case b >= 0x47800000: // 2^16 and more
		return sign | 0x7c00
	case b < 0x38800000: // below 2^-14: subnormal
		// Adding 0.5 moves the wanted bits to the end of the fraction, and the
		// addition itself rounds to nearest even.
		f := math.Float32frombits(b) + 0.5
		return sign | uint16(math.Float32bits(f)-math.Float32bits(0.5))
	}
	b += 0xfff + b>>13&1
	return sign | uint16((b-0x38000000)>>13)
}

// toBFloat16 rounds to nearest, ties to even.
func toBFloat16(v float32) uint16 {
	b := math.Float32bits(v)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}
