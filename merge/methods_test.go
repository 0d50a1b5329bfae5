package merge_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/mergetest"
)

func TestParseMethod(t *testing.T) {
	for in, want := range map[string]string{
		"mean": "mean", " MEAN ": "mean", "mean()": "mean", "Mean( )": "mean",
		"CoordMedian": "coordmedian", "TrimmedMean": "trimmedmean(share=0.2)",
		"trimmedmean(Share = 1e-1)":     "trimmedmean(share=0.1)",
		"Krum":                          "krum(f=1)",
		"KRUM(f=2)":                     "krum(f=2)",
		"krum(f=2.0)":                   "krum(f=2)",
		"krum(f=-0)":                    "krum(f=0)",
		"multikrum( m=3 , f=1 )":        "multikrum(f=1,m=3)",
		"normclip(cap=2.5)":             "normclip(factor=1.5,cap=2.5)",
		"fedadam(beta2=0.999)":          "fedadam(lr=0.01,beta1=0.9,beta2=0.999,tau=0.001)",
		"FedYogi(lr=.1,tau=1e-9)":       "fedyogi(lr=0.1,beta1=0.9,beta2=0.99,tau=1e-09)",
		"diloco":                        "diloco(lr=0.7,momentum=0.9)",
		"fedavgm(momentum=0,lr=0.5e+0)": "fedavgm(lr=0.5,momentum=0)",
		"mean( Wire = BFloat16 )":       "mean(wire=bfloat16)",
		"krum(wire=float16)":            "krum(f=1,wire=float16)",
		"multikrum(m=3,wire=float16)":   "multikrum(f=1,m=3,wire=float16)",
	} {
		m, err := merge.ParseMethod(in)
		if err != nil {
			t.Errorf("%q: %v", in, err)
			continue
		}
		if m.String() != want || m.Name() != strings.SplitN(want, "(", 2)[0] {
			t.Errorf("%q: got %q, want %q", in, m, want)
		}
	}
	for in, want := range map[string]string{
		"":                                "use one of bulyan, coordmedian, diloco, fedadam",
		"medoid":                          `"medoid"`,
		"mean(":                           "parenthesis",
		"mean(share=1)":                   `no parameter "share": use wire`,
		"krum(g=1,wire=float16)":          "use f, wire",
		"mean(wire=float8)":               `wire is "float8": want bfloat16 or float16`,
		"mean(wire=1)":                    "want bfloat16 or float16",
		"mean(wire)":                      "want bfloat16 or float16",
		"mean(wire=float32)":              "leave it out",
		"mean(wire=float16,wire=float16)": "twice",
		"mean)":                           "use one of",
		"krum(g=1)":                       "use f, wire",
		"krum(f=1,f=1)":                   "twice",
		"krum(f=1,)":                      `no parameter ""`,
		"krum(f)":                         "a whole number from 0 to 2046",
		"krum(f=1.5)":                     "a whole number from 0 to 2046",
		"krum(f=-1)":                      "a whole number",
		"trimmedmean(share=0.5)":          "a number from 0 to 0.49",
		"trimmedmean(share=nan)":          "a number from 0 to 0.49",
		"normclip(factor=0)":              "a number above 0 to 1e+06",
		"normclip(factor=0x1p4)":          "a number above 0",
		"normclip(cap=Inf)":               "a number from 0",
		"normclip(cap=1e999)":             "a number from 0",
		"fedavgm(momentum=1)":             "a number from 0 to below 1",
		strings.Repeat("m", 257):          "257 characters",
		"krum(f=1) and more":              "parenthesis",
		"krum(f=1)(f=2)":                  `"1)(f=2"`,
		"fedadam(lr=1,beta1=0.9_9)":       "beta1",
	} {
		if m, err := merge.ParseMethod(in); !errors.Is(err, merge.ErrMethod) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, %v, want ErrMethod with %q", in, m, err, want)
		}
	}
}

