package blake

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"lukechampine.com/blake3"
)

// TestWaysToSum: the vectors and the library in the calling goroutine both give BLAKE3, for every number of subtrees.
func TestWaysToSum(t *testing.T) {
	b := make([]byte, Largest)
	_, _ = rand.NewChaCha8([32]byte{3}).Read(b)
	for n := Largest / subtree; n >= 2; n-- {
		part := b[:n*subtree]
		want := blake3.Sum256(part)
		if got := sumSubtrees(part, n); got != want {
			t.Errorf("%d subtrees: got %x, want %x", n, got, want)
		}
		if got, ok := sumVectors(part); ok && got != want {
			t.Errorf("%d subtrees in vectors: got %x, want %x", n, got, want)
		}
	}
}

// BenchmarkSum sums a leaf's bytes that the caches hold, which starts at a vector or, "behind a header", does not. x/library is how
// many times as long it takes as the library in the calling goroutine, in turns. All are medians.
func BenchmarkSum(b *testing.B) {
	buf := make([]byte, Largest+64)
	for _, bc := range []struct {
		name string
		at   int
	}{
		{"aligned", 0},
		{"behind a header", 9},
	} {
		b.Run(bc.name, func(b *testing.B) {
			leaf := buf[bc.at : bc.at+Largest]
			var ours, library []time.Duration
			for b.Loop() {
				start := time.Now()
				Sum(leaf)
				ours = append(ours, time.Since(start))
				start = time.Now()
				sumSubtrees(leaf, Largest/subtree)
				library = append(library, time.Since(start))
			}
			took := median(ours)
			b.ReportMetric(Largest/took, "GB/s")
			b.ReportMetric(took/median(library), "x/library")
			b.ReportMetric(took, "ns/op")
		})
	}
}

// median is in nanoseconds. What else the machine does stretches some sums, hardly ever half of them.
func median(d []time.Duration) float64 {
	slices.Sort(d)
	return float64(d[len(d)/2].Nanoseconds())
}
