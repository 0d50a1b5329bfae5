package exchange

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange/leafset"
	"github.com/swarmd/swarmd/merge/exchange/schedule"
	"github.com/swarmd/swarmd/merge/exchange/wire"
)

// Small leaves travel in bundles: some of them are one write, which costs a system call, a turn and an encryption however little it
// carries. Leaves as large as writeSize travel alone. A bundle is a part of a shard, or of a task, by the index of its leaves, so that
// who merges and who gives have the same bundles without a word.

// perBundle is how many leaves are at most in a bundle.
func perBundle(l *merge.Layout) int { return max(1, wire.WriteSize/l.LeafSize()) }

// minRing is how many leaves of one contributor wait at least to be merged.
const minRing = 4

// ring is how many do: as many as come together.
func ring(l *merge.Layout) int { return max(minRing, perBundle(l)) }

// inbound is the stream of one participant to this owner.
type inbound struct {
	given    leafset.Bitmap // leaves of the task that it need not send: merged before this attempt, or kept of what it sent
	c        *wire.Conn     // set before arrived is closed
	arrived  chan struct{}  // closed when the stream is claimed
	have     leafset.Bitmap // what the participant holds; set before greeted is closed
	greeted  chan struct{}
	full     chan piece    // its leaves in order, but for those in the stash
	next     piece         // taken from full and not given back; of the goroutine that merges
	free     chan []byte   // buffers that come back
	stashed  chan struct{} // has an entry when a leaf went to the stash since the last look
	settled  chan struct{} // closed when no more of its leaves is read
	supplied chan struct{} // closed when nothing more is written
	stashing chore         // of the goroutine that reads the stream
}

func newInbound(given leafset.Bitmap, ring int) *inbound {
	return &inbound{
		given: given, arrived: make(chan struct{}), greeted: make(chan struct{}),
		full: make(chan piece, ring), free: make(chan []byte, ring), stashed: make(chan struct{}, 1),
		settled: make(chan struct{}), supplied: make(chan struct{}),
	}
}

// claim binds the stream of participant i to this attempt, once.
func (r *run) claim(i int, c *wire.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	in := r.inbound[i]
	if in == nil || in.c != nil || r.ended || r.aborted || r.failure != nil {
		return false
	}
	in.c = c
	r.conns[c] = i
	c.CountIn(&r.count)
	close(in.arrived)
	r.late.Opened()
	return true
}

// serve reads what participant i contributes, in the goroutine of Hub.Serve.
func (r *run) serve(i int, c *wire.Conn) error {
	in := r.inbound[i]
	err := r.contribution(i, in)
	if err != nil {
		r.fail(i, "sends no more: "+wire.Brief(err), err)
	}
	close(in.settled)
	if err == nil {
		c.NoDeadline()
		return nil
	}
	r.leave(in)
	return err
}

// leave ends a stream of an attempt that failed.
func (r *run) leave(in *inbound) {
	<-in.supplied
	in.c.Drain()
	r.detach(in.c)
}

func (r *run) contribution(i int, in *inbound) error {
	h, err := in.c.Next(true)
	if err != nil {
		return err
	}
	m := leafset.NewBitmap(r.own().Count())
	if h.Kind != wire.KindHave || int(h.Length) != len(m) {
		return wire.Unexpected(h)
	}
	if _, err := io.ReadFull(in.c, m); err != nil {
		return err
	}
	in.have = m
	close(in.greeted)
	if r.Participants[i].Weight == 0 {
		return nil
	}
	t := &intake{run: r, i: i, in: in}
	if err := t.all(); err != nil {
		return err
	}
	if err := r.takeNorm(i, in.c); err != nil {
		return err
	}
	return r.takeInputs(i, in.c)
}