func FuzzParseMethod(f *testing.F) {
	for _, name := range merge.Methods() {
		f.Add(name)
		for _, wire := range merge.Wires() {
			f.Add(name + "(wire=" + wire + ")")
		}
	}
	f.Add("FedAdam( tau=1e-3, LR=0.10 )")
	f.Add("krum(f=+1)")
	f.Add("krum(wire=float16,f=2)")
	f.Add(" NormClip( Wire = BFLOAT16 , cap=1e300, factor=2.50 ) ")
	f.Add("multikrum(m=3,wire=bfloat16,f=1)")
	f.Add("fedyogi(lr=0.01,beta1=0.9,beta2=0.99,tau=0.001,wire=float16)")
	f.Add("mean(wire=float16,wire=bfloat16)")
	f.Add("mean(wire=)")
	f.Add("mean(wire=float32)")
	f.Add("trimmedmean(share=-0,wire=0)")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := merge.ParseMethod(text)
		if err != nil {
			if !errors.Is(err, merge.ErrMethod) {
				t.Fatalf("%q: %v does not wrap ErrMethod", text, err)
			}
			return
		}
		again, err := merge.ParseMethod(m.String())
		if err != nil || again.String() != m.String() {
			t.Fatalf("%q: the canonical %q gives %v, %v", text, m, again, err)
		}
		if len(m.String()) > merge.MaxMethod || m.LeastContributors() < 1 || m.LeastContributors() > merge.MaxContributors+1 {
			t.Fatalf("%q: %q needs %d contributors", text, m, m.LeastContributors())
		}
		checkWires(t, text, m)
	})
}

// checkWires holds that a method's wire is what its text says, and that with another one, or none, it is the same method.
func checkWires(t *testing.T, text string, m *merge.Method) {
	t.Helper()
	bare, wire, given := strings.Cut(strings.TrimSuffix(m.String(), ")"), "wire=")
	if given != (m.Wire() != 0) || given && (wire != m.Wire().String() || !slices.Contains(merge.Wires(), wire)) {
		t.Fatalf("%q: the canonical %q travels as %v", text, m, m.Wire())
	}
	bare = strings.TrimRight(bare, "(,")
	for _, wire := range append(merge.Wires(), "") {
		want := bare
		if wire != "" {
			want += map[bool]string{true: ",", false: "("}[strings.Contains(bare, "(")] + "wire=" + wire
		}
		if strings.Contains(want, "(") {
			want += ")"
		}
		other, err := merge.ParseMethod(want)
		if err != nil || other.String() != want || (other.Wire() == m.Wire()) != (want == m.String()) {
			t.Fatalf("%q: %q with wire %q gives %v, %v", text, m, wire, other, err)
		}
		if other.Name() != m.Name() || other.LeastContributors() != m.LeastContributors() || other.Distances() != m.Distances() ||
			other.BoundsNorms() != m.BoundsNorms() || other.UsesBase() != m.UsesBase() {
			t.Fatalf("%q: %q is another method than %q", text, other, m)
		}
	}
}

// all are the methods with parameters that work with seven contributors.
var all = []string{
	"mean", "coordmedian", "trimmedmean", "trimmedmean(share=0)", "trimmedmean(share=0.49)", "geomedian", "krum", "krum(f=2)", "multikrum",
	"multikrum(f=2,m=3)", "bulyan", "bulyan(f=0)", "normclip", "normclip(cap=0.1)", "fedavgm", "fedadam", "fedyogi", "diloco",
}

