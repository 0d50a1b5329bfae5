package exchange

import (
	"sync"

	"github.com/swarmd/swarmd/merge"
)

// progress is which leaves of the merged slot hold merged bytes, for one round
// with one set of participants. It outlives a failed attempt.
type progress struct {
	plan merge.Digest
	slot string

	mu      sync.Mutex // guards all below
	have    []bool
	digests []merge.Digest
	changed chan struct{} // closed and replaced when a leaf is added

	kept
}

func newProgress(plan merge.Digest, slot string, leaves int) *progress {
	return &progress{
		plan: plan, slot: slot,
		have: make([]bool, leaves), digests: make([]merge.Digest, leaves),
		changed: make(chan struct{}),
	}
}

func (p *progress) add(leaf int, d merge.Digest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.have[leaf], p.digests[leaf] = true, d
	close(p.changed)
	p.changed = make(chan struct{})
}

// ready returns whether the leaf is there, and else a channel that is closed
// when any leaf is added.
func (p *progress) ready(leaf int) (bool, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.have[leaf], p.changed
}

// held returns the bitmap of a shard.
func (p *progress) held(s merge.Shard) bitmap {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := newBitmap(s.Leaves)
	for i := range s.Leaves {
		if p.have[s.First+i] {
			m.set(i)
		}
	}
	return m
}

// result computes the digests once every leaf is there.
func (p *progress) result(participants []Participant) Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := Result{ModelDigest: merge.Combine(p.digests), ShardDigests: make([]merge.Digest, len(participants))}
	for i, part := range participants {
		r.ShardDigests[i] = merge.Combine(p.digests[part.Shard.First:part.Shard.End()])
	}
	return r
}
