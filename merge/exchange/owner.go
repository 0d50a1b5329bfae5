package exchange

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/swarmd/swarmd/merge"
)

// ring is how many leaves of one contributor wait to be merged.
const ring = 4

// inbound is the stream of one participant to this owner.
type inbound struct {
	c        *conn         // set before arrived is closed
	arrived  chan struct{} // closed when the stream is claimed
	have     bitmap        // what the participant holds; set before greeted is closed
	greeted  chan struct{}
	full     chan []byte   // its leaves in order
	free     chan []byte   // buffers that come back
	supplied chan struct{} // closed when nothing more is written
}

func newInbound() *inbound {
	return &inbound{
		arrived: make(chan struct{}), greeted: make(chan struct{}), supplied: make(chan struct{}),
		full: make(chan []byte, ring), free: make(chan []byte, ring),
	}
}

// claim binds the stream of participant i to this attempt, once.
func (r *run) claim(i int, c *conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	in := r.inbound[i]
	if in == nil || in.c != nil || r.ended || r.aborted || r.failure != nil {
		return false
	}
	in.c = c
	r.conns[c] = struct{}{}
	c.count.Store(&r.count)
	close(in.arrived)
	return true
}

// serve reads what participant i contributes, in the goroutine of Hub.Serve.
func (r *run) serve(i int, c *conn) error {
	in := r.inbound[i]
	err := r.contribution(i, in)
	if err == nil {
		c.patient()
		return nil
	}
	r.fail(i, "sends no more: "+plain(err), err)
	r.leave(in)
	return err
}

// leave ends a stream of an attempt that failed.
func (r *run) leave(in *inbound) {
	<-in.supplied
	in.c.drain()
	r.detach(in.c)
}

func (r *run) contribution(i int, in *inbound) error {
	shard := r.Participants[r.Self].Shard
	h, err := in.c.next(true)
	if err != nil {
		return err
	}
	m := newBitmap(shard.Leaves)
	if h.kind != kindHave || int(h.length) != len(m) {
		return wrongKind(h)
	}
	if _, err := io.ReadFull(in.c, m); err != nil {
		return err
	}
	in.have = m
	close(in.greeted)
	if r.Participants[i].Weight == 0 {
		return nil
	}
	made := 0
	for k := range shard.Leaves {
		if r.given.get(k) {
			continue
		}
		var buf []byte
		if made < ring {
			buf = getLeaf()
			made++
		} else {
			// The reader waits here when other contributors are behind; nothing is
			// owed then, and no deadline runs.
			select {
			case buf = <-in.free:
			case <-r.ctx.Done():
				return r.ctx.Err()
			}
		}
		if err := r.slice(i, in.c, shard.First+k, buf); err != nil {
			return err
		}
		in.full <- buf // Never blocks: there are not more buffers than places.
	}
	return nil
}

// slice reads one leaf of participant i into buf.
func (r *run) slice(i int, c *conn, leaf int, buf []byte) error {
	n := r.Layout.LeafLen(leaf)
	h, err := c.next(true)
	if err != nil {
		return err
	}
	if h.kind == kindFail {
		r.peerFailed(i, c, h)
		return errFrame
	}
	if h.kind != kindLeaf || h.arg != uint32(leaf) || int(h.length) != n {
		return wrongKind(h)
	}
	_, err = io.ReadFull(c, buf[:n])
	return err
}

// linger waits for the next attempt's hello on the stream of participant i,
// which has contributed all it must.
func (r *run) linger(i int, c *conn) (header, error) {
	in := r.inbound[i]
	h, err := c.next(false)
	switch {
	case err != nil:
		t := time.NewTimer(r.hub.cfg.Grace / 2)
		defer t.Stop()
		select {
		case <-in.supplied:
		case <-t.C:
			r.fail(-1, r.Participants[i].Node+" left before it had everything", err)
		}
	case h.kind == kindFail:
		r.peerFailed(i, c, h)
		err = fmt.Errorf("%w: %s", errPeerFailed, r.Participants[i].Node)
	}
	<-in.supplied
	if err == nil && r.failed() != nil {
		err = errPeerFailed
	}
	if err != nil && !errors.Is(err, io.EOF) {
		c.wind(r.hub.cfg.Grace)
		c.drain()
	}
	r.detach(c)
	return h, err
}

