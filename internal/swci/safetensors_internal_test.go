package swci

import (
	"bytes"
	"testing"

	"github.com/swarmd/swarmd/merge"
)

// TestTensorsWithoutElements: a layout is whatever a peer enrolled with; padding behind the last tensor that has bytes is none
// of a tensor's.
func TestTensorsWithoutElements(t *testing.T) {
	for _, tensors := range [][]merge.Tensor{
		{{Name: "a", DType: merge.Uint8, Shape: []int64{3}}, {Name: "b", DType: merge.Float64, Shape: []int64{0}}},
		{{Name: "a", DType: merge.Float64, Shape: []int64{0}}, {Name: "b", DType: merge.Uint8, Shape: []int64{3}}},
	} {
		l, err := merge.NewLayout(tensors)
		if err != nil {
			t.Fatal(err)
		}
		vector := make([]byte, l.Bytes())
		copy(vector, "abc")
		var out bytes.Buffer
		w := &vectorWriter{layout: l, out: &out}
		if _, err := w.Write(vector); err != nil || out.String() != "abc" || w.at != l.Bytes() {
			t.Errorf("wrote %q, %d bytes of the vector, %v", out.String(), w.at, err)
		}
		got, err := digestTensors(bytes.NewReader([]byte("abc")), l)
		if err != nil || got != w.digest.sum() {
			t.Errorf("digest %s, %v", got, err)
		}
	}
}
