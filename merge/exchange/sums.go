package exchange

import "github.com/swarmd/swarmd/merge/exchange/wire"

// maxDistances bounds what an owner holds of all owners' distances, in bytes.
const maxDistances = 64 << 20

// giveSums sends the own share of the distances when it is known.
func (r *run) giveSums(c *wire.Conn) error {
	if !r.method.Distances() {
		return nil
	}
	err := r.await(c, func() (bool, <-chan struct{}) {
		s, changed := r.progress.shareOf(r.Self)
		return s != nil, changed
	})
	if err != nil || r.ctx.Err() != nil {
		return err
	}
	return c.Write(r.sumsFrame(), true)
}

// sums takes the owner's share of the distances. Who owns nothing needs them for the owner's seal alone.
func (v *visitor) sums() error {
	if !v.method.Distances() {
		return nil
	}
	if err := v.expect(wire.SumsHeader(len(v.who))); err != nil {
		return err
	}
	s, err := wire.ReadShare(v.c, len(v.who))
	if err != nil {
		return err
	}
	if err := v.checkShare(v.j, s); err != nil {
		v.convict(v.j, err)
		return err
	}
	return v.progress.setShare(v.j, s)
}

// total waits for the shares of all owners and adds them in plan order, so that
// every owner has the same distances. It returns nil when the attempt has ended.
func (r *run) total() []float64 {
	total := make([]float64, wire.Pairs(len(r.who)))
	for j, p := range r.Participants {
		if p.Shard.Leaves == 0 {
			continue
		}
		s, changed := r.progress.shareOf(j)
		r.merging.rests()
		for s == nil {
			select {
			case <-changed:
			case <-r.ctx.Done():
				return nil
			}
			s, changed = r.progress.shareOf(j)
		}
		for i, v := range s.Sums {
			total[i] += v
		}
	}
	r.does(&r.merging)
	return total
}
