// Package inventory is what a node has in a round and keeps over its attempts: merged leaves, distances, and what is signed of
// contributions.
package inventory

import (
	"slices"
	"sync"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange/leafset"
)

// Leaves is which leaves of the merged slot hold merged bytes, and of what digests.
type Leaves struct {
	changed *Signal

	mu      sync.Mutex // guards all below
	have    []bool
	digests []merge.Digest
	states  []merge.Digest // of the optimiser's new state, by leaf; nil: the method has none
}

// NewLeaves returns an inventory of a model of so many leaves.
func NewLeaves(leaves int, changed *Signal) *Leaves {
	return &Leaves{changed: changed, have: make([]bool, leaves), digests: make([]merge.Digest, leaves)}
}

// WithStates makes room for the digests of an optimiser's state.
func (v *Leaves) WithStates() { v.states = make([]merge.Digest, len(v.have)) }

// Add tells that a leaf is in the slot. It wakes nobody: with many peers most leaves are others', which nobody waits for but who has
// read them, and each would wake all that wait for one of the own.
func (v *Leaves) Add(leaf int, d merge.Digest) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.have[leaf], v.digests[leaf] = true, d
}

// AddState tells that a leaf's new state is behind the model.
func (v *Leaves) AddState(leaf int, d merge.Digest) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.states[leaf] = d
}

// Has reports whether a leaf is there.
func (v *Leaves) Has(leaf int) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.have[leaf]
}

// Ready returns whether a leaf of the own shard is there, and else a channel that is closed when some are added.
func (v *Leaves) Ready(leaf int) (bool, <-chan struct{}) {
	changed := v.changed.next()
	return v.Has(leaf), changed
}

// HasShard returns whether all these leaves are there, and else a channel that is closed when some of the own are added.
func (v *Leaves) HasShard(s leafset.Runs) (bool, <-chan struct{}) {
	changed := v.changed.next()
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, leaf := range s.All() {
		if !v.have[leaf] {
			return false, changed
		}
	}
	return true, changed
}

// HasAll reports whether all these leaves are there.
func (v *Leaves) HasAll(leaves []int) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return !slices.ContainsFunc(leaves, func(leaf int) bool { return !v.have[leaf] })
}

// Bitmap returns the bitmap of a shard.
func (v *Leaves) Bitmap(s leafset.Runs) leafset.Bitmap {
	v.mu.Lock()
	defer v.mu.Unlock()
	m := leafset.NewBitmap(s.Count())
	for i, leaf := range s.All() {
		if v.have[leaf] {
			m.Set(i)
		}
	}
	return m
}

// Drop takes a shard's leaves back.
func (v *Leaves) Drop(s leafset.Runs) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, leaf := range s.All() {
		v.have[leaf] = false
	}
}

// Digest returns the digest of leaves that are all there.
func (v *Leaves) Digest(s leafset.Runs) merge.Digest {
	v.mu.Lock()
	defer v.mu.Unlock()
	digests := make([]merge.Digest, 0, s.Count())
	for _, leaf := range s.All() {
		digests = append(digests, v.digests[leaf])
	}
	return merge.Combine(digests)
}

// Digests returns the digests of all leaves, and that of the optimiser's state: zero if the method has none.
func (v *Leaves) Digests() (leaves []merge.Digest, state merge.Digest) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.states != nil {
		state = merge.Combine(v.states)
	}
	return slices.Clone(v.digests), state
}