func TestWhatMethodsNeed(t *testing.T) {
	l := layoutOf(t, merge.Tensor{Name: "x", DType: merge.Float32, Shape: []int64{3}}, merge.Tensor{Name: "n", DType: merge.Int64, Shape: []int64{2}})
	type needs struct {
		Least                   int
		Distances, Bounds, Base bool
		State                   int64
	}
	want := map[string]needs{
		"mean": {Least: 1}, "coordmedian": {Least: 1}, "trimmedmean": {Least: 1},
		"geomedian": {Least: 1, Distances: true},
		"krum":      {Least: 5, Distances: true}, "krum(f=3)": {Least: 9, Distances: true},
		"multikrum": {Least: 5, Distances: true}, "multikrum(f=1,m=9)": {Least: 10, Distances: true},
		"bulyan": {Least: 7, Distances: true}, "bulyan(f=2)": {Least: 11, Distances: true},
		"normclip": {Least: 1, Bounds: true, Base: true},
		"fedavgm":  {Least: 1, Base: true, State: 12}, "diloco": {Least: 1, Base: true, State: 12},
		"fedadam": {Least: 1, Base: true, State: 24}, "fedyogi": {Least: 1, Base: true, State: 24},
	}
	for name, w := range want {
		m := parse(t, name)
		got := needs{m.LeastContributors(), m.Distances(), m.BoundsNorms(), m.UsesBase(), m.StateBytes(l)}
		if d := cmp.Diff(got, w); d != "" {
			t.Errorf("%s: got, want:\n%s", name, d)
		}
		if (m.NewStepper(l) != nil) != (w.State > 0) {
			t.Errorf("%s: stepper %v, state %d", name, m.NewStepper(l), w.State)
		}
	}
	ints := layoutOf(t, merge.Tensor{Name: "n", DType: merge.Int64, Shape: []int64{2}})
	if m := parse(t, "fedadam"); m.StateBytes(ints) != 0 || m.NewStepper(ints) != nil {
		t.Error("a model without floats has no optimiser state")
	}
	two, ten := []uint32{1, 1}, make([]uint32, 10)
	for i := range ten {
		ten[i] = 1
	}
	for _, tt := range []struct {
		method string
		in     merge.Contributors
		want   error
	}{
		{"mean", merge.Contributors{}, merge.ErrWeights},
		{"mean", merge.Contributors{Weights: []uint32{1, 0}}, merge.ErrWeights},
		{"mean", merge.Contributors{Weights: make([]uint32, 5000)}, merge.ErrWeights},
		{"krum", merge.Contributors{Weights: two, Distances: []float64{1}}, merge.ErrContributors},
		{"geomedian", merge.Contributors{Weights: two}, merge.ErrContributors},
		{"geomedian", merge.Contributors{Weights: two, Distances: []float64{math.NaN()}}, merge.ErrContributors},
		{"geomedian", merge.Contributors{Weights: two, Distances: []float64{-1}}, merge.ErrContributors},
		{"geomedian", merge.Contributors{Weights: two, Distances: []float64{math.Inf(1)}}, merge.ErrContributors},
		{"normclip", merge.Contributors{Weights: two}, merge.ErrContributors},
		{"normclip", merge.Contributors{Weights: two, Factors: []float64{1, 0}}, merge.ErrContributors},
		{"normclip", merge.Contributors{Weights: two, Factors: []float64{1, 1.5}}, merge.ErrContributors},
		{"bulyan(f=2)", merge.Contributors{Weights: ten, Distances: make([]float64, 45)}, merge.ErrContributors},
	} {
		if _, err := parse(t, tt.method).NewMerger(l, tt.in); !errors.Is(err, tt.want) {
			t.Errorf("%s of %d: got %v, want %v", tt.method, len(tt.in.Weights), err, tt.want)
		}
	}
}

// every is a layout with all types and padding, of more than one leaf if large.
func every(t testing.TB, large bool) *merge.Layout {
	tensors := []merge.Tensor{{Name: "scalar", DType: merge.BFloat16}}
	for d := merge.Float64; d <= merge.Bool; d++ {
		shape := []int64{3, int64(d)}
		if large && d == merge.Float32 {
			shape = []int64{70_000}
		}
		if large && d == merge.Float16 {
			shape = []int64{140_001}
		}
		tensors = append(tensors, merge.Tensor{Name: d.String(), DType: d, Shape: shape}, merge.Tensor{Name: d.String() + " none", DType: d, Shape: []int64{0}})
	}
	return layoutOf(t, tensors...)
}

// models returns random models that their types hold.
func models(l *merge.Layout, rng *rand.Rand, n int) [][]byte {
	out := make([][]byte, n)
	for i := range out {
		var values []float64
		for k := range l.Len() {
			tensor := l.Tensor(k)
			for range tensor.Elements() {
				v := rng.NormFloat64()
				switch tensor.DType {
				case merge.Float64, merge.Float32, merge.Float16, merge.BFloat16:
				case merge.Bool:
					v = float64(rng.IntN(2))
				default:
					v = float64(rng.IntN(120))
				}
				values = append(values, v)
			}
		}
		out[i] = flat(l, values)
	}
	return out
}

func run(t testing.TB, method string, l *merge.Layout, weights []uint32, models [][]byte, base []byte) []byte {
	t.Helper()
	got, _, err := mergetest.Merge(parse(t, method), l, weights, models, base, nil)
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	return got
}

