package exchange

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange/leafset"
	"github.com/swarmd/swarmd/merge/exchange/wire"
)

// record is what this node merges, and of what, as its claims have it. It is there only where shards have witnesses, outlives a
// failed attempt with the progress, and is guarded by the progress's mutex. A digest that is zero is not known yet.
type record struct {
	task   leafset.Runs
	merged []merge.Digest   // by index in the task: of leaves that this node has merged
	count  int              // of these
	inputs [][]merge.Digest // by participant and index in the task: of leaves that it has sent; nil: it sends none
	own    []merge.Digest   // by leaf of the model: of the own contribution
	words  []*Input         // by owner: what this node has signed of its own leaves in that shard
	taken  [][]Input        // by owner and participant: what others have signed, and it fits; nil: not a shard of the task
}

func (r *run) newRecord() *record {
	n := len(r.Participants)
	rec := &record{
		task: r.task(), merged: make([]merge.Digest, r.task().Count()), inputs: make([][]merge.Digest, n),
		own: make([]merge.Digest, r.Layout.Leaves()), words: make([]*Input, n), taken: make([][]Input, n),
	}
	for _, i := range r.who {
		if i != r.Self {
			rec.inputs[i] = make([]merge.Digest, len(rec.merged))
		}
	}
	for _, j := range r.shards[r.Self] {
		rec.taken[j] = make([]Input, n)
	}
	return rec
}

// merged tells that this node has merged a leaf of its task. It wakes who waits when a bundle of the own shard is whole, or the task is.
func (r *run) merged(leaf int, d merge.Digest) {
	p := r.progress
	p.mu.Lock()
	defer p.mu.Unlock()
	wake := false
	if r.mine(leaf) {
		p.have[leaf], p.digests[leaf] = true, d
		wake = !slices.ContainsFunc(r.own().Bundle(leaf, perBundle(r.Layout)), func(leaf int) bool { return !p.have[leaf] })
	}
	if p.record != nil {
		at := &p.record.merged[p.record.task.Index(leaf)]
		if at.IsZero() {
			p.record.count++
		}
		*at = d
		wake = wake || p.record.count == len(p.record.merged)
	}
	if wake {
		close(p.changed)
		p.changed = make(chan struct{})
	}
}

// has tells whether this node has merged a leaf of its task.
func (p *progress) has(leaf int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.record == nil {
		return p.have[leaf]
	}
	return !p.record.merged[p.record.task.Index(leaf)].IsZero()
}

