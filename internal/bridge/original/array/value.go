package array

import (
	"encoding/binary"
	"math"

	"github.com/swarmd/swarmd/merge"
)

// Value is one named array with its elements in C order.
type Value struct {
	Name  string
	DType merge.DType
	Shape []int64
	Data  []byte
}

// Loadable is the value as clients can load it: they take a single whole number for a size, so it becomes a float.
func (v Value) Loadable() Value {
	if len(v.Shape) > 0 || !integral(v.DType) {
		return v
	}
	var number [8]byte
	copy(number[:], v.Data)
	bits := binary.LittleEndian.Uint64(number[:])
	f := float64(bits)
	if signed(v.DType) {
		unused := 64 - 8*len(v.Data)
		f = float64(int64(bits) << unused >> unused) //nolint:gosec // as it is meant
	}
	v.DType, v.Data = merge.Float64, binary.LittleEndian.AppendUint64(nil, math.Float64bits(f))
	return v
}

// Returns reports whether an array is what a program makes of another one that it was given: of a single whole number a float.
func (a *Array) Returns(given *Array) bool {
	float := a.DType == merge.Float64 || a.DType == merge.Float32
	return a.Name == given.Name && len(a.Shape) == 0 && len(given.Shape) == 0 && float && integral(given.DType)
}

// ReadWhole reads a single float as a whole number of the type of given, whose length the slot has.
func (a *Array) ReadWhole(given *Array, slot []byte) error {
	number := make([]byte, a.Bytes())
	if err := a.readAll(number); err != nil {
		return err
	}
	var f float64
	if a.DType == merge.Float32 {
		f = float64(math.Float32frombits(binary.LittleEndian.Uint32(number)))
	} else {
		f = math.Float64frombits(binary.LittleEndian.Uint64(number))
	}
	bits := uint64(max(f, 0))
	if signed(given.DType) {
		bits = uint64(int64(f)) //nolint:gosec // as it is meant
	}
	copy(slot, binary.LittleEndian.AppendUint64(nil, bits))
	return nil
}

// integral reports whether a type is of whole numbers, a truth among them.
func integral(d merge.DType) bool { return d >= merge.Uint8 && d <= merge.Bool }

func signed(d merge.DType) bool {
	return d == merge.Int8 || d == merge.Int16 || d == merge.Int32 || d == merge.Int64
}
