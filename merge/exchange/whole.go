package exchange

import (
	"fmt"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange/wire"
)

// ownWhole merges the own shard by a method that needs to know all about the
// contributors' whole models first: contributions go to the stash while their
// distances are summed, owners exchange the sums, and then leaf by leaf is
// merged from there.
func (r *run) ownWhole() {
	if !r.stashAll() {
		return
	}
	total := r.total()
	if total == nil {
		return
	}
	m, err := r.merger(total)
	if err != nil {
		r.fail(r.Self, wire.Brief(err), err)
		return
	}
	spare, g := getLeaf(r.Layout), r.newGatherer()
	g.copies = true
	defer putLeaf(spare)
	defer g.release()
	for _, leaf := range r.task().All() {
		if r.progress.has(leaf) {
			continue
		}
		if r.ctx.Err() != nil {
			return
		}
		var d merge.Digest
		err := g.gather(leaf, func() (err error) { // all from files
			d, err = r.mergeLeaf(leaf, spare, func(dst []byte) error { return m.Leaf(leaf, dst, g.sources, nil) })
			return err
		})
		if err != nil {
			r.mergeFailed(err)
			return
		}
		r.merged(leaf, d)
	}
	r.progress.stash.Release() // From here the slot has all that another attempt could need.
}

// stashAll takes all contributions, of which there may be some in the stash, and makes the own share of the distances of
// them.
func (r *run) stashAll() bool {
	p := r.progress
	if p.distances == nil {
		p.distances = make([]*merge.Distances, len(r.Participants))
		for _, owner := range r.shards[r.Self] {
			p.distances[owner] = merge.NewDistances(r.Layout, len(r.who))
		}
	}
	_ = p.stash.Ensure() // Large, and slow on some file systems: that is no standstill. Who keeps something is told if it failed.
	g := r.newGatherer()
	g.copies = true // What is added to the distances can't be taken back.
	defer g.release()
	for k, n := p.count(), r.task().Count(); k < n; k++ {
		leaf := r.task().Leaf(k)
		if err := g.gather(leaf, func() error { return g.add(leaf) }); err != nil {
			r.mergeFailed(err)
			return false
		}
		p.setCount(k + 1)
	}
	if !r.holdNorms() {
		return false
	}
	if err := p.setShare(r.Self, wire.Share{Sums: p.distances[r.Self].Sums(), Norms: p.normsOf(r.who)}); err != nil {
		r.fail(r.Self, wire.Brief(err), err)
		return false
	}
	return true
}

// add keeps what was gathered of a leaf and adds it to distances and norms.
func (g *gatherer) add(leaf int) error {
	if err := g.keep(leaf); err != nil {
		g.fail(g.Self, fmt.Sprintf("keep contributions: %v", err), err)
		return err
	}
	p := g.progress
	err := p.distances[g.ownerOf(leaf)].Add(leaf, g.sources)
	if err == nil && g.mine(leaf) {
		err = g.addSquares(leaf)
	}
	g.giveBack()
	if err != nil {
		p.distances, p.squared = nil, nil // Their sums are of no use.
		p.setCount(0)
	}
	return err
}

// keep writes what came of one leaf of the others to the stash.
func (g *gatherer) keep(leaf int) error {
	for s, i := range g.who {
		if !g.ringed[s] {
			continue
		}
		if err := g.progress.stash.Put(i, leaf, g.sources[s]); err != nil {
			return err
		}
	}
	return nil
}