// errPeerFailed ends a stream whose attempt failed.
var errPeerFailed = errors.New("the attempt failed")

// supply gives participant i the merged leaves of the own shard.
func (r *run) supply(i int, in *inbound) {
	defer close(in.supplied)
	t := time.NewTimer(r.hub.cfg.StallTimeout)
	defer t.Stop()
	select {
	case <-in.arrived:
	case <-r.ctx.Done():
	case <-t.C:
		// Also one that contributes nothing: without a blame the same set would be tried for ever.
		r.fail(i, r.Participants[i].Node+" opened no stream in time", nil)
	}
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
	}
}

// give writes in the order of the leaves, which is also that of merging, and
// says "alive" while it waits, so that the receiver does not blame this owner
// for what a contributor owes.
func (r *run) give(i int, in *inbound) {
	err := in.c.write(r.given.appendFrame(nil), true)
	if err == nil {
		err = r.giveSums(in.c)
	}
	merged := r.served()
	shard := r.Participants[r.Self].Shard
	w := newBatch(in.c, true)
	defer w.release()
	for k := 0; k < shard.Leaves && err == nil; k++ {
		if in.have.get(k) {
			continue
		}
		leaf := shard.First + k
		ready, _ := r.progress.ready(leaf)
		if !ready {
			if err = w.flush(); err == nil {
				err = r.await(in.c, func() (bool, <-chan struct{}) { return r.progress.ready(leaf) })
			}
		}
		if err != nil || r.ctx.Err() != nil {
			break
		}
		if done, sent := r.giveRecent(in.c, leaf); done {
			err = sent
			continue
		}
		if err := w.add(merged, r.Layout, leaf); err != nil {
			r.fail(r.Self, fmt.Sprintf("read merged weights: %v", err), err)
			return
		}
		if w.full() {
			err = w.flush()
		}
	}
	if err == nil && r.ctx.Err() == nil {
		err = w.flush()
	}
	if err != nil {
		blamed := -1
		if r.awaits(i, in) {
			blamed = i
		}
		r.suspect(blamed, r.Participants[i].Node+" takes no more", err)
	}
}

// awaits reports whether a leaf of participant i is needed still.
func (r *run) awaits(i int, in *inbound) bool {
	own := r.Participants[r.Self].Shard
	return r.Participants[i].Weight > 0 && len(in.full) == 0 && !allSet(r.progress.held(own), own.Leaves) &&
		!(r.method.Distances() && r.progress.count() == own.Leaves)
}

// served is where receivers' leaves are read from.
func (r *run) served() io.ReaderAt {
	if r.stepping() {
		return means{r}
	}
	return r.slots.Merged
}

func allSet(m bitmap, n int) bool {
	for k := range n {
		if !m.get(k) {
			return false
		}
	}
	return true
}

// await blocks until what the receiver waits for is ready or the attempt has
// ended. Look tells whether it is, and else when to look again.
func (r *run) await(c *conn, look func() (bool, <-chan struct{})) error {
	ready, changed := look()
	if ready {
		return nil
	}
	alive := time.NewTicker(r.hub.cfg.StallTimeout / 4)
	defer alive.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return nil
		case <-changed:
			if ready, changed = look(); ready {
				return nil
			}
		case <-alive.C:
			if err := c.write(header{kind: kindWait}.append(nil), true); err != nil {
				return err
			}
		}
	}
}

