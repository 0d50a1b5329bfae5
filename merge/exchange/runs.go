package exchange

import (
	"fmt"
	"iter"

	"github.com/swarmd/swarmd/merge"
)

// runs are the leaves that one participant owns, in ascending order. A leaf's index among them is its place in bitmaps,
// scratch files and digests, so that nothing else needs to know how many runs there are.
type runs []merge.Shard

// runs returns what the participant owns.
func (p Participant) runs() runs { return append(runs{p.Shard}, p.More...) }

// Own adds a run behind those that the participant has; the first may be empty.
func (p *Participant) Own(run merge.Shard) {
	if p.Shard == (merge.Shard{}) && len(p.More) == 0 {
		p.Shard = run
		return
	}
	p.More = append(p.More, run)
}

// count returns the number of leaves.
func (rs runs) count() int {
	n := 0
	for _, r := range rs {
		n += r.Leaves
	}
	return n
}

// leaf returns the leaf of an index.
func (rs runs) leaf(index int) int {
	k := 0
	for ; k < len(rs)-1 && index >= rs[k].Leaves; k++ {
		index -= rs[k].Leaves
	}
	return rs[k].First + index
}

// index returns the index of a leaf that is among them.
func (rs runs) index(leaf int) int {
	before, k := 0, 0
	for ; k < len(rs)-1 && leaf >= rs[k].End(); k++ {
		before += rs[k].Leaves
	}
	return before + leaf - rs[k].First
}

// all yields indices and leaves in order.
func (rs runs) all() iter.Seq2[int, int] {
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

// bytes returns the length of all leaves together.
func (rs runs) bytes(l *merge.Layout) int64 {
	n := int64(0)
	for _, r := range rs {
		n += min(l.Bytes(), l.LeafOffset(r.End())) - min(l.Bytes(), l.LeafOffset(r.First))
	}
	return n
}

// offset returns how many bytes of the leaves come before that of an index. Only the last leaf of a model may be short.
func (rs runs) offset(l *merge.Layout, index int) int64 { return l.LeafOffset(index) }

// check holds that runs ascend, and that only the first may be empty, when it is the only one. That they are in range and
// nobody else's is for [merge.CheckShards].
func (rs runs) check() error {
	for i, r := range rs[1:] {
		if rs[i].Leaves == 0 || r.Leaves == 0 || r.First < rs[i].End() {
			return fmt.Errorf("run %d+%d of a shard does not follow on %d+%d", r.First, r.Leaves, rs[i].First, rs[i].Leaves)
		}
	}
	return nil
}
