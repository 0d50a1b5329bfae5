package inventory

import (
	"errors"
	"fmt"
	"sync"

	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange/leafset"
)

var (
	// ErrChanged is that a participant would send two things, and so be taken for a liar, because its program has written.
	ErrChanged = errors.New("own weights have changed since this round first read them")
	// errInput is that a contributor signs other leaves than it sends.
	errInput = errors.New("the leaves that it signed are not those that it sent")
)

// Record is what this node merges, and of what, as its claims have it. It is there only where shards have witnesses, and outlives a
// failed attempt. A digest that is zero is not known yet.
type Record struct {
	owned   []leafset.Runs
	task    leafset.Runs
	changed *Signal

	mu     sync.Mutex       // guards all below
	merged []merge.Digest   // by index in the task: of leaves that this node has merged
	count  int              // of these
	inputs [][]merge.Digest // by participant and index in the task: of leaves that it has sent; nil: it sends none
	local  []merge.Digest   // by leaf of the model: of the own contribution
	words  []*round.Input   // by owner: what this node has signed of its own leaves in that shard
	taken  [][]round.Input  // by owner and participant: what others have signed, and it fits; nil: not a shard of the task
}

// NewRecord returns that of a node that merges a task of a model of so many leaves: the shards of these owners, of contributions of the
// others.
func NewRecord(owned []leafset.Runs, task leafset.Runs, shards, others []int, leaves int, changed *Signal) *Record {
	n := len(owned)
	rec := &Record{
		owned: owned, task: task, changed: changed, merged: make([]merge.Digest, task.Count()),
		inputs: make([][]merge.Digest, n), local: make([]merge.Digest, leaves), words: make([]*round.Input, n), taken: make([][]round.Input, n),
	}
	for _, i := range others {
		rec.inputs[i] = make([]merge.Digest, len(rec.merged))
	}
	for _, j := range shards {
		rec.taken[j] = make([]round.Input, n)
	}
	return rec
}

// Merge notes a leaf of the task that this node has merged, and reports whether that was the last one.
func (r *Record) Merge(leaf int, d merge.Digest) (last bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := &r.merged[r.task.Index(leaf)]
	if at.IsZero() {
		r.count++
	}
	*at = d
	return r.count == len(r.merged)
}

// Has reports whether a leaf of the task is merged.
func (r *Record) Has(leaf int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.merged[r.task.Index(leaf)].IsZero()
}

// Bitmap returns that of the leaves of the task that are merged.
func (r *Record) Bitmap() leafset.Bitmap {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := leafset.NewBitmap(len(r.merged))
	for k, d := range r.merged {
		if !d.IsZero() {
			m.Set(k)
		}
	}
	return m
}

// Finished returns whether the whole task is merged, and else a channel that is closed when another leaf is.
func (r *Record) Finished() (bool, <-chan struct{}) {
	changed := r.changed.next()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count == len(r.merged), changed
}

// MergedDigest is over the leaves of a shard of the task as this node has merged them.
func (r *Record) MergedDigest(owner int) merge.Digest {
	r.mu.Lock()
	defer r.mu.Unlock()
	digests := make([]merge.Digest, 0, r.owned[owner].Count())
	for _, leaf := range r.owned[owner].All() {
		digests = append(digests, r.merged[r.task.Index(leaf)])
	}
	return merge.Combine(digests)
}

// Send notes what travels of an own leaf. All mergers must be sent the same, in all attempts.
func (r *Record) Send(leaf int, sent []byte) error {
	d := merge.Sum(sent)
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.local[leaf]; !old.IsZero() && old != d {
		return ErrChanged
	}
	r.local[leaf] = d
	return nil
}

// Sent reports whether it is noted what travels of an own leaf.
func (r *Record) Sent(leaf int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.local[leaf].IsZero()
}

// Word returns what this node signs of its own leaves in a shard, all of which must be noted: what is signed is signed for good.
func (r *Record) Word(owner int, sign func(merge.Digest) (round.Input, error)) (round.Input, error) {
	r.mu.Lock()
	told := r.words[owner]
	r.mu.Unlock()
	if told != nil {
		return *told, nil
	}
	d, err := r.sentDigest(owner)
	if err != nil {
		return round.Input{}, err
	}
	in, err := sign(d)
	if err != nil {
		return round.Input{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.words[owner] = &in
	return in, nil
}

// sentDigest is over the own leaves of a shard.
func (r *Record) sentDigest(owner int) (merge.Digest, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	digests := make([]merge.Digest, 0, r.owned[owner].Count())
	for _, leaf := range r.owned[owner].All() {
		if r.local[leaf].IsZero() {
			return merge.Digest{}, fmt.Errorf("leaf %d of the own contribution is not known", leaf)
		}
		digests = append(digests, r.local[leaf])
	}
	return merge.Combine(digests), nil
}

// Came notes the bytes of participant i's leaf as they came.
func (r *Record) Came(i, leaf int, sent []byte) {
	d := merge.Sum(sent)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inputs[i][r.task.Index(leaf)] = d
}

// Take keeps what participant i has signed of its leaves in a shard, if that is what came.
func (r *Record) Take(i, owner int, in round.Input) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	came := make([]merge.Digest, 0, r.owned[owner].Count())
	for _, leaf := range r.owned[owner].All() {
		came = append(came, r.inputs[i][r.task.Index(leaf)])
	}
	if merge.Combine(came) != in.Digest {
		return errInput
	}
	r.taken[owner][i] = in
	return nil
}

// Input returns what participant i has signed of its leaves in a shard.
func (r *Record) Input(owner, i int) round.Input {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.taken[owner][i]
}
