package merge

import (
	"encoding/binary"
	"math"
	"unsafe"
)

// nativeLittle reports whether this machine stores numbers as the vector does: little endian.
var nativeLittle = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// view returns b as numbers without a copy, or nil where the machine's byte order or the alignment forbids it.
func view[T any](b []byte) []T {
	var zero T
	size := unsafe.Sizeof(zero)
	if !nativeLittle || len(b) == 0 || uintptr(unsafe.Pointer(&b[0]))%size != 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), uintptr(len(b))/size)
}

// load32 returns the elements as float32, in scratch unless they can be read in
// place.
func load32(d DType, b []byte, scratch []float32) []float32 {
	le := binary.LittleEndian
	if d == Float32 {
		if v := view[float32](b); v != nil {
			return v
		}
		out := scratch[:len(b)/4]
		for i := range out {
			out[i] = math.Float32frombits(le.Uint32(b[4*i:]))
		}
		return out
	}
	out := scratch[:len(b)/2]
	halves := view[uint16](b)
	if halves == nil {
		for i := range out {
			out[i] = float32(loadFloat(d, b[2*i:])) // exact
		}
		return out
	}
	done := decodeHalves(d, out, halves)
	rest, halves := out[done:], halves[done:len(out)]
	if d == BFloat16 {
		for i, h := range halves[:len(rest)] {
			rest[i] = math.Float32frombits(uint32(h) << 16)
		}
		return out
	}
	for i, h := range halves[:len(rest)] {
		rest[i] = fromFloat16(h)
	}
	return out
}

func store32(d DType, b []byte, x []float32) {
	le := binary.LittleEndian
	if d != Float32 {
		storeHalves(d, b, x)
		return
	}
	if v := view[float32](b); v != nil {
		copy(v, x)
		return
	}
	for i, v := range x {
		le.PutUint32(b[4*i:], math.Float32bits(v))
	}
}

func storeHalves(d DType, b []byte, x []float32) {
	le := binary.LittleEndian
	if v := view[uint16](b); v != nil {
		done := encodeHalves(d, v, x)
		b, x = b[2*done:], x[done:]
	}
	if d == BFloat16 {
		for i, v := range x {
			le.PutUint16(b[2*i:], toBFloat16(v))
		}
		return
	}
	for i, v := range x {
		le.PutUint16(b[2*i:], toFloat16(v))
	}
}

// load64 returns the elements as float64, in scratch unless they can be read in
// place. A bool is true when its byte is not 0.
func load64(d DType, b []byte, scratch []float64) []float64 {
	size := d.Size()
	out := scratch[:len(b)/size]
	if d == Float64 {
		if v := view[float64](b); v != nil {
			return v
		}
	}
	if integers64(d, out, b) {
		return out
	}
	for i := range out {
		out[i] = loadFloat(d, b[i*size:])
	}
	return out
}

// integer are the types whose every value is a whole number.
type integer interface {
	int8 | uint8 | int16 | uint16 | int32 | uint32 | int64 | uint64
}

// integers64 decodes all elements of an integer type at once, if they can be read in place: a loop for each type runs many
// times faster than one that asks for the type of every element.
func integers64(d DType, out []float64, b []byte) bool {
	switch d {
	case Uint8:
		return integersFrom(out, view[uint8](b))
	case Int8:
		return integersFrom(out, view[int8](b))
	case Uint16:
		return integersFrom(out, view[uint16](b))
	case Int16:
		return integersFrom(out, view[int16](b))
	case Uint32:
		return integersFrom(out, view[uint32](b))
	case Int32:
		return integersFrom(out, view[int32](b))
	case Uint64:
		return integersFrom(out, view[uint64](b))
	case Int64:
		return integersFrom(out, view[int64](b))
	}
	return false
}

func integersFrom[T integer](out []float64, in []T) bool {
	if in == nil {
		return false
	}
	in = in[:len(out)]
	for i, v := range in {
		out[i] = float64(v)
	}
	return true
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
	if stored64(d, b, x) {
		return
	}
	size := d.Size()
	for i, v := range x {
		storeFloat(d, b[i*size:], v)
	}
}

// stored64 is store64 for types that need no care for their range, if they can be written in place.
func stored64(d DType, b []byte, x []float64) bool {
	switch d {
	case Float64:
		v := view[float64](b)
		return v != nil && copy(v, x) == len(x)
	case Uint8:
		return integersTo(view[uint8](b), x)
	case Int8:
		return integersTo(view[int8](b), x)
	case Uint16:
		return integersTo(view[uint16](b), x)
	case Int16:
		return integersTo(view[int16](b), x)
	case Uint32:
		return integersTo(view[uint32](b), x)
	case Int32:
		return integersTo(view[int32](b), x)
	}
	return false
}

// integersTo rounds half to even.
func integersTo[T integer](out []T, x []float64) bool {
	if out == nil {
		return false
	}
	out = out[:len(x)]
	for i, v := range x {
		out[i] = T(int64(math.RoundToEven(v)))
	}
	return true
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

// fromFloat16 converts exactly: the fields are moved to their places in a float32, whose exponent is then 112 too small.
// Multiplying by 2^112 mends that, for subnormals too.
func fromFloat16(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	b := uint32(h&0x7fff) << 13
	if b >= 0x0f800000 { // infinite or NaN
		return math.Float32frombits(sign | 0x7f800000 | b)
	}
	return math.Float32frombits(sign | math.Float32bits(math.Float32frombits(b)*0x1p112))
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
