package modelfile_test

import (
	"bytes"
	"testing"

	"github.com/swarmd/swarmd/internal/swci/modelfile"
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
		w := modelfile.NewWriter(l, &out)
		if _, err := w.Write(vector); err != nil || out.String() != "abc" || w.Written() != l.Bytes() {
			t.Errorf("wrote %q, %d bytes of the vector, %v", out.String(), w.Written(), err)
		}
		got, err := modelfile.DigestTensors(bytes.NewReader([]byte("abc")), l)
		if err != nil || got != w.Digest() {
			t.Errorf("digest %s, %v", got, err)
		}
	}
}

// FuzzReadHeader: a file of anybody's is refused, or is in the one form in which get model writes it.
func FuzzReadHeader(f *testing.F) {
	l, err := merge.NewLayout([]merge.Tensor{{Name: "a", DType: merge.Float32, Shape: []int64{2, 3}}, {Name: "b \"<", DType: merge.Bool}})
	if err != nil {
		f.Fatal(err)
	}
	head, err := modelfile.Meta{Swarm: "s", Contract: "c", Run: 1, Round: 2, Digest: merge.Sum(nil).String(), Method: "mean", Final: true, Layout: l}.Header()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(head)
	f.Add([]byte("\x02\x00\x00\x00\x00\x00\x00\x00{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := modelfile.ReadHeader(bytes.NewReader(b))
		if err != nil {
			return
		}
		again, err := m.Header()
		if err != nil || !bytes.HasPrefix(b, again) {
			t.Errorf("%q is read, and written as %q: %v", b, again, err)
		}
	})
}
