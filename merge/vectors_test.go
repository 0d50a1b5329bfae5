package merge_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/mergetest"
)

// vector is one case of testdata/vectors.json, which reference.py computes with
// numpy from the definitions in DESIGN.md.
type vector struct {
	Method       string      `json:"method"`
	DTypes       []string    `json:"dtypes"` // of each tensor
	Shapes       [][]int64   `json:"shapes"`
	Weights      []uint32    `json:"weights"`
	Contributors [][]float64 `json:"contributors"`
	Base         []float64   `json:"base"`
	State        []float64   `json:"state"` // per run of float tensors of one type: first moments, then second
	Want         []float64   `json:"want"`
	WantState    []float64   `json:"want_state"`
	Tolerance    float64     `json:"tolerance"` // relative to the larger of 1 and the wanted value
}

// TestReferenceVectors compares every method with an independent computation.
func TestReferenceVectors(t *testing.T) {
	b, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []vector
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for i, v := range all {
		m := parse(t, v.Method)
		seen[m.Name()]++
		t.Run(fmt.Sprintf("%d/%s", i, v.Method), func(t *testing.T) { v.check(t, m) })
	}
	for _, name := range merge.Methods() {
		if seen[name] < 5 {
			t.Errorf("%s has %d reference vectors", name, seen[name])
		}
	}
}

func (v *vector) check(t *testing.T, m *merge.Method) {
	if m.String() != v.Method {
		t.Errorf("the canonical form is %s", m)
	}
	l := v.layout(t)
	models := make([][]byte, len(v.Contributors))
	for i, values := range v.Contributors {
		models[i] = flat(l, values)
	}
	var base, state []byte
	if v.Base != nil {
		base = flat(l, v.Base)
	}
	if v.State != nil {
		state = v.stateOf(m, l, v.State)
	}
	got, gotState, err := mergetest.Merge(m, l, v.Weights, models, base, state)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "element", unflat(l, got), v.Want, v.Tolerance)
	if (gotState == nil) != (v.WantState == nil) {
		t.Fatalf("got a state of %d bytes, want %d values", len(gotState), len(v.WantState))
	}
	if gotState != nil {
		want := v.stateOf(m, l, v.WantState)
		near(t, "state", stateValues(l, gotState), stateValues(l, want), max(v.Tolerance, 1e-6))
	}
}

func near(t *testing.T, what string, got, want []float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: got %d values, want %d", what, len(got), len(want))
	}
	for i := range got {
		if !(math.Abs(got[i]-want[i]) <= tolerance*max(1, math.Abs(want[i]))) {
			t.Errorf("%s %d: got %.9g, want %.9g (tolerance %g)", what, i, got[i], want[i], tolerance)
		}
	}
}

func (v *vector) layout(t *testing.T) *merge.Layout {
	tensors := make([]merge.Tensor, len(v.Shapes))
	for i := range tensors {
		d, err := merge.ParseDType(v.DTypes[i])
		if err != nil {
			t.Fatal(err)
		}
		tensors[i] = merge.Tensor{Name: fmt.Sprint("t", i), DType: d, Shape: v.Shapes[i]}
	}
	return layoutOf(t, tensors...)
}

// stateOf encodes a state. The layout has one leaf, whose segments are the
// reference's runs of tensors of one type.
func (v *vector) stateOf(m *merge.Method, l *merge.Layout, values []float64) []byte {
	slots := int(m.StateBytes(l)) / max(1, stateBytes(l))
	var out []byte
	for _, s := range l.AppendSegments(nil, 0) {
		if stateSize(s.DType) == 0 {
			continue
		}
		n := slots * (s.End - s.Start) / s.DType.Size()
		for _, x := range values[:n] {
			out = appendState(out, s.DType, x)
		}
		values = values[n:]
	}
	return out
}

// stateBytes returns what one value for each float element takes.
func stateBytes(l *merge.Layout) (n int) {
	for i := range l.Len() {
		t := l.Tensor(i)
		n += int(t.Elements()) * stateSize(t.DType)
	}
	return n
}

func stateSize(d merge.DType) int {
	switch d {
	case merge.Float64:
		return 8
	case merge.Float32, merge.Float16, merge.BFloat16:
		return 4
	}
	return 0
}

func appendState(b []byte, d merge.DType, x float64) []byte {
	if d == merge.Float64 {
		return binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
	}
	return binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(x)))
}

// stateValues decodes a state of one leaf.
func stateValues(l *merge.Layout, b []byte) (out []float64) {
	slots := len(b) / max(1, stateBytes(l))
	for _, s := range l.AppendSegments(nil, 0) {
		size := stateSize(s.DType)
		if size == 0 {
			continue
		}
		for range slots * (s.End - s.Start) / s.DType.Size() {
			d := merge.Float32
			if size == 8 {
				d = merge.Float64
			}
			out = append(out, get(d, b))
			b = b[size:]
		}
	}
	return out
}