// TestPropertiesOfAllMethods: what holds for each of them, on all types.
func TestPropertiesOfAllMethods(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	l := every(t, false)
	weights := []uint32{3, 1, 4, 6, 5, 9, 2} // No two alike: equal scores of Krum go to the heavier.
	for _, name := range all {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				xs := models(l, rng, len(weights))
				base := models(l, rng, 1)[0]
				got := run(t, name, l, weights, xs, base)
				checkPadding(t, l, got)
				if !bytes.Equal(got, run(t, name, l, weights, xs, base)) {
					t.Fatal("a second merge gives other bytes")
				}
				// Sums may round otherwise in another order, and no more than that.
				order := rng.Perm(len(weights))
				w2, x2 := make([]uint32, len(weights)), make([][]byte, len(weights))
				scaled := make([]uint32, len(weights))
				for i, j := range order {
					w2[i], x2[i] = weights[j], xs[j]
				}
				for i := range weights {
					scaled[i] = weights[i] * 1000
				}
				close16(t, l, run(t, name, l, w2, x2, base), got)
				close16(t, l, run(t, name, l, scaled, xs, base), got)
				same := make([][]byte, len(weights))
				for i := range same {
					same[i] = xs[0]
				}
				if parse(t, name).StateBytes(l) == 0 && name != "normclip(cap=0.1)" {
					close16(t, l, run(t, name, l, weights, same, base), xs[0])
				}
				if !strings.HasPrefix(name, "fed") && name != "diloco" {
					between(t, l, got, append(slices.Clone(xs), base))
				}
			}
		})
	}
}

func checkPadding(t *testing.T, l *merge.Layout, b []byte) {
	t.Helper()
	at := int64(0)
	for i := range l.Len() {
		if slices.ContainsFunc(b[at:l.Offset(i)], func(c byte) bool { return c != 0 }) {
			t.Fatalf("padding before tensor %d is not zero", i)
		}
		at = l.Offset(i) + l.Tensor(i).Elements()*int64(l.Tensor(i).DType.Size())
	}
}

// close16 allows the last bit of the narrowest type, and one for a rounded
// integer.
func close16(t *testing.T, l *merge.Layout, got, want []byte) {
	t.Helper()
	at := 0
	g, w := unflat(l, got), unflat(l, want)
	for i := range l.Len() {
		allowed := map[merge.DType]float64{merge.Float64: 1e-5, merge.Float32: 1e-5, merge.Float16: 2e-3, merge.BFloat16: 2e-2}[l.Tensor(i).DType]
		if allowed == 0 {
			allowed = 1
		}
		for range l.Tensor(i).Elements() {
			if math.Abs(g[at]-w[at]) > allowed*max(1, math.Abs(w[at])) {
				t.Fatalf("%s: got %g, want %g", l.Tensor(i).Name, g[at], w[at])
			}
			at++
		}
	}
}

func between(t *testing.T, l *merge.Layout, got []byte, from [][]byte) {
	t.Helper()
	rows := make([][]float64, len(from))
	for i := range from {
		rows[i] = unflat(l, from[i])
	}
	for e, v := range unflat(l, got) {
		lo, hi := math.Inf(1), math.Inf(-1)
		for _, r := range rows {
			lo, hi = min(lo, r[e]), max(hi, r[e])
		}
		if v < lo-1e-6 || v > hi+1e-6 {
			t.Fatalf("element %d: %g is not between %g and %g", e, v, lo, hi)
		}
	}
}

// TestNonFiniteValuesAreNamed: in every method the contributor, the tensor and
// the element are, whoever else would be chosen.
func TestNonFiniteValuesAreNamed(t *testing.T) {
	l := every(t, false)
	rng := rand.New(rand.NewPCG(5, 6))
	for _, name := range all {
		for _, d := range []merge.DType{merge.Float64, merge.Float32, merge.Float16, merge.BFloat16} {
			for _, bad := range []uint64{0x7ff0, 0x7ff8, 0xfff0} { // top bits of a float64
				xs := models(l, rng, 7)
				const i = 4
				k := 1 + 2*(int(d)-1) // its tensor
				at := l.Offset(k) + 2*int64(d.Size())
				v := math.Float64frombits(bad << 48)
				if d == merge.Float16 {
					copy(xs[i][at:], []byte{0, 0x7c | byte(bad>>8)&0x80})
				} else {
					put(d, xs[i][at:], v)
				}
				_, _, err := mergetest.Merge(parse(t, name), l, []uint32{1, 1, 1, 1, 1, 1, 1}, xs, nil, nil)
				var nf *merge.NonFinite
				if !errors.As(err, &nf) {
					t.Fatalf("%s, %s, %g: got %v, want *merge.NonFinite", name, d, v, err)
				}
				if nf.Contributor != i || nf.Tensor != d.String() || nf.Index != 2 || nf.Offset != at {
					t.Errorf("%s, %s, %g: got %+v, want contributor %d, element 2 at %d", name, d, v, nf, i, at)
				}
			}
		}
	}
}

