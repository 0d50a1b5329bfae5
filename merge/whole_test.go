package merge_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/mergetest"
)

// TestShardsGiveTheWholeVector merges models of several leaves as three owners
// would, and compares with the definitions on whole vectors in float64.
func TestShardsGiveTheWholeVector(t *testing.T) {
	l := layoutOf(t,
		merge.Tensor{Name: "a", DType: merge.Float32, Shape: []int64{66_000}},
		merge.Tensor{Name: "b", DType: merge.Float64, Shape: []int64{20_000}},
		merge.Tensor{Name: "c", DType: merge.BFloat16, Shape: []int64{60_001}},
		merge.Tensor{Name: "d", DType: merge.Float32, Shape: []int64{5}})
	rng := rand.New(rand.NewPCG(13, 14))
	weights := []uint32{3, 1, 4, 6, 5, 9, 2}
	xs := models(l, rng, len(weights))
	base := models(l, rng, 1)[0]
	rows := make([][]float64, len(xs))
	for i := range xs {
		if i == 2 {
			for e, v := range unflat(l, xs[i]) {
				rows[i] = append(rows[i], float64(e%7)*v)
			}
			xs[i] = flat(l, rows[i])
		}
		rows[i] = unflat(l, xs[i])
	}
	from := unflat(l, base)
	for name, want := range map[string][]float64{
		"coordmedian":   wholeColumns(rows, func(v []float64, who []int) float64 { return wholeTrimmed(v, who, weights, 0.5-1e-12) }),
		"trimmedmean":   wholeColumns(rows, func(v []float64, who []int) float64 { return wholeTrimmed(v, who, weights, 0.2) }),
		"geomedian":     wholeGeomedian(rows, weights),
		"multikrum":     wholeMean(rows, weights, []int{0, 1, 3, 4, 5, 6}), // all but the far one
		"normclip":      wholeClipped(rows, from, weights),
		"mean":          wholeMean(rows, weights, []int{0, 1, 2, 3, 4, 5, 6}),
		"bulyan(f=0)":   wholeMean(rows, weights, []int{0, 1, 2, 3, 4, 5, 6}),
		"fedavgm(lr=1)": wholeMean(rows, weights, []int{0, 1, 2, 3, 4, 5, 6}), // without state: the mean
	} {
		got := unflat(l, sharded(t, l, name, weights, xs, base))
		at := 0
		for i := range l.Len() {
			allowed := map[merge.DType]float64{merge.Float64: 1e-6, merge.Float32: 1e-6, merge.BFloat16: 4e-3}[l.Tensor(i).DType]
			for range l.Tensor(i).Elements() {
				if math.Abs(got[at]-want[at]) > allowed*max(1, math.Abs(want[at])) {
					t.Fatalf("%s, tensor %d: got %g, want %g", name, i, got[at], want[at])
				}
				at++
			}
		}
	}
}

// sharded merges shard by shard, the sums of distances in the owners' order.
func sharded(t *testing.T, l *merge.Layout, name string, weights []uint32, xs [][]byte, base []byte) []byte {
	t.Helper()
	m := parse(t, name)
	shards, err := mergetest.EqualShards(l.Leaves(), []bool{true, true, true})
	if err != nil {
		t.Fatal(err)
	}
	n := len(xs)
	in := merge.Contributors{Weights: weights, Distances: make([]float64, n*(n-1)/2)}
	squares := make([]float64, n)
	cut := func(b []byte, leaf int) []byte { return b[l.LeafOffset(leaf):][:l.LeafLen(leaf)] }
	each := func(leaf int) [][]byte {
		out := make([][]byte, n)
		for i := range xs {
			out[i] = cut(xs[i], leaf)
		}
		return out
	}
	for _, s := range shards {
		d := merge.NewDistances(l, n)
		for leaf := s.First; leaf < s.End(); leaf++ {
			if err := d.Add(leaf, each(leaf)); err != nil {
				t.Fatal(err)
			}
			for i, x := range each(leaf) {
				squares[i] += merge.UpdateSquares(l, leaf, x, cut(base, leaf))
			}
		}
		for i, v := range d.Sums() {
			in.Distances[i] += v
		}
	}
	norms := make([]float64, n)
	for i := range norms {
		norms[i] = math.Sqrt(squares[i])
	}
	in.Factors = m.Factors(weights, norms)
	out := make([]byte, l.Bytes())
	for _, s := range shards {
		merger, err := m.NewMerger(l, in)
		if err != nil {
			t.Fatal(err)
		}
		for leaf := s.First; leaf < s.End(); leaf++ {
			if err := merger.Leaf(leaf, cut(out, leaf), each(leaf), cut(base, leaf)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return out
}

func wholeColumns(rows [][]float64, merge func(v []float64, who []int) float64) []float64 {
	out := make([]float64, len(rows[0]))
	who, v := make([]int, len(rows)), make([]float64, len(rows))
	for e := range out {
		for i := range who {
			who[i] = i
		}
		sort.Slice(who, func(a, b int) bool { return rows[who[a]][e] < rows[who[b]][e] })
		for r, i := range who {
			v[r] = rows[i][e]
		}
		out[e] = merge(v, who)
	}
	return out
}

// wholeTrimmed cuts the share of the weight off both ends; almost a half leaves
// the median.
func wholeTrimmed(v []float64, who []int, weights []uint32, share float64) float64 {
	var total, at, sum, kept float64
	for _, i := range who {
		total += float64(weights[i])
	}
	for r, i := range who {
		w := float64(weights[i])
		k := max(0, min(at+w, total-share*total)-max(at, share*total))
		sum, kept, at = sum+k*v[r], kept+k, at+w
	}
	return sum / kept
}

func wholeMean(rows [][]float64, weights []uint32, of []int) []float64 {
	out := make([]float64, len(rows[0]))
	var total float64
	for _, i := range of {
		total += float64(weights[i])
	}
	for _, i := range of {
		for e, v := range rows[i] {
			out[e] += v * float64(weights[i]) / total
		}
	}
	return out
}

func wholeNorm(a, b []float64) float64 {
	var sum float64
	for e := range a {
		sum += (a[e] - b[e]) * (a[e] - b[e])
	}
	return math.Sqrt(sum)
}

func wholeGeomedian(rows [][]float64, weights []uint32) []float64 {
	everyone := []int{0, 1, 2, 3, 4, 5, 6}
	y := wholeMean(rows, weights, everyone)
	for {
		next, total := make([]float64, len(y)), 0.0
		for i, r := range rows {
			k := float64(weights[i]) / wholeNorm(r, y)
			total += k
			for e, v := range r {
				next[e] += k * v
			}
		}
		for e := range next {
			next[e] /= total
		}
		if wholeNorm(next, y) < 1e-6 {
			return next
		}
		y = next
	}
}

func wholeClipped(rows [][]float64, base []float64, weights []uint32) []float64 {
	norms := make([]float64, len(rows))
	var spread []float64
	for i, r := range rows {
		norms[i] = wholeNorm(r, base)
		for range weights[i] {
			spread = append(spread, norms[i])
		}
	}
	slices.Sort(spread)
	n := len(spread)
	bound := 1.5 * (spread[(n-1)/2] + spread[n/2]) / 2
	out := slices.Clone(base)
	for i, r := range rows {
		c := min(1, bound/norms[i]) * float64(weights[i]) / float64(n)
		for e, v := range r {
			out[e] += c * (v - base[e])
		}
	}
	return out
}
