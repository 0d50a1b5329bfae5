package merge

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// BenchmarkMean merges a leaf of each source that the caches hold ("cached"), and one after the other of models of 32 MiB
// ("memory"), by every kernel that this processor runs if the type is a kernel's. GB/s count the bytes of the sources;
// x/copy is how many times as long it takes as copying sources over the destination, in turns. Both are medians.
func BenchmarkMean(b *testing.B) {
	for _, bc := range []struct {
		dtype   DType
		sources int
		leaves  int
	}{
		{Float32, 2, 1},
		{Float32, 4, 1},
		{Float32, 8, 1},
		{Float32, 32, 1},
		{Float32, 4, 128},
		{Float32, 8, 128},
		{BFloat16, 4, 1},
		{Float16, 4, 1},
		{Float64, 4, 1},
		{Int8, 4, 1},
	} {
		all := kernels()
		if bc.dtype.Size() != 4 && !bc.dtype.float() || bc.dtype == Float64 {
			all = all[:1]
		}
		dst, sources := make([]byte, bc.leaves*MaxLeafSize), make([][]byte, bc.sources)
		weights := make([]uint32, bc.sources)
		for i := range sources {
			sources[i], weights[i] = make([]byte, len(dst)), uint32(i+1)
			for at := range sources[i] {
				sources[i][at] = byte(at)&0x3f + byte(i) // numbers of no special kind
			}
		}
		where := "cached"
		if bc.leaves > 1 {
			where = "memory"
		}
		for _, k := range all {
			name := fmt.Sprintf("%s/%d/%s", bc.dtype, bc.sources, where)
			if len(all) > 1 {
				name += "/" + k.name
			}
			b.Run(name, func(b *testing.B) {
				m, w := newMeaner(weights, k), &work{sources: make([][]byte, bc.sources)}
				w.segments = []Segment{{DType: bc.dtype, End: MaxLeafSize}}
				turn := func(leaf int) {
					at := leaf % bc.leaves * MaxLeafSize
					w.dst = dst[at : at+MaxLeafSize]
					for i := range sources {
						w.sources[i] = sources[i][at : at+MaxLeafSize]
					}
				}
				var merging, copying []time.Duration
				for leaf := 0; b.Loop(); leaf++ {
					turn(leaf)
					start := time.Now()
					if err := m.leaf(w); err != nil {
						b.Fatal(err)
					}
					merging = append(merging, time.Since(start))
					turn(leaf + bc.leaves/2) // one that has left the caches
					start = time.Now()
					for i := range sources {
						copy(w.dst, w.sources[i])
					}
					copying = append(copying, time.Since(start))
				}
				took := median(merging)
				b.ReportMetric(float64(bc.sources*MaxLeafSize)/took, "GB/s")
				b.ReportMetric(took/median(copying), "x/copy")
				b.ReportMetric(took, "ns/op")
			})
		}
	}
}

// median is in nanoseconds. What else the machine does stretches some passes, hardly ever half of them.
func median(d []time.Duration) float64 {
	slices.Sort(d)
	return float64(d[len(d)/2].Nanoseconds())
}
