package array_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/swarmd/swarmd/internal/bridge/original/array"
	"github.com/swarmd/swarmd/merge"
)

func section(b []byte) *io.SectionReader {
	return io.NewSectionReader(bytes.NewReader(b), 0, int64(len(b)))
}

// TestSingleNumbers of every whole type go to a program as floats, and come back as what they were.
func TestSingleNumbers(t *testing.T) {
	for name, tt := range map[string]struct {
		dtype  merge.DType
		number any
		want   float64
	}{
		"int64": {merge.Int64, int64(-1 << 40), -1 << 40}, "uint64": {merge.Uint64, uint64(1 << 40), 1 << 40},
		"int32": {merge.Int32, int32(math.MinInt32), math.MinInt32}, "uint32": {merge.Uint32, uint32(math.MaxUint32), math.MaxUint32},
		"int16": {merge.Int16, int16(-2), -2}, "uint16": {merge.Uint16, uint16(65535), 65535},
		"int8": {merge.Int8, int8(-128), -128}, "uint8": {merge.Uint8, uint8(255), 255}, "bool": {merge.Bool, true, 1},
	} {
		data, err := binary.Append(nil, binary.LittleEndian, tt.number)
		if err != nil {
			t.Fatal(err)
		}
		v := array.Value{Name: "n", DType: tt.dtype, Data: data}.Loadable()
		if got := math.Float64frombits(binary.LittleEndian.Uint64(v.Data)); v.DType != merge.Float64 || got != tt.want {
			t.Errorf("%s: %v as %s, want %v", name, got, v.DType, tt.want)
		}
		given := array.Array{Name: "n", DType: tt.dtype}
		back := array.Array{Name: "n", DType: v.DType, Data: section(v.Data)}
		slot := make([]byte, len(data))
		if !back.Returns(&given) || back.ReadWhole(&given, slot) != nil || !bytes.Equal(slot, data) {
			t.Errorf("%s came back as % x, want % x", name, slot, data)
		}
	}
	several := array.Value{Name: "n", DType: merge.Int64, Shape: []int64{1}, Data: make([]byte, 8)}
	if diff := cmp.Diff(several.Loadable(), several); diff != "" {
		t.Errorf("an array of one number was changed: %s", diff)
	}
}

// TestCheck: what is announced is held to its bounds before anything is made of it.
func TestCheck(t *testing.T) {
	huge := int64(math.MaxInt64)
	for want, a := range map[string]array.Array{
		"has 0 bytes, want 1 to":         {DType: merge.Float32, Data: section(nil)},
		"has 513 bytes, want 1 to":       {Name: strings.Repeat("x", 513), DType: merge.Float32, Data: section(nil)},
		"type that can not be merged":    {Name: "a", Data: section(nil)},
		"65 dimensions, want at most 64": {Name: "a", DType: merge.Bool, Shape: make([]int64, 65), Data: section(nil)},
		"its shape is out of range":      {Name: "a", DType: merge.Bool, Shape: []int64{huge, huge}, Data: section(nil)},
		"have not the 4 bytes":           {Name: "a", DType: merge.Float32, Data: section([]byte{1})},
		"shape is out of":                {Name: "a", DType: merge.Float32, Shape: []int64{-1}, Data: section(nil)},
	} {
		if err := a.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	none := array.Array{Name: "a", DType: merge.Float32, Shape: []int64{3, 0, 5}, Data: section(nil)}
	if err := none.Check(); err != nil {
		t.Errorf("an array without elements: %v", err)
	}
}
