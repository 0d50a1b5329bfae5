package exchange

import (
	"slices"
	"sync"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange/leafset"
	"github.com/swarmd/swarmd/merge/exchange/wire"
)

// progress is which leaves of the merged slot hold merged bytes, for one round
// with one set of participants. It outlives a failed attempt.
type progress struct {
	plan merge.Digest
	slot string

	mu      sync.Mutex // guards all below
	have    []bool
	digests []merge.Digest
	changed chan struct{} // closed and replaced when something is known that this node's own goroutines wait for
	spoiled bool          // what is held may be wrong

	kept
}

func newProgress(plan merge.Digest, slot string, leaves int) *progress {
	return &progress{
		plan: plan, slot: slot,
		have: make([]bool, leaves), digests: make([]merge.Digest, leaves),
		changed: make(chan struct{}),
	}
}

// add tells that another owner's leaf is in the slot. Nobody waits for that but who has read it: with many peers most leaves are others', and
// each would wake all that wait for one of the own.
func (p *progress) add(leaf int, d merge.Digest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.have[leaf], p.digests[leaf] = true, d
}

// ready returns whether a leaf of the own shard is there, and else a channel that is closed
// when one is added.
func (p *progress) ready(leaf int) (bool, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.have[leaf], p.changed
}

// held returns the bitmap of a shard.
func (p *progress) held(s leafset.Runs) leafset.Bitmap {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := leafset.NewBitmap(s.Count())
	for i, leaf := range s.All() {
		if p.have[leaf] {
			m.Set(i)
		}
	}
	return m
}

// result computes the digests once every leaf is there.
func (p *progress) result(owned []leafset.Runs) Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := Result{ModelDigest: merge.Combine(p.digests), Leaves: slices.Clone(p.digests), ShardDigests: make([]merge.Digest, len(owned))}
	for i, s := range owned {
		r.ShardDigests[i] = p.shardLocked(i, s)
	}
	return r
}

// shard returns the digest of an owner's shard all of whose leaves are there.
func (p *progress) shard(owner int, s leafset.Runs) merge.Digest {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shardLocked(owner, s)
}

// holds returns whether all leaves of the own shard are there, and else a channel that is closed when one is added.
func (p *progress) holds(s leafset.Runs) (bool, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, leaf := range s.All() {
		if !p.have[leaf] {
			return false, p.changed
		}
	}
	return true, p.changed
}

// spoil makes another attempt begin with nothing.
func (p *progress) spoil() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spoiled = true
}

// serves tells whether an attempt can go on from here.
func (p *progress) serves(plan merge.Digest, slot string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.plan == plan && p.slot == slot && !p.spoiled
}

// drop takes a shard's leaves back.
func (p *progress) drop(s leafset.Runs) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, leaf := range s.All() {
		p.have[leaf] = false
	}
}

// shardLocked returns the digest of what an owner tells everybody: merged leaves and, with a method that needs distances, its
// share of them, so that its seal covers that too.
func (p *progress) shardLocked(owner int, s leafset.Runs) merge.Digest {
	digests := make([]merge.Digest, 0, s.Count())
	for _, leaf := range s.All() {
		digests = append(digests, p.digests[leaf])
	}
	d := merge.Combine(digests)
	if len(p.shares) == 0 || p.shares[owner] == nil {
		return d
	}
	return withShare(d, *p.shares[owner])
}

// withShare is the digest of a shard's leaves and of its owner's share of the distances.
func withShare(leaves merge.Digest, s wire.Share) merge.Digest {
	return Claim{Merged: leaves, Sums: s.Digest()}.Shard()
}
