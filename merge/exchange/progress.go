package exchange

import (
	"fmt"
	"slices"
	"sync"

	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange/inventory"
	"github.com/swarmd/swarmd/merge/exchange/leafio"
	"github.com/swarmd/swarmd/merge/exchange/leafset"
	"github.com/swarmd/swarmd/merge/exchange/scratch"
	"github.com/swarmd/swarmd/merge/exchange/spill"
	"github.com/swarmd/swarmd/merge/exchange/wire"
)

// progress is what outlives a failed attempt, for one round with one set of participants. Means and squares belong to the goroutine
// that merges the own shard; hub and receivers touch the means only when that is through, or behind a leaf that it has marked.
type progress struct {
	plan      merge.Digest
	slot      string
	changed   *inventory.Signal
	merged    *inventory.Leaves
	spill     *spill.File
	distances *inventory.Distances // nil: the method needs none
	record    *inventory.Record    // nil: shards have no witnesses
	means     *means               // an optimiser's input for the leaves of the own shard; nil: not made
	squares   []float64            // by participant, of its update over the merged leaves of the own shard; nil: the method bounds no updates

	mu      sync.Mutex // guards what is below
	invalid bool       // leaves or distances may be wrong
}

// newProgress prepares a new round's for its method.
func newProgress(plan *assignment, slot string) *progress {
	p := &progress{plan: plan.digest, slot: slot, changed: inventory.NewSignal()}
	p.merged = inventory.NewLeaves(plan.Layout.Leaves(), p.changed)
	p.spill = spill.New(plan.Layout, plan.task(), len(plan.Participants), plan.others())
	if plan.witnessed() {
		p.record = inventory.NewRecord(plan.owned, plan.task(), plan.shards[plan.Self], plan.others(), plan.Layout.Leaves(), p.changed)
	}
	if plan.method.Distances() {
		p.distances = inventory.NewDistances(len(plan.Participants), plan.Layout.Leaves(), p.changed)
	}
	if plan.stepping() {
		p.merged.WithStates()
	}
	if plan.method.BoundsNorms() && plan.localRuns().Count() > 0 {
		p.squares = make([]float64, len(plan.Participants))
	}
	return p
}

// invalidate makes another attempt begin with nothing.
func (p *progress) invalidate() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.invalid = true
}

// canResume reports whether an attempt can go on from here.
func (p *progress) canResume(plan merge.Digest, slot string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.plan == plan && p.slot == slot && !p.invalid
}

// release closes and thereby removes the scratch files.
func (p *progress) release() {
	p.spill.Release()
	if p.means != nil {
		_ = p.means.file.Close() // It is scratch, and nobody could do anything about an error.
		p.means = nil
	}
}

// add tells that this node has merged a leaf of its task. It wakes who waits when a bundle of the own shard is whole, or the task is.
func (p *progress) add(plan *assignment, leaf int, d merge.Digest) {
	wake := false
	if plan.isLocal(leaf) {
		p.merged.Add(leaf, d)
		wake = p.merged.HasAll(plan.localRuns().Bundle(leaf, leafio.PerBundle(plan.Layout)))
	}
	if p.record != nil {
		wake = p.record.Merge(leaf, d) || wake
	}
	if wake {
		p.changed.Wake()
	}
}

// has reports whether this node has merged a leaf of its task.
func (p *progress) has(leaf int) bool {
	if p.record == nil {
		return p.merged.Has(leaf)
	}
	return p.record.Has(leaf)
}

// merges returns the bitmap of the leaves of the task that this node has merged.
func (p *progress) merges(task leafset.Runs) leafset.Bitmap {
	if p.record == nil {
		return p.merged.Bitmap(task)
	}
	return p.record.Bitmap()
}

// finished returns whether the whole task is merged, and else a channel that is closed when another leaf is.
func (p *progress) finished(task leafset.Runs) (bool, <-chan struct{}) {
	if p.record == nil {
		return p.merged.HasShard(task)
	}
	return p.record.Finished()
}