// TestHugeValuesDoNotMoveRobustMethods: two of eleven send the largest numbers
// that there are.
func TestHugeValuesDoNotMoveRobustMethods(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	l := layoutOf(t, merge.Tensor{Name: "x", DType: merge.Float32, Shape: []int64{1000}})
	for _, size := range []float64{1e3, 1e10, 1e18, 1e30, math.MaxFloat32} {
		xs := models(l, rng, 11)
		clean := make(map[string][]float64)
		weights := make([]uint32, 11)
		for i := range weights {
			weights[i] = 1
		}
		robust := []string{"coordmedian", "trimmedmean", "geomedian", "krum(f=2)", "multikrum(f=2)", "bulyan(f=2)"}
		for _, m := range robust {
			clean[m] = unflat(l, run(t, m, l, weights, xs, nil))
		}
		for i := range 2 {
			values := make([]float64, 1000)
			for e := range values {
				values[e] = size * float64(1-2*((e+i)%2))
			}
			xs[i] = flat(l, values)
		}
		for _, m := range robust {
			got := unflat(l, run(t, m, l, weights, xs, nil))
			for e := range got {
				if math.Abs(got[e]-clean[m][e]) > 5 {
					t.Errorf("%s: values of %g move element %d from %g to %g", m, size, e, clean[m][e], got[e])
					break
				}
			}
		}
	}
	wide := layoutOf(t, merge.Tensor{Name: "x", DType: merge.Float64, Shape: []int64{4}})
	xs := models(wide, rng, 7)
	xs[3] = flat(wide, []float64{1, 2, 1e200, 3})
	_, _, err := mergetest.Merge(parse(t, "krum"), wide, []uint32{1, 1, 1, 1, 1, 1, 1}, xs, nil, nil)
	var nf *merge.NonFinite
	if !errors.As(err, &nf) || nf.Contributor != 3 || nf.Index != 2 {
		t.Errorf("a distance beyond float64: got %v, want contributor 3, element 2", err)
	}
}

// TestHeavyLiarIsNotChosen: weights decide nothing in Krum and its kin.
func TestHeavyLiarIsNotChosen(t *testing.T) {
	l := layoutOf(t, merge.Tensor{Name: "x", DType: merge.Float32, Shape: []int64{2}})
	var xs [][]byte
	for i := range 6 {
		xs = append(xs, bytes32(float32(i)*0.1, 1))
	}
	xs = append(xs, bytes32(50, -50))
	weights := []uint32{1, 1, 1, 1, 1, 1, math.MaxUint32}
	for _, m := range []string{"krum", "multikrum", "bulyan"} {
		got := unflat(l, run(t, m, l, weights, xs, nil))
		if got[0] < 0 || got[0] > 0.5 || got[1] != 1 {
			t.Errorf("%s: got %v", m, got)
		}
	}
}

// TestFactors bounds updates by the weighted median norm or by the cap.
func TestFactors(t *testing.T) {
	for _, tt := range []struct {
		method  string
		weights []uint32
		norms   []float64
		want    []float64
	}{
		{"normclip", []uint32{1, 1, 1}, []float64{1, 2, 30}, []float64{1, 1, 0.1}},
		{"normclip(factor=1)", []uint32{1, 1}, []float64{1, 3}, []float64{1, 2.0 / 3}},
		{"normclip(factor=1)", []uint32{1, 9}, []float64{1, 3}, []float64{1, 1}},
		{"normclip(cap=2)", []uint32{1, 1, 1}, []float64{1, 2, 4}, []float64{1, 1, 0.5}},
		{"normclip", []uint32{1, 1, 1}, []float64{0, 0, 1}, []float64{1, 1, 0x1p-1022}},
		{"normclip", []uint32{1, 1, 1}, []float64{1, 1, math.Inf(1)}, []float64{1, 1, 0x1p-1022}},
		{"normclip", []uint32{1, 1, 1}, []float64{1, 1, math.NaN()}, []float64{1, 1, 0x1p-1022}},
		{"normclip", []uint32{1, 1, 1}, []float64{1, 1, -1}, []float64{1, 1, 0x1p-1022}},
		{"mean", []uint32{1}, []float64{1}, nil},
	} {
		if d := cmp.Diff(parse(t, tt.method).Factors(tt.weights, tt.norms), tt.want); d != "" {
			t.Errorf("%s of %v: got, want:\n%s", tt.method, tt.norms, d)
		}
	}
}

