package exchange

import (
	"iter"

	"github.com/swarmd/swarmd/merge"
)

// Small leaves travel in bundles: some of them are one write, which costs a system call, a turn and an encryption however little it
// carries. Leaves as large as writeSize travel alone. A bundle is a part of a shard, or of a task, by the index of its leaves, so that
// who merges and who gives have the same bundles without a word.

// perBundle is how many leaves are at most in a bundle.
func perBundle(l *merge.Layout) int { return max(1, writeSize/l.LeafSize()) }

// bundles yields the leaves of each bundle but for those to skip, and the index of its first; a bundle of which nothing is left is left out.
// The leaves are the caller's until the next bundle.
func (rs runs) bundles(per int, skip bitmap) iter.Seq2[int, []int] {
	return func(yield func(int, []int) bool) {
		leaves := make([]int, 0, min(per, rs.count()))
		first, n := 0, rs.count()
		for k, leaf := range rs.all() {
			if !skip.get(k) {
				leaves = append(leaves, leaf)
			}
			if (k+1)%per != 0 && k+1 < n {
				continue
			}
			if len(leaves) > 0 && !yield(first, leaves) {
				return
			}
			first, leaves = k+1, leaves[:0]
		}
	}
}

// bundle returns all leaves of the bundle of which a leaf among them is one.
func (rs runs) bundle(leaf, per int) []int {
	first := rs.index(leaf) / per * per
	leaves := make([]int, 0, per)
	for k := first; k < min(first+per, rs.count()); k++ {
		leaves = append(leaves, rs.leaf(k))
	}
	return leaves
}
