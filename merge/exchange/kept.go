package exchange

import (
	"errors"
	"fmt"
	"slices"

	"github.com/swarmd/swarmd/merge"
)

// kept is what outlives a failed attempt besides the merged leaves. Means,
// distances and squares belong to the goroutine that merges the own shard;
// hub and receivers touch the means only when that is through, or behind a
// leaf that it has marked. The rest is guarded by the progress's mutex, but for
// the stash, which guards itself.
type kept struct {
	stash     *stash
	means     Spool // an optimiser's input for the leaves of the own shard; nil: not made
	distances *merge.Distances
	squares   []float64 // by participant

	spooled int            // leaves of the own shard, from its first, that are in the stash and in the distances
	sums    [][]float64    // distances by owner; nil: not known yet
	states  []merge.Digest // of the optimiser's new state, by leaf; nil: the method has none
}

// release closes and thereby removes the scratch files.
func (p *progress) release() {
	p.stash.release()
	if p.means != nil {
		_ = p.means.Close() // It is scratch, and nobody could do anything about an error.
		p.means = nil
	}
}

// count returns how many leaves of the own shard are in the distances.
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

// setSums keeps what the owner's shard adds to the distances.
func (p *progress) setSums(owner int, sums []float64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if old := p.sums[owner]; old != nil {
		if !slices.Equal(old, sums) {
			return errOtherSums
		}
		return nil
	}
	p.sums[owner] = append(make([]float64, 0, len(sums)), sums...) // One contributor has none, which is not unknown.
	close(p.changed)
	p.changed = make(chan struct{})
	return nil
}

// errOtherSums is an owner's that changed what it had said.
var errOtherSums = errors.New("its distances are not those of the last attempt")

// sumsOf returns the owner's sums, nil if they are not known, and then a
// channel that is closed when something is.
func (p *progress) sumsOf(owner int) ([]float64, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sums[owner], p.changed
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
	p.stash = newStash(&r.Attempt)
	if r.method.Distances() {
		p.sums = make([][]float64, len(r.Participants))
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
		if err := p.stash.ensure(); err != nil {
			size, _ := p.stash.bytes()
			return r.noRoom(size, err)
		}
	}
	if !r.stepping() || p.means != nil {
		return nil
	}
	size := r.own().bytes(r.Layout)
	if r.slots.Spool == nil {
		return r.noRoom(size, errNoStash)
	}
	f, err := seal(r.slots.Spool)(size)
	if err != nil {
		return r.noRoom(size, err)
	}
	p.means = f
	return nil
}

func (r *run) noRoom(size int64, err error) error {
	return fmt.Errorf("%s needs %d bytes of scratch space for the shard that this node owns: %w", r.method.Name(), size, err)
}

// means are merged leaves of the own shard, at their offsets in the flat vector, as if they were a slot. One that is read or
// written is whole.
type means struct{ r *run }

// at returns where the file has what lies at an offset in the flat vector.
func (m means) at(off int64) int64 {
	own, layout := m.r.own(), m.r.Layout
	return own.offset(layout, own.index(layout.LeafAt(off)))
}

func (m means) ReadAt(b []byte, off int64) (int, error) {
	return m.r.progress.means.ReadAt(b, m.at(off))
}

func (m means) WriteAt(b []byte, off int64) (int, error) {
	return m.r.progress.means.WriteAt(b, m.at(off))
}