// received returns the bitmap of the leaves of the task that participant i need not send: merged, or in the spill.
func (p *progress) received(i int, task leafset.Runs) leafset.Bitmap {
	return p.spill.Union(i, p.merges(task))
}

// keep spills a leaf that participant i sent, unless it is not needed any more.
func (p *progress) keep(i, leaf int, b []byte) {
	if !p.has(leaf) && !p.spill.Has(i, leaf) {
		_ = p.spill.Put(i, leaf, b) // Else it is sent again.
	}
}

// shard returns the digest of what an owner tells everybody: merged leaves, all of which are there, and, with a method that needs
// distances, its share of them, so that its seal covers that too.
func (p *progress) shard(owner int, s leafset.Runs) merge.Digest {
	d := p.merged.Digest(s)
	if p.distances == nil {
		return d
	}
	share, _ := p.distances.ShareOf(owner)
	if share == nil {
		return d
	}
	return withShare(d, *share)
}

// withShare is the digest of a shard's leaves and of its owner's share of the distances.
func withShare(leaves merge.Digest, s wire.Share) merge.Digest {
	return round.Claim{Merged: leaves, Sums: s.Digest()}.Shard()
}

// shards returns all owners' digests.
func (p *progress) shards(owned []leafset.Runs) []merge.Digest {
	digests := make([]merge.Digest, len(owned))
	for i, s := range owned {
		digests[i] = p.shard(i, s)
	}
	return digests
}

// done computes the digests once every leaf is there.
func (p *progress) done(plan *assignment) *round.Done {
	leaves, state := p.merged.Digests()
	d := &round.Done{
		Round: plan.Round, Attempt: plan.Number, ModelDigest: merge.Combine(leaves).String(), Leaves: leaves,
		UpdateSquares: slices.Clone(p.squares),
	}
	if !state.IsZero() {
		d.StateDigest = state.String()
	}
	for _, shard := range p.shards(plan.owned) {
		d.ShardDigests = append(d.ShardDigests, shard.String())
	}
	return d
}

// useFiles sets how scratch files are made in this attempt.
func (p *progress) useFiles(s *Slots) {
	if p.distances != nil {
		p.spill.Use(s.Spool)
	} else {
		p.spill.Use(s.Spill)
	}
}

// openFiles makes the scratch files without which the method can't be carried out, unless the round has them.
func (p *progress) openFiles(plan *assignment, spool func(int64) (Spool, error)) error {
	noRoom := func(size int64, err error) error {
		return fmt.Errorf("%s needs %d bytes of scratch space for what this node merges: %w", plan.method.Name(), size, err)
	}
	if p.distances != nil {
		if err := p.spill.Ensure(); err != nil {
			size, _ := p.spill.Bytes()
			return noRoom(size, err)
		}
	}
	if !plan.stepping() || p.means != nil {
		return nil
	}
	size := plan.localRuns().Bytes(plan.Layout)
	if spool == nil {
		return noRoom(size, spill.ErrNoRoom)
	}
	f, err := scratch.Encrypted(spool)(size)
	if err != nil {
		return noRoom(size, err)
	}
	p.means = &means{f, plan.localRuns(), plan.Layout}
	return nil
}

// means are merged leaves of the own shard, at their offsets in the flat vector, as if they were a slot. One that is read or
// written is whole.
type means struct {
	file   Spool
	runs   leafset.Runs
	layout *merge.Layout
}

// at returns where the file has what lies at an offset in the flat vector.
func (m *means) at(off int64) int64 {
	return m.runs.Offset(m.layout, m.runs.Index(m.layout.LeafAt(off)))
}

func (m *means) ReadAt(b []byte, off int64) (int, error) { return m.file.ReadAt(b, m.at(off)) }

func (m *means) WriteAt(b []byte, off int64) (int, error) { return m.file.WriteAt(b, m.at(off)) }