// merges returns the bitmap of the leaves of the task that this node has merged.
func (p *progress) merges(task leafset.Runs) leafset.Bitmap {
	if p.record == nil {
		return p.held(task)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	m := leafset.NewBitmap(len(p.record.merged))
	for k, d := range p.record.merged {
		if !d.IsZero() {
			m.Set(k)
		}
	}
	return m
}

// finished returns whether the whole task is merged, and else a channel that is closed when another leaf is.
func (p *progress) finished(task leafset.Runs) (bool, <-chan struct{}) {
	if p.record == nil {
		return p.holds(task)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.record.count == len(p.record.merged), p.changed
}

// errChanged is that a participant would send two things, and so be taken for a liar, because its program has written.
var errChanged = errors.New("own weights have changed since this round first read them")

// sends notes what travels of an own leaf. All mergers must be sent the same, in all attempts.
func (r *run) sends(leaf int, sent []byte) error {
	if !r.witnessed() {
		return nil
	}
	d, p := merge.Sum(sent), r.progress
	p.mu.Lock()
	defer p.mu.Unlock()
	if old := p.record.own[leaf]; !old.IsZero() && old != d {
		return errChanged
	}
	p.record.own[leaf] = d
	return nil
}

// travelOwn is travel of a leaf of the own contribution, and notes it.
func (r *run) travelOwn(leaf int, b []byte) error {
	var changed error
	err := r.travel(leaf, b, func(_ int, sent []byte) { changed = r.sends(leaf, sent) })
	if err != nil {
		return err
	}
	return changed
}

// sent tells whether it is noted what travels of an own leaf.
func (p *progress) sent(leaf int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.record.own[leaf].IsZero()
}

// sentDigest is over the own leaves of a shard, all of which must be noted: what is signed is signed for good.
func (p *progress) sentDigest(shard leafset.Runs) (merge.Digest, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	digests := make([]merge.Digest, 0, shard.Count())
	for _, leaf := range shard.All() {
		if p.record.own[leaf].IsZero() {
			return merge.Digest{}, fmt.Errorf("leaf %d of the own contribution is not known", leaf)
		}
		digests = append(digests, p.record.own[leaf])
	}
	return merge.Combine(digests), nil
}

// came returns what is to note the bytes of participant i's leaf as they came.
func (r *run) came(i, leaf int) func(sent []byte) {
	if !r.witnessed() {
		return nil
	}
	return func(sent []byte) {
		d, p := merge.Sum(sent), r.progress
		p.mu.Lock()
		defer p.mu.Unlock()
		p.record.inputs[i][p.record.task.Index(leaf)] = d
	}
}

// word returns what this node signs of its own leaves in a shard.
func (r *run) word(owner int) (Input, error) {
	p := r.progress
	p.mu.Lock()
	told := p.record.words[owner]
	p.mu.Unlock()
	if told != nil {
		return *told, nil
	}
	d, err := p.sentDigest(r.owned[owner])
	if err != nil {
		return Input{}, err
	}
	in := Input{Digest: d}
	in.Signature, err = r.hub.cfg.Sign(InputMessage(r.plan, r.Self, owner, in.Digest))
	if err == nil && len(in.Signature) != wire.SealSize {
		err = fmt.Errorf("a signature of %d bytes, want %d", len(in.Signature), wire.SealSize)
	}
	if err != nil {
		return Input{}, fmt.Errorf("sign the own contribution: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.record.words[owner] = &in
	return in, nil
}

// tellInputs signs for node j what it has been sent, one shard after the other.
func (v *visitor) tellInputs() error {
	if !v.witnessed() {
		return nil
	}
	b := wire.InputsHeader(v.Self, len(v.shards[v.j])).Append(nil)
	for _, owner := range v.shards[v.j] {
		in, err := v.word(owner)
		if err != nil {
			return unreadError{err}
		}
		b = append(b, in.Digest[:]...)
		b = append(b, in.Signature...)
	}
	return v.c.Write(b, false)
}

// takeInputs reads what contributor i has signed of its leaves, and holds it to what came.
func (r *run) takeInputs(i int, c *wire.Conn) error {
	if !r.witnessed() {
		return nil
	}
	shards := r.shards[r.Self]
	if err := r.takeLast(i, c, wire.InputsHeader(i, len(shards))); err != nil {
		return err
	}
	for _, owner := range shards {
		if err := r.takeInput(i, owner, c); err != nil {
			return err
		}
	}
	return nil
}

// errInput is that a contributor signs other leaves than it sends.
var errInput = errors.New("the leaves that it signed are not those that it sent")

func (r *run) takeInput(i, owner int, c *wire.Conn) error {
	b := make([]byte, wire.InputLength)
	if _, err := io.ReadFull(c, b); err != nil {
		return err
	}
	in := Input{Digest: merge.Digest(b[:32]), Signature: b[32:]}
	if err := r.hub.cfg.Verify(r.Participants[i].Node, InputMessage(r.plan, i, owner, in.Digest), in.Signature); err != nil {
		return fmt.Errorf("its node key has not signed what it sent: %w", err)
	}
	p := r.progress
	p.mu.Lock()
	defer p.mu.Unlock()
	came := make([]merge.Digest, 0, r.owned[owner].Count())
	for _, leaf := range r.owned[owner].All() {
		came = append(came, p.record.inputs[i][p.record.task.Index(leaf)])
	}
	if merge.Combine(came) != in.Digest {
		return errInput
	}
	p.record.taken[owner][i] = in
	return nil
}

// claimAll returns the claims of an attempt that is complete.
func (r *run) claimAll() []Claim {
	if done, _ := r.progress.finished(r.task()); !done || !r.witnessed() || r.failed() != nil || r.ctx.Err() != nil {
		return nil
	}
	claims, err := r.claims()
	if err != nil {
		r.fail(r.Self, wire.Brief(err), err)
	}
	return claims
}

// claims returns what this node has made of each shard of its task, all of which is merged.
func (r *run) claims() ([]Claim, error) {
	var claims []Claim
	for _, owner := range r.shards[r.Self] {
		c := Claim{Owner: owner, Merged: r.progress.mergedDigest(r.owned[owner])}
		if r.method.Distances() {
			told, _ := r.progress.shareOf(owner) // its norms are everybody's: their contributors have signed them
			c.Sums = wire.Share{Sums: r.progress.distances[owner].Sums(), Norms: told.Norms}.Digest()
		}
		for _, i := range r.who {
			in, err := r.progress.input(owner, i), error(nil)
			if i == r.Self {
				in, err = r.word(owner)
			}
			if err != nil {
				return nil, err
			}
			c.Inputs = append(c.Inputs, in)
		}
		claims = append(claims, c)
	}
	return claims, nil
}

// mergedDigest is over the leaves of a shard of the task as this node has merged them.
func (p *progress) mergedDigest(shard leafset.Runs) merge.Digest {
	p.mu.Lock()
	defer p.mu.Unlock()
	digests := make([]merge.Digest, 0, shard.Count())
	for _, leaf := range shard.All() {
		digests = append(digests, p.record.merged[p.record.task.Index(leaf)])
	}
	return merge.Combine(digests)
}

func (p *progress) input(owner, i int) Input {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.record.taken[owner][i]
}
