package exchange

import (
	"fmt"

	"github.com/swarmd/swarmd/merge"
)

// ownWhole merges the own shard by a method that needs to know all about the
// contributors' whole models first: contributions go to the spool while their
// distances are summed, owners exchange the sums, and then leaf by leaf is
// merged from the spool.
func (r *run) ownWhole() {
	if !r.spoolAll() {
		return
	}
	total := r.total()
	if total == nil {
		return
	}
	m, err := r.merger(total)
	if err != nil {
		r.fail(r.Self, plain(err), err)
		return
	}
	buffers := make([][]byte, len(r.who)+1)
	for i := range buffers {
		buffers[i] = getLeaf()
		defer putLeaf(buffers[i])
	}
	dst, sources := buffers[len(r.who)], make([][]byte, len(r.who))
	shard := r.Participants[r.Self].Shard
	for leaf := shard.First; leaf < shard.End(); leaf++ {
		if ready, _ := r.progress.ready(leaf); ready {
			continue
		}
		if r.ctx.Err() != nil {
			return
		}
		n := r.Layout.LeafLen(leaf)
		if err := r.unspool(leaf, sources, buffers); err != nil {
			r.fail(r.Self, fmt.Sprintf("read contributions: %v", err), err)
			return
		}
		if err := m.Leaf(leaf, dst[:n], sources, nil); err != nil {
			r.mergeFailed(err)
			return
		}
		if r.put(leaf, dst[:n]) != nil {
			return
		}
	}
	if !r.stepping() {
		r.progress.release() // From here the slot has all that another attempt could need.
	}
}

// spoolAll takes all contributions that are not in the spool yet, and makes the
// own share of the distances of them.
func (r *run) spoolAll() bool {
	p := r.progress
	if p.distances == nil {
		p.distances = merge.NewDistances(r.Layout, len(r.who))
	}
	shard := r.Participants[r.Self].Shard
	local := getLeaf()
	defer putLeaf(local)
	sources := make([][]byte, len(r.who))
	for k := p.count(); k < shard.Leaves; k++ {
		leaf := shard.First + k
		if !r.gather(leaf, sources, local) {
			return false
		}
		err := r.spool(leaf, sources)
		if err != nil {
			r.fail(r.Self, fmt.Sprintf("keep contributions: %v", err), err)
			return false
		}
		err = p.distances.Add(leaf, sources)
		r.giveBack(sources)
		if err != nil {
			p.distances = nil // Its sums are of no use.
			p.setCount(0)
			r.mergeFailed(err)
			return false
		}
		p.setCount(k + 1)
	}
	if err := p.setSums(r.Self, p.distances.Sums()); err != nil {
		r.fail(r.Self, plain(err), err)
		return false
	}
	return true
}

// spool writes one leaf of all other contributors.
func (r *run) spool(leaf int, sources [][]byte) error {
	s, k := r.scratch(), 0
	for i, who := range r.who {
		if who == r.Self {
			continue
		}
		if _, err := r.progress.spool.WriteAt(sources[i], s.contribution(leaf, k)); err != nil {
			return err
		}
		k++
	}
	return nil
}

// unspool reads one leaf of every contributor, its own from its slot.
func (r *run) unspool(leaf int, sources, buffers [][]byte) error {
	s, k, n := r.scratch(), 0, r.Layout.LeafLen(leaf)
	for i, who := range r.who {
		sources[i] = buffers[i][:n]
		if who == r.Self {
			if err := readLeaf(r.slots.Local, r.Layout, leaf, sources[i]); err != nil {
				return err
			}
			continue
		}
		if m, err := r.progress.spool.ReadAt(sources[i], s.contribution(leaf, k)); m < n {
			return short(err)
		}
		k++
	}
	return nil
}
