package exchange

import (
	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange/inventory"
	"github.com/swarmd/swarmd/merge/exchange/leafio"
	"github.com/swarmd/swarmd/merge/exchange/wire"
)

// A method that needs distances believes each owner's share of them: nobody else has seen the owner's shard of others. What
// bounds a lie is that each contributor signs the norm of its update over each shard, which the owner of that shard checks
// against what it got, and passes on with its share. A distance is then held to the triangle inequality by everybody.

// maxDistances bounds what an owner holds of all owners' distances, in bytes.
const maxDistances = 64 << 20

// twoPass merges by a method that needs to know all about the contributors' whole models first: contributions go to the spill while
// their distances are summed, owners exchange the sums, and then leaf by leaf is merged from there.
type twoPass struct {
	plan     *assignment
	codec    *leafio.Codec
	collect  *collector
	progress *progress
	signer   signer
	merge    func(leaf int, fill func(dst []byte) error) (merge.Digest, error) // collects a leaf, has it merged and stores it
}

func (t *twoPass) run() error {
	d := t.progress.distances
	t.collect.copies = true // What is added to the distances can't be taken back.
	if err := t.sum(d); err != nil {
		return err
	}
	total, err := t.total(d)
	if err != nil {
		return err
	}
	m, err := t.plan.merger(total)
	if err != nil {
		return err
	}
	for _, leaf := range t.plan.task().All() {
		if t.progress.has(leaf) {
			continue
		}
		if t.collect.ended() {
			return errEnded
		}
		digest, err := t.merge(leaf, func(dst []byte) error { return m.Leaf(leaf, dst, t.collect.sources, nil) }) // all from files
		if err != nil {
			return err
		}
		t.progress.add(t.plan, leaf, digest)
	}
	return nil
}

// sum takes all contributions, of which there may be some in the spill, and makes the own share of the distances of them.
func (t *twoPass) sum(d *inventory.Distances) error {
	d.Open(t.plan.Layout, t.plan.shards[t.plan.Self], len(t.plan.contributors))
	_ = t.progress.spill.Ensure() // Large, and slow on some file systems: that is no standstill. Who keeps something is told if it failed.
	for k, n := d.Count(), t.plan.task().Count(); k < n; k++ {
		leaf := t.plan.task().Leaf(k)
		if err := t.collect.collect(leaf, func() error { return t.add(d, leaf) }); err != nil {
			return err
		}
		d.SetCount(k + 1)
	}
	if err := t.verifyNorms(d); err != nil {
		return err
	}
	return d.SetShare(t.plan.Self, d.Share(t.plan.Self, t.plan.contributors))
}

// add spills what was collected of a leaf and adds it to distances and norms.
func (t *twoPass) add(d *inventory.Distances, leaf int) error {
	if err := t.collect.spill(leaf); err != nil {
		return err
	}
	err := d.Add(t.plan.ownerOf(leaf), leaf, t.collect.sources)
	if err == nil && t.plan.isLocal(leaf) {
		err = t.codec.WithBase(leaf, func(base []byte) { d.AddSquares(t.collect.squares(leaf, base)) })
	}
	t.collect.release()
	if err != nil {
		d.Reset()
	}
	return err
}

// verifyNorms waits for all contributors' norms and holds them to what they sent: both are sums of the same terms in the same
// order.
func (t *twoPass) verifyNorms(d *inventory.Distances) error {
	for s, i := range t.plan.contributors {
		if i == t.plan.Self {
			n, err := t.signer.norm(i, d.Norm(s))
			if err == nil {
				err = d.SetNorm(i, n)
			}
			if err != nil {
				return err
			}
			continue
		}
		n, changed := d.NormOf(i)
		t.collect.work.idle()
		for n == nil {
			select {
			case <-changed:
			case <-t.collect.done:
				return errEnded
			}
			n, changed = d.NormOf(i)
		}
		if n.Squares != d.Norm(s) {
			return &blame{i, inventory.ErrNorm}
		}
	}
	t.collect.work.busy()
	return nil
}

// total waits for the shares of all owners and adds them in plan order, so that every owner has the same distances.
func (t *twoPass) total(d *inventory.Distances) ([]float64, error) {
	total := make([]float64, wire.Pairs(len(t.plan.contributors)))
	for j, p := range t.plan.Participants {
		if p.Shard.Leaves == 0 {
			continue
		}
		s, changed := d.ShareOf(j)
		t.collect.work.idle()
		for s == nil {
			select {
			case <-changed:
			case <-t.collect.done:
				return nil, errEnded
			}
			s, changed = d.ShareOf(j)
		}
		for i, v := range s.Sums {
			total[i] += v
		}
	}
	t.collect.work.busy()
	return total, nil
}
