package exchange

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/swarmd/swarmd/merge"
)

// kept is what outlives a failed attempt besides the merged leaves. Spool,
// distances and squares belong to the goroutine that merges the own shard;
// hub and receivers touch the spool only when that is through, or behind a
// leaf that it has marked. The rest is guarded by the progress's mutex.
type kept struct {
	spool     Spool
	distances *merge.Distances
	squares   []float64 // by participant

	spooled int            // leaves of the own shard, from its first, that are in the spool and in the distances
	sums    [][]float64    // distances by owner; nil: not known yet
	states  []merge.Digest // of the optimiser's new state, by leaf; nil: the method has none
}

// release closes and thereby removes the spool.
func (p *progress) release() {
	if p.spool != nil {
		_ = p.spool.Close() // It is scratch, and nobody could do anything about an error.
		p.spool = nil
	}
}

// count returns how many leaves of the own shard are in the spool.
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

// scratch is how an owner's spool is divided: for each leaf of the shard the
// contributors' bytes one behind the other, then the leaves of the mean.
type scratch struct {
	layout *merge.Layout
	shard  merge.Shard
	others int // contributions of each leaf
	means  int // 1 if merged leaves are spooled too
}

func (r *run) scratch() scratch {
	s := scratch{layout: r.Layout, shard: r.Participants[r.Self].Shard}
	if r.method.Distances() {
		for _, i := range r.who {
			if i != r.Self {
				s.others++
			}
		}
	}
	if r.stepping() {
		s.means = 1
	}
	return s
}

func (s scratch) shardBytes() int64 {
	return min(s.layout.Bytes(), s.layout.LeafOffset(s.shard.End())) - s.layout.LeafOffset(s.shard.First)
}

// bytes returns the spool's size, or an error if no file could be so large.
func (s scratch) bytes() (int64, error) {
	areas, each := int64(s.others+s.means), s.shardBytes()
	if each > 0 && areas > math.MaxInt64/each {
		return 0, fmt.Errorf("%d contributions of %d bytes", areas, each)
	}
	return areas * each, nil
}

// contribution returns where the leaf of the k-th other contributor lies.
func (s scratch) contribution(leaf, k int) int64 {
	before := s.layout.LeafOffset(leaf) - s.layout.LeafOffset(s.shard.First)
	return before*int64(s.others) + int64(k)*int64(s.layout.LeafLen(leaf))
}

// mean returns where the merged leaf lies.
func (s scratch) mean(leaf int) int64 {
	return s.shardBytes()*int64(s.others) + s.layout.LeafOffset(leaf) - s.layout.LeafOffset(s.shard.First)
}

// openSpool makes the spool unless the round has it or needs none.
func (r *run) openSpool() error {
	size, err := r.scratch().bytes()
	if err == nil && (size == 0 || r.progress.spool != nil) {
		return nil
	}
	if err == nil && r.slots.Spool == nil {
		err = errors.New("no scratch space is given")
	}
	if err == nil {
		r.progress.spool, err = r.slots.Spool(size)
	}
	if err != nil {
		r.progress.spool = nil
		return fmt.Errorf("%s needs %d bytes of scratch space for the shard that this node owns: %w", r.method.Name(), size, err)
	}
	return nil
}

// means reads merged leaves of the own shard from the spool at their offsets in
// the flat vector, as if it were a slot.
type means struct{ r *run }

func (m means) ReadAt(b []byte, off int64) (int, error) {
	leaf := int(off / merge.LeafSize)
	s := m.r.scratch()
	return m.r.progress.spool.ReadAt(b, s.mean(leaf)+off%merge.LeafSize)
}
