package merge_test

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/swarmd/swarmd/merge"
)

func layoutOf(t testing.TB, tensors ...merge.Tensor) *merge.Layout {
	t.Helper()
	l, err := merge.NewLayout(tensors)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func bytes32(values ...float32) []byte {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

func floats32(b []byte) []float32 {
	out := make([]float32, len(b)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return out
}

func parse(t testing.TB, text string) *merge.Method {
	t.Helper()
	m, err := merge.ParseMethod(text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// mean merges leaf 0 of whole vectors that fit one leaf.
func mean(t testing.TB, l *merge.Layout, weights []uint32, sources ...[]byte) ([]byte, error) {
	t.Helper()
	m, err := parse(t, "mean").NewMerger(l, merge.Contributors{Weights: weights})
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]byte, l.Bytes())
	for leaf := range l.Leaves() {
		var cut [][]byte
		for _, s := range sources {
			cut = append(cut, leafOf(l, leaf, s))
		}
		if err := m.Leaf(leaf, leafOf(l, leaf, dst), cut, nil); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// leafOf cuts a leaf out of a flat vector; of a vector of another length it takes all.
func leafOf(l *merge.Layout, leaf int, b []byte) []byte {
	if int64(len(b)) != l.Bytes() {
		return b
	}
	return b[l.LeafOffset(leaf):][:l.LeafLen(leaf)]
}

func TestMeanReference(t *testing.T) {
	rows := [][]byte{bytes32(0, 0, 1), bytes32(1, 0, 2), bytes32(0, 1, 3), bytes32(10, 10, 100)}
	tests := []struct {
		name    string
		weights []uint32
		rows    [][]byte
		want    []float32
	}{
		{"1:3 on 0 and 4", []uint32{1, 3}, [][]byte{bytes32(0, 0, 0), bytes32(4, 4, 4)}, []float32{3, 3, 3}},
		{"equal weights", []uint32{1, 1, 1, 1}, rows, []float32{2.75, 2.75, 26.5}},
		{"first is heavier", []uint32{2, 1, 1, 1}, rows, []float32{2.2, 2.2, 21.4}},
		{"alone", []uint32{7}, rows[3:], []float32{10, 10, 100}},
	}
	l := layoutOf(t, merge.Tensor{Name: "w", DType: merge.Float32, Shape: []int64{3}})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := mean(t, l, tt.weights, tt.rows...)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(floats32(got), tt.want); d != "" {
				t.Errorf("got, want:\n%s", d)
			}
		})
	}
}

func TestMeanNamesWhoIsNotFinite(t *testing.T) {
	l := layoutOf(t,
		merge.Tensor{Name: "a", DType: merge.Float32, Shape: []int64{2}},
		merge.Tensor{Name: "b", DType: merge.Float32, Shape: []int64{2, 2}})
	good := bytes32(1, 2, 3, 4, 5, 6)
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(-1)), math.MaxFloat32} {
		_, err := mean(t, l, []uint32{1, 2, 3}, good, good, bytes32(1, 2, 3, 4, bad, 6))
		var nf *merge.NonFinite
		if !errors.As(err, &nf) {
			t.Fatalf("value %g: got %v, want *merge.NonFinite", bad, err)
		}
		if nf.Contributor != 2 || nf.Tensor != "b" || nf.Index != 2 || nf.Offset != 16 {
			t.Errorf("value %g: got %+v, want contributor 2, tensor b, element 2, offset 16", bad, nf)
		}
	}
}