// slice reads one leaf of participant i into buf.
func (r *run) slice(i int, c *wire.Conn, leaf int, buf []byte) error {
	h, err := c.Next(true)
	if err != nil {
		return err
	}
	if h.Kind == wire.KindFail {
		r.peerFailed(i, c, h)
		return wire.ErrFrame
	}
	if h != r.leafHeader(leaf) {
		return r.strange(i, h)
	}
	return r.takeLeaf(c, leaf, buf[:r.Layout.LeafLen(leaf)], r.came(i, leaf))
}

// linger waits for the next attempt's hello on the stream of participant i,
// which has contributed all it must.
func (r *run) linger(i int, c *wire.Conn) (wire.Header, error) {
	in := r.inbound[i]
	h, err := c.Next(false)
	switch {
	case err != nil:
		t := time.NewTimer(r.hub.cfg.Grace / 2)
		defer t.Stop()
		select {
		case <-in.supplied:
		case <-t.C:
			r.heard(i, -1, r.Participants[i].Node+" left before it had everything")
		}
	case h.Kind == wire.KindFail:
		r.peerFailed(i, c, h)
		err = fmt.Errorf("%w: %s", errPeerFailed, r.Participants[i].Node)
	}
	<-in.supplied
	if err == nil && r.failed() != nil {
		err = errPeerFailed
	}
	if err != nil && !errors.Is(err, io.EOF) {
		c.EndWithin(r.hub.cfg.Grace)
		c.Drain()
	}
	r.detach(c)
	return h, err
}

// errPeerFailed ends a stream whose attempt failed.
var errPeerFailed = errors.New("the attempt failed")

// supply gives participant i the merged leaves of the own shard. It returns when nothing is taken from the participant any
// more either.
func (r *run) supply(i int, in *inbound) {
	defer close(in.supplied)
	r.awaitStream(i, in)
	select {
	case <-in.greeted:
		r.give(i, in)
	case <-r.ctx.Done():
	}
	r.mu.Lock()
	c := in.c
	r.mu.Unlock()
	if c != nil {
		r.part(c)
		<-in.settled // Soon: streams of an attempt that failed are bounded in time.
	}
}

// awaitStream waits until participant i has opened its stream, and blames it if that is too late.
func (r *run) awaitStream(i int, in *inbound) {
	t := time.NewTimer(r.hub.cfg.StallTimeout)
	defer t.Stop()
	for {
		select {
		case <-in.arrived:
			return
		case <-r.ctx.Done():
			return
		case <-t.C:
		}
		left := time.Until(r.late.Due(r.began, r.heardOf(i)))
		if left <= 0 {
			// Also one that contributes nothing: without a blame the same set would be tried for ever.
			r.fail(i, r.Participants[i].Node+" opened no stream in time", nil)
			return
		}
		t.Reset(left)
	}
}

// give writes in the order of the leaves, which is also that of merging, and
// says "alive" while it waits, so that the receiver does not blame this owner
// for what a contributor owes.
func (r *run) give(i int, in *inbound) {
	in.c.HoldFrames(wire.AppendHave(nil, in.given))
	var err error
	if r.Number > 1 { // Else nobody waits for it.
		err = in.c.Flush(true)
	}
	if err == nil {
		err = r.giveSums(in.c)
	}
	merged, own := r.served(), r.own()
	n, per := own.Count(), perBundle(r.Layout)
	s := &sender{run: r, c: in.c, bounded: true}
	for k, leaves := range own.Bundles(per, in.have) {
		if err != nil {
			break
		}
		if err = r.awaitLeaves(in.c, leaves); err != nil || r.ctx.Err() != nil {
			break
		}
		behind := schedule.Rank{Merged: true, Share: float64(k) / float64(n)}
		err = r.inTurn(in.c, i, behind, nil, func() error { return s.give(merged, leaves, k+per >= n) })
		if unread := (unreadError{}); errors.As(err, &unread) {
			r.fail(r.Self, fmt.Sprintf("read merged weights: %v", unread), err)
			return
		}
	}
	if err == nil && r.ctx.Err() == nil {
		err = r.giveSeal(in.c)
	}
	if err != nil {
		r.suspect(i, r.awaits(i, in), r.Participants[i].Node+" takes no more", err)
	}
}