// TestLeavesAreMergedWithoutAllocating, by every method.
func TestLeavesAreMergedWithoutAllocating(t *testing.T) {
	l := every(t, false)
	rng := rand.New(rand.NewPCG(9, 10))
	xs := models(l, rng, 7)
	base := models(l, rng, 1)[0]
	for i := range xs {
		xs[i] = leafOf(l, 0, xs[i])
	}
	base = leafOf(l, 0, base)
	d := merge.NewDistances(l, 7)
	if err := d.Add(0, xs); err != nil {
		t.Fatal(err)
	}
	sums := d.Sums()
	if n := testing.AllocsPerRun(3, func() { _ = d.Add(0, xs) }); n != 0 {
		t.Errorf("distances: %v allocations", n)
	}
	for _, name := range all {
		m := parse(t, name)
		in := merge.Contributors{Weights: []uint32{1, 2, 3, 4, 5, 6, 7}, Factors: []float64{1, 1, 1, 1, 1, 1, 0.5}, Distances: sums}
		merger, err := m.NewMerger(l, in)
		if err != nil {
			t.Fatal(err)
		}
		_, slots := m.StateSpan(l, 0)
		dst, state := make([]byte, l.LeafLen(0)), make([]byte, slots)
		s := m.NewStepper(l)
		if n := testing.AllocsPerRun(3, func() {
			if err := merger.Leaf(0, dst, xs, base); err != nil {
				t.Error(err)
			}
			if s != nil {
				if err := s.Leaf(0, dst, dst, base, state, state); err != nil {
					t.Error(err)
				}
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations per leaf", name, n)
		}
	}
}

// TestStateSpans: they follow each other, and end at StateBytes.
func TestStateSpans(t *testing.T) {
	l := every(t, true)
	if l.Leaves() < 2 {
		t.Fatal("the layout has one leaf")
	}
	for _, name := range []string{"diloco", "fedadam", "mean"} {
		m := parse(t, name)
		var at int64
		for leaf := range l.Leaves() {
			from, n := m.StateSpan(l, leaf)
			if from != at {
				t.Errorf("%s: the state of leaf %d begins at %d, want %d", name, leaf, from, at)
			}
			at += int64(n)
		}
		if at != m.StateBytes(l) {
			t.Errorf("%s: the spans end at %d of %d bytes", name, at, m.StateBytes(l))
		}
	}
}

// TestStepsOfTheFirstRound take the mean, with a state of zero.
func TestStepsOfTheFirstRound(t *testing.T) {
	l := every(t, true)
	xs := models(l, rand.New(rand.NewPCG(11, 12)), 2)
	weights := []uint32{1, 2}
	want := run(t, "mean", l, weights, xs, nil)
	for _, name := range []string{"fedavgm", "fedadam", "fedyogi", "diloco"} {
		got, state, err := mergetest.Merge(parse(t, name), l, weights, xs, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) || slices.ContainsFunc(state, func(c byte) bool { return c != 0 }) {
			t.Errorf("%s: the first round is not the mean with a state of zero", name)
		}
	}
}

// TestStepOutOfRange: a step beyond float16 is nobody's fault.
func TestStepOutOfRange(t *testing.T) {
	l := layoutOf(t, merge.Tensor{Name: "w", DType: merge.Float16, Shape: []int64{3}})
	m := parse(t, "fedavgm(lr=3)")
	base, x := flat(l, []float64{0, 1, 0}), flat(l, []float64{0, 1, 60000})
	_, _, err := mergetest.Merge(m, l, []uint32{1}, [][]byte{x}, base, nil)
	var nf *merge.NonFinite
	if !errors.As(err, &nf) || nf.Contributor != -1 || nf.Tensor != "w" || nf.Index != 2 {
		t.Errorf("got %v, want element 2 of w and nobody", err)
	}
}

// TestExplain: every method tells users about itself.
func TestExplain(t *testing.T) {
	for _, name := range merge.Methods() {
		doc, params := merge.Explain(name)
		if doc == "" {
			t.Errorf("%s has no line for users", name)
		}
		text := name
		for i, p := range params {
			if p.Doc == "" || p.Range == "" {
				t.Errorf("%s: parameter %s is not explained", name, p.Name)
			}
			text += fmt.Sprintf("%c%s=%g", "(,,,"[min(i, 1)], p.Name, p.Default)
		}
		if len(params) > 0 {
			text += ")"
		}
		if got := parse(t, name).String(); got != text {
			t.Errorf("%s: defaults are %s, explained as %s", name, got, text)
		}
	}
}