// own merges the own shard.
func (r *run) own() {
	own := r.Participants[r.Self].Shard
	if allSet(r.progress.held(own), own.Leaves) {
		return
	}
	if err := r.openSpool(); err != nil {
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
		r.fail(r.Self, plain(err), err)
		return
	}
	dst, local := getLeaf(), getLeaf()
	defer putLeaf(dst)
	defer putLeaf(local)
	var committed, base []byte
	if r.slots.Base != nil && r.method.UsesBase() && !r.stepping() {
		committed = getLeaf()
		defer putLeaf(committed)
	}
	sources := make([][]byte, len(r.who))
	shard := r.Participants[r.Self].Shard
	for k := range shard.Leaves {
		if r.given.get(k) {
			continue
		}
		leaf := shard.First + k
		n := r.Layout.LeafLen(leaf)
		if !r.gather(leaf, sources, local) {
			return
		}
		if committed != nil {
			base = committed[:n]
			if r.readBase(leaf, base) != nil {
				return
			}
		}
		if err := m.Leaf(leaf, dst[:n], sources, base); err != nil {
			r.mergeFailed(err)
			return
		}
		squares := r.squares(leaf, sources, base)
		r.giveBack(sources)
		if r.put(leaf, dst[:n]) != nil {
			return
		}
		for s, v := range squares {
			r.progress.squares[r.who[s]] += v
		}
	}
}

// squares measures the contributors' updates over a leaf, if the method bounds them.
func (r *run) squares(leaf int, sources [][]byte, base []byte) []float64 {
	if r.progress.squares == nil {
		return nil
	}
	sums := make([]float64, len(sources))
	for s := range sources {
		sums[s] = merge.UpdateSquares(r.Layout, leaf, sources[s], base)
	}
	return sums
}

// gather takes one leaf of every contributor, in plan order.
func (r *run) gather(leaf int, sources [][]byte, local []byte) bool {
	n := r.Layout.LeafLen(leaf)
	for s, i := range r.who {
		if i == r.Self {
			if err := readLeaf(r.slots.Local, r.Layout, leaf, local[:n]); err != nil {
				r.fail(r.Self, fmt.Sprintf("read own weights: %v", err), err)
				return false
			}
			sources[s] = local[:n]
			continue
		}
		select {
		case buf := <-r.inbound[i].full:
			sources[s] = buf[:n]
		case <-r.ctx.Done():
			return false
		}
	}
	return true
}

// giveBack lets the contributors' buffers be filled again.
func (r *run) giveBack(sources [][]byte) {
	for s, i := range r.who {
		if i != r.Self {
			r.inbound[i].free <- sources[s][:merge.LeafSize]
		}
	}
}

func (r *run) mergeFailed(err error) {
	var nf *merge.NonFinite
	if errors.As(err, &nf) && nf.Contributor >= 0 {
		r.fail(r.who[nf.Contributor], nf.Error(), err)
		return
	}
	r.fail(r.Self, plain(err), err)
}

// put stores a leaf that this owner merged. Where peers step, the merged leaf
// is what receivers are given, now and in another attempt.
func (r *run) put(leaf int, b []byte) error {
	r.keepRecent(leaf, b)
	if r.stepping() {
		if _, err := r.progress.spool.WriteAt(b, r.scratch().mean(leaf)); err != nil {
			return r.stepFailed("keep merged weights", err)
		}
	}
	return r.store(leaf, b)
}

// store writes a merged leaf to the slot, after the optimiser's step if there
// is one, and digests what it wrote.
func (r *run) store(leaf int, b []byte) error {
	if r.stepping() {
		if err := r.take(leaf, b); err != nil {
			return err
		}
	}
	d := merge.Sum(b)
	if _, err := r.slots.Merged.WriteAt(b, r.Layout.LeafOffset(leaf)); err != nil {
		r.fail(r.Self, fmt.Sprintf("write merged weights: %v", err), err)
		return err
	}
	r.progress.add(leaf, d)
	return nil
}
