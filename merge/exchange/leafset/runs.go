// Package leafset names leaves of a model: those that one participant owns or merges, and subsets of these.
package leafset

import (
	"fmt"
	"iter"

	"github.com/swarmd/swarmd/merge"
)

// Runs are the leaves that one participant owns, in ascending order. A leaf's index among them is its place in bitmaps,
// scratch files and digests, so that nothing else needs to know how many runs there are.
type Runs []merge.Shard

// Count returns the number of leaves.
func (rs Runs) Count() int {
	n := 0
	for _, r := range rs {
		n += r.Leaves
	}
	return n
}

// Leaf returns the leaf of an index.
func (rs Runs) Leaf(index int) int {
	k := 0
	for ; k < len(rs)-1 && index >= rs[k].Leaves; k++ {
		index -= rs[k].Leaves
	}
	return rs[k].First + index
}

// Index returns the index of a leaf that is among them.
func (rs Runs) Index(leaf int) int {
	before, k := 0, 0
	for ; k < len(rs)-1 && leaf >= rs[k].End(); k++ {
		before += rs[k].Leaves
	}
	return before + leaf - rs[k].First
}

// All yields indices and leaves in order.
func (rs Runs) All() iter.Seq2[int, int] {
	return func(yield func(int, int) bool) {
		index := 0
		for _, r := range rs {
			for leaf := r.First; leaf < r.End(); leaf++ {
				if !yield(index, leaf) {
					return
				}
				index++
			}
		}
	}
}

// Bytes returns the length of all leaves together.
func (rs Runs) Bytes(l *merge.Layout) int64 {
	n := int64(0)
	for _, r := range rs {
		n += min(l.Bytes(), l.LeafOffset(r.End())) - min(l.Bytes(), l.LeafOffset(r.First))
	}
	return n
}

// Offset returns how many bytes of the leaves come before that of an index. Only the last leaf of a model may be short.
func (rs Runs) Offset(l *merge.Layout, index int) int64 { return l.LeafOffset(index) }

// Check holds that runs ascend, and that only the first may be empty, when it is the only one. That they are in range and
// nobody else's is for [merge.CheckShards].
func (rs Runs) Check() error {
	for i, r := range rs[1:] {
		if rs[i].Leaves == 0 || r.Leaves == 0 || r.First < rs[i].End() {
			return fmt.Errorf("run %d+%d of a shard does not follow on %d+%d", r.First, r.Leaves, rs[i].First, rs[i].Leaves)
		}
	}
	return nil
}

// Bundles yields the leaves of each bundle but for those to skip, and the index of its first; a bundle of which nothing is left is left out.
// The leaves are the caller's until the next bundle.
func (rs Runs) Bundles(per int, skip Bitmap) iter.Seq2[int, []int] {
	return func(yield func(int, []int) bool) {
		leaves := make([]int, 0, min(per, rs.Count()))
		first, n := 0, rs.Count()
		for k, leaf := range rs.All() {
			if !skip.Get(k) {
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

// Bundle returns all leaves of the bundle of which a leaf among them is one.
func (rs Runs) Bundle(leaf, per int) []int {
	first := rs.Index(leaf) / per * per
	leaves := make([]int, 0, per)
	for k := first; k < min(first+per, rs.Count()); k++ {
		leaves = append(leaves, rs.Leaf(k))
	}
	return leaves
}