// awaitLeaves blocks until all leaves of a bundle are merged or the attempt has ended.
func (r *run) awaitLeaves(c *wire.Conn, leaves []int) error {
	for _, leaf := range leaves {
		if ready, _ := r.progress.ready(leaf); ready {
			continue
		}
		err := r.await(c, func() (bool, <-chan struct{}) { return r.progress.ready(leaf) })
		if err != nil || r.ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// awaits reports whether a leaf of participant i is needed still.
func (r *run) awaits(i int, in *inbound) bool {
	return r.Participants[i].Weight > 0 && len(in.full) == 0 &&
		!r.progress.stash.Held(i, r.progress.merges(r.task())).All(r.task().Count())
}

// served is where receivers' leaves are read from.
func (r *run) served() io.ReaderAt {
	if r.stepping() {
		return means{r}
	}
	return r.slots.Merged
}

// await blocks until what the receiver waits for is ready or the attempt has
// ended. Look tells whether it is, and else when to look again.
func (r *run) await(c *wire.Conn, look func() (bool, <-chan struct{})) error {
	ready, changed := look()
	if ready {
		return nil
	}
	quarter := r.hub.cfg.StallTimeout / 4
	alive := time.NewTimer(quarter)
	defer alive.Stop()
	if c.Holding() {
		alive.Reset(quarter / 16) // What is awaited comes soon, as a rule; else what is held should not wait for it.
	}
	for {
		select {
		case <-r.ctx.Done():
			return nil
		case <-changed:
			if ready, changed = look(); ready {
				return nil
			}
		case <-alive.C:
			alive.Reset(quarter)
			r.watch()
			if err := c.Write(wire.Header{Kind: wire.KindWait}.Append(nil), true); err != nil {
				return err
			}
		}
	}
}

// merge merges the own shard, and those that this node witnesses.
func (r *run) merge() {
	defer r.merging.rests()
	if done, _ := r.progress.finished(r.task()); done {
		return
	}
	if err := r.openFiles(); err != nil {
		r.fail(r.Self, err.Error(), err)
		return
	}
	if r.method.Distances() {
		r.ownWhole()
		return
	}
	r.ownLeaves()
}

// merger returns one for this attempt's contributors.
func (r *run) merger(distances []float64) (*merge.Merger, error) {
	in := merge.Contributors{Weights: r.weights, Distances: distances}
	if r.method.Bounds() {
		for _, i := range r.who {
			in.Factors = append(in.Factors, r.Participants[i].Factor)
		}
	}
	return r.method.NewMerger(r.Layout, in)
}

// ownLeaves merges leaf by leaf as contributions come in.
func (r *run) ownLeaves() {
	m, err := r.merger(nil)
	if err != nil {
		r.fail(r.Self, wire.Brief(err), err)
		return
	}
	spare, g := getLeaf(r.Layout), r.newGatherer()
	defer putLeaf(spare)
	defer g.release()
	var committed, base []byte
	if r.slots.Base != nil && r.method.UsesBase() && !r.stepping() {
		committed = getLeaf(r.Layout)
		defer putLeaf(committed)
	}
	for k, leaf := range r.task().All() {
		if r.given.Get(k) {
			continue
		}
		if committed != nil {
			base = committed[:r.Layout.LeafLen(leaf)]
			if r.readBase(leaf, base) != nil {
				return
			}
		}
		var squares []float64
		var d merge.Digest
		once := func() error {
			return g.gather(leaf, func() (err error) {
				d, err = r.mergeLeaf(leaf, spare, func(dst []byte) error {
					if err := m.Leaf(leaf, dst, g.sources, base); err != nil {
						return err
					}
					if r.progress.squares != nil && r.mine(leaf) {
						squares = r.squares(leaf, g.sources, base)
					}
					g.giveBack()
					return nil
				})
				return err
			})
		}
		err := once()
		if nf := (*merge.NonFinite)(nil); errors.As(err, &nf) && !g.copies {
			// Whom it names was found by looking again, when the own program may have changed what lies in its slot.
			g.copies = true
			err = once()
		}
		if err != nil {
			r.mergeFailed(err)
			return
		}
		for s, v := range squares {
			r.progress.squares[r.who[s]] += v
		}
		r.merged(leaf, d) // only now: what was lent was whole
	}
	r.progress.stash.Release() // From here the slot has all that another attempt could need.
}

// squares measures the contributors' updates over a leaf.
func (r *run) squares(leaf int, sources [][]byte, base []byte) []float64 {
	sums := make([]float64, len(sources))
	for s := range sources {
		sums[s] = merge.UpdateSquares(r.Layout, leaf, sources[s], base)
	}
	return sums
}

// mergeFailed ends the attempt for what merging met, unless that is known.
func (r *run) mergeFailed(err error) {
	var nf *merge.NonFinite
	switch {
	case errors.Is(err, errEnded):
	case errors.As(err, &nf) && nf.Contributor >= 0:
		r.fail(r.who[nf.Contributor], nf.Error(), err)
	default:
		r.fail(r.Self, wire.Brief(err), err)
	}
}

// put has a leaf of the own shard merged, stores it, keeps it for the receivers and returns the digest of what it stored; the
// caller tells progress. It merges where the leaf is to stay: in the slot, from which receivers are given it, or in the frame with
// which it goes out. Only where the slot holds other bytes than travel is it merged in spare. Where peers step, the merged leaf
// is what receivers are given, now and in another attempt.
func (r *run) put(leaf int, spare []byte, merged func(dst []byte) error) (merge.Digest, error) {
	if lent, d, err := r.inPlace(leaf, merged); lent {
		return d, err
	}
	if r.codec == nil && !r.stepping() {
		f := newFrame(r.Layout, r.leafHeader(leaf))
		if err := merged(f.payload()); err != nil {
			r.recent.drop(f)
			return merge.Digest{}, err
		}
		r.recent.add(f) // Its bytes stay: nobody but this goroutine adds the frames that would push it out.
		return r.store(leaf, f.payload())
	}
	b := spare[:r.Layout.LeafLen(leaf)]
	if err := merged(b); err != nil {
		return merge.Digest{}, err
	}
	if err := r.travel(leaf, b, r.keepRecent); err != nil {
		return merge.Digest{}, err
	}
	if r.stepping() {
		if _, err := (means{r}).WriteAt(b, r.Layout.LeafOffset(leaf)); err != nil {
			return merge.Digest{}, r.stepFailed("keep merged weights", err)
		}
	}
	return r.store(leaf, b)
}

// inPlace lets fill write a merged leaf into the slot, and digests it there; false if that can't be. A program that writes to
// the slot meanwhile harms its own node, whose digest is not the others' then.
func (r *run) inPlace(leaf int, fill func(dst []byte) error) (_ bool, d merge.Digest, failed error) {
	if r.stepping() {
		return false, d, nil
	}
	lent, err := r.lend(r.slots.Merged, leaf, func(b []byte) {
		if failed = fill(b); failed == nil {
			d = merge.Sum(b)
		}
	})
	if err != nil {
		r.fail(r.Self, fmt.Sprintf("write merged weights: %v", err), err)
		return true, d, err
	}
	return lent, d, failed
}

// store writes a merged leaf to the slot, after the optimiser's step if there
// is one, and digests what it wrote.
func (r *run) store(leaf int, b []byte) (merge.Digest, error) {
	if r.stepping() {
		if err := r.take(leaf, b, r.keepState); err != nil {
			return merge.Digest{}, err
		}
	}
	d := merge.Sum(b)
	if _, err := r.slots.Merged.WriteAt(b, r.Layout.LeafOffset(leaf)); err != nil {
		r.fail(r.Self, fmt.Sprintf("write merged weights: %v", err), err)
		return merge.Digest{}, err
	}
	return d, nil
}
