package exchange

import (
	"errors"
	"fmt"
	"slices"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange/scratch"
	"github.com/swarmd/swarmd/merge/exchange/spill"
	"github.com/swarmd/swarmd/merge/exchange/wire"
)

// kept is what outlives a failed attempt besides the merged leaves. Means,
// distances and squares belong to the goroutine that merges the own shard;
// hub and receivers touch the means only when that is through, or behind a
// leaf that it has marked. The rest is guarded by the progress's mutex, but for
// the stash, which guards itself.
type kept struct {
	stash     *spill.File
	means     Spool              // an optimiser's input for the leaves of the own shard; nil: not made
	distances []*merge.Distances // by owner; nil: not a shard of the task, or the method needs none
	squares   []float64          // by participant
	squared   []float64          // sums of squares of contributors' updates over the leaves that are in the distances

	record  *record        // nil: shards have no witnesses
	spooled int            // leaves of the task, from its first, that are in the stash and in the distances
	shares  []*wire.Share  // of the distances, by owner; nil: not known yet, or the method needs none
	norms   []*wire.Norm   // by participant, of its update over the own shard
	terms   []float64      // sums of squares of the own update, by leaf; below 0: not known
	states  []merge.Digest // of the optimiser's new state, by leaf; nil: the method has none
}

// release closes and thereby removes the scratch files.
func (p *progress) release() {
	p.stash.Release()
	if p.means != nil {
		_ = p.means.Close() // It is scratch, and nobody could do anything about an error.
		p.means = nil
	}
}

// count returns how many leaves of the task are in the distances.
func (p *progress) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.spooled
}

func (p *progress) setCount(leaves int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spooled = leaves
}

// setShare keeps what the owner's shard adds to the distances.
func (p *progress) setShare(owner int, s wire.Share) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if old := p.shares[owner]; old != nil {
		if !old.Equal(s) {
			return errOtherSums
		}
		return nil
	}
	p.shares[owner] = &s
	close(p.changed)
	p.changed = make(chan struct{})
	return nil
}

// setNorm keeps what a participant says of its update over the own shard.
func (p *progress) setNorm(i int, n wire.Norm) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if old := p.norms[i]; old != nil {
		if *old != n {
			return errOtherNorm
		}
		return nil
	}
	p.norms[i] = &n
	close(p.changed)
	p.changed = make(chan struct{})
	return nil
}

// normOf returns a participant's norm, nil if it is not known, and then a channel that is closed when something is.
func (p *progress) normOf(i int) (*wire.Norm, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.norms[i], p.changed
}

// normsOf returns those of contributors, all of which are known.
func (p *progress) normsOf(who []int) []wire.Norm {
	p.mu.Lock()
	defer p.mu.Unlock()
	norms := make([]wire.Norm, 0, len(who))
	for _, i := range who {
		norms = append(norms, *p.norms[i])
	}
	return norms
}

// setTerm keeps the sum of squares of the own update over a leaf, which goes into what the leaf's owner is told.
func (p *progress) setTerm(leaf int, squares float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.terms[leaf] = squares
}

// term returns the sum of squares of the own update over a leaf; below 0: it is not known.
func (p *progress) term(leaf int) float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.terms[leaf]
}

// errOtherSums is an owner's that changed what it had said.
var errOtherSums = errors.New("its distances are not those of the last attempt")

// shareOf returns the owner's share, nil if it is not known, and then a
// channel that is closed when something is.
func (p *progress) shareOf(owner int) (*wire.Share, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shares[owner], p.changed
}

func (p *progress) setState(leaf int, d merge.Digest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.states[leaf] = d
}

// complete adds to a result what the method yields besides the model.
func (p *progress) complete(r *Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.states != nil {
		r.StateDigest = merge.Combine(p.states)
	}
	r.UpdateSquares = slices.Clone(p.squares)
}

// keep prepares a new round's progress for the method.
func (r *run) keep(p *progress) {
	others := slices.DeleteFunc(slices.Clone(r.who), func(i int) bool { return i == r.Self })
	p.stash = spill.New(r.Layout, r.task(), len(r.Participants), others)
	if r.witnessed() {
		p.record = r.newRecord()
	}
	if r.method.Distances() {
		p.shares, p.norms = make([]*wire.Share, len(r.Participants)), make([]*wire.Norm, len(r.Participants))
		p.terms = slices.Repeat([]float64{-1}, r.Layout.Leaves())
	}
	if r.method.StateBytes(r.Layout) > 0 {
		p.states = make([]merge.Digest, r.Layout.Leaves())
	}
	if r.method.Bounds() && r.Participants[r.Self].Shard.Leaves > 0 {
		p.squares = make([]float64, len(r.Participants))
	}
}

// openFiles makes the scratch files without which the method can't be carried out, unless the round has them.
func (r *run) openFiles() error {
	p := r.progress
	if r.method.Distances() {
		if err := p.stash.Ensure(); err != nil {
			size, _ := p.stash.Bytes()
			return r.noRoom(size, err)
		}
	}
	if !r.stepping() || p.means != nil {
		return nil
	}
	size := r.own().Bytes(r.Layout)
	if r.slots.Spool == nil {
		return r.noRoom(size, spill.ErrNoRoom)
	}
	f, err := scratch.Encrypted(r.slots.Spool)(size)
	if err != nil {
		return r.noRoom(size, err)
	}
	p.means = f
	return nil
}

func (r *run) noRoom(size int64, err error) error {
	return fmt.Errorf("%s needs %d bytes of scratch space for what this node merges: %w", r.method.Name(), size, err)
}

// means are merged leaves of the own shard, at their offsets in the flat vector, as if they were a slot. One that is read or
// written is whole.
type means struct{ r *run }

// at returns where the file has what lies at an offset in the flat vector.
func (m means) at(off int64) int64 {
	own, layout := m.r.own(), m.r.Layout
	return own.Offset(layout, own.Index(layout.LeafAt(off)))
}

func (m means) ReadAt(b []byte, off int64) (int, error) {
	return m.r.progress.means.ReadAt(b, m.at(off))
}

func (m means) WriteAt(b []byte, off int64) (int, error) {
	return m.r.progress.means.WriteAt(b, m.at(off))
}
