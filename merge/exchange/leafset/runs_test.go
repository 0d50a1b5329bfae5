package leafset

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/swarmd/swarmd/merge"
)

// TestBundlesAreAllLeavesOnce: whatever the runs and what is skipped, each leaf that is not is in one bundle, in order, and all bundles but
// the last are of leaves with the same index divided by their number.
func TestBundlesAreAllLeavesOnce(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		var rs Runs
		for at := 0; len(rs) < 1+rnd.IntN(4); {
			at += rnd.IntN(5)
			n := 1 + rnd.IntN(20)
			rs = append(rs, merge.Shard{First: at, Leaves: n})
			at += n
		}
		per, skip := 1+rnd.IntN(8), NewBitmap(rs.Count())
		var want, got []int
		for k, leaf := range rs.All() {
			if rnd.IntN(3) == 0 {
				skip.Set(k)
			} else {
				want = append(want, leaf)
			}
		}
		for first, leaves := range rs.Bundles(per, skip) {
			if first%per != 0 {
				t.Fatalf("a bundle of %d begins at index %d", per, first)
			}
			for _, leaf := range leaves {
				if rs.Index(leaf)/per != first/per || !slices.Contains(rs.Bundle(leaf, per), leaf) {
					t.Fatalf("leaf %d of index %d is in the bundle of index %d of %d", leaf, rs.Index(leaf), first, per)
				}
			}
			got = append(got, leaves...)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("runs %v in bundles of %d without %x: %v, want %v", rs, per, skip, got, want)
		}
	}
}
