package merge_test

import (
	"math"
	"testing"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/mergetest"
)

// TestHeavyLiarsWinNothing: where a method holds against liars of any weight, the largest weight there is helps none; where it
// holds by weight, just below half does not.
func TestHeavyLiarsWinNothing(t *testing.T) {
	l := layoutOf(t, merge.Tensor{Name: "w", DType: merge.Float64, Shape: []int64{3}})
	honest := []float64{1, -1, 0.5}
	for _, tt := range []struct {
		method string
		peers  int
		heavy  uint32 // weight of the liar, the others have 100 each
	}{
		{"krum(f=1)", 5, math.MaxUint32},
		{"multikrum(f=1)", 5, math.MaxUint32},
		{"bulyan(f=1)", 7, math.MaxUint32},
		{"krum(f=1)", 5, 100},
		{"multikrum(f=1)", 5, 100},
		{"bulyan(f=1)", 7, 100},
		{"coordmedian", 5, 399},
		{"geomedian", 5, 399},
		{"normclip", 5, 399},
		{"trimmedmean(share=0.49)", 5, 380},
	} {
		for _, lie := range []float64{1e6, -1e6, 1e30, 100} {
			var models [][]byte
			var weights []uint32
			for i := range tt.peers {
				v := make([]float64, len(honest))
				for e := range v {
					v[e] = honest[e] + 0.01*float64(i) // alike, not the same
				}
				models, weights = append(models, flat(l, v)), append(weights, 100)
			}
			models[2], weights[2] = flat(l, []float64{lie, lie, lie}), tt.heavy
			m, err := merge.ParseMethod(tt.method)
			if err != nil {
				t.Fatal(err)
			}
			got, _, err := mergetest.Merge(m, l, weights, models, flat(l, []float64{0, 0, 0}), nil)
			if err != nil {
				t.Fatal(err)
			}
			for e, v := range unflat(l, got) {
				if math.Abs(v-honest[e]) > 3.5 { // normclip moves by its bound at most, the others hardly at all
					t.Errorf("%s, a liar of weight %d sends %g: element %d is %g", tt.method, tt.heavy, lie, e, v)
				}
			}
		}
	}
}

// TestNormclipBoundsNothingAtHalf holds what the documentation says: half of the weight sets the bound itself.
func TestNormclipBoundsNothingAtHalf(t *testing.T) {
	m, err := merge.ParseMethod("normclip")
	if err != nil {
		t.Fatal(err)
	}
	if f := m.Factors([]uint32{100, 100}, []float64{1, 1e6}); f[1] < 0.7 {
		t.Errorf("factors %v", f)
	}
	if f := m.Factors([]uint32{100, 100, 199}, []float64{1, 1, 1e6}); f[2]*1e6 > 1.6 {
		t.Errorf("below half: factors %v", f)
	}
	if f := m.Factors([]uint32{1, 1, 1}, []float64{1, math.NaN(), -5}); f[0] != 1 || !(f[1] > 0 && f[1] <= 1) || !(f[2] > 0 && f[2] <= 1) {
		t.Errorf("norms that are none: factors %v", f)
	}
}
