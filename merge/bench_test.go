package merge_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/swarmd/swarmd/merge"
)

// BenchmarkMethods merges leaves of float32 and prints, beside the speed over
// what is read, how much longer that takes than the mean of as many.
func BenchmarkMethods(b *testing.B) {
	l := layoutOf(b, merge.Tensor{Name: "x", DType: merge.Float32, Shape: []int64{256 * merge.MaxLeafSize / 4}})
	rng := rand.New(rand.NewPCG(15, 16))
	for _, n := range []int{4, 7, 11} {
		xs := models(leafLayout(b), rng, n)
		dst, base := make([]byte, merge.MaxLeafSize), make([]byte, merge.MaxLeafSize)
		d := merge.NewDistances(l, n)
		if err := d.Add(0, xs); err != nil {
			b.Fatal(err)
		}
		for _, weights := range []string{"equal", "unequal"} {
			in := merge.Contributors{Weights: make([]uint32, n), Factors: make([]float64, n), Distances: d.Sums()}
			for i := range n {
				in.Weights[i], in.Factors[i] = 1, 1
				if weights == "unequal" {
					in.Weights[i] = uint32(i + 1)
				}
			}
			merger := func(name string) *merge.Merger {
				m, err := parse(b, name).NewMerger(l, in)
				if err != nil {
					b.Fatal(err)
				}
				return m
			}
			for _, name := range []string{"mean", "coordmedian", "trimmedmean", "geomedian", "multikrum", "bulyan", "normclip"} {
				if parse(b, name).LeastContributors() > n {
					continue
				}
				b.Run(fmt.Sprintf("%s/%d/%s", name, n, weights), func(b *testing.B) {
					m, mean := merger(name), merger("mean")
					const times = 50
					start := time.Now()
					for range times {
						if err := mean.Leaf(0, dst, xs, nil); err != nil {
							b.Fatal(err)
						}
					}
					yardstick := float64(time.Since(start).Nanoseconds()) / times
					b.SetBytes(int64(n * merge.MaxLeafSize))
					for b.Loop() {
						if err := m.Leaf(0, dst, xs, base); err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/yardstick, "x/mean")
				})
			}
		}
		b.Run(fmt.Sprintf("distances/%d", n), func(b *testing.B) {
			b.SetBytes(int64(n * merge.MaxLeafSize))
			for b.Loop() {
				if err := d.Add(0, xs); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSteps takes optimisers' steps on leaves of float32.
func BenchmarkSteps(b *testing.B) {
	l := layoutOf(b, merge.Tensor{Name: "x", DType: merge.Float32, Shape: []int64{256 * merge.MaxLeafSize / 4}})
	xs := models(leafLayout(b), rand.New(rand.NewPCG(17, 18)), 2)
	for _, name := range []string{"fedavgm", "fedadam", "fedyogi", "diloco"} {
		b.Run(name, func(b *testing.B) {
			m := parse(b, name)
			s := m.NewStepper(l)
			_, slots := m.StateSpan(l, 0)
			dst, state := make([]byte, merge.MaxLeafSize), make([]byte, slots)
			b.SetBytes(merge.MaxLeafSize)
			for b.Loop() {
				if err := s.Leaf(0, dst, xs[0], xs[1], state, state); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// leafLayout has the elements of one leaf of a large model.
func leafLayout(b *testing.B) *merge.Layout {
	return layoutOf(b, merge.Tensor{Name: "x", DType: merge.Float32, Shape: []int64{merge.MaxLeafSize / 4}})
}
