package exchange

import (
	"context"
	"io"
	"time"

	"github.com/swarmd/swarmd/merge/exchange/leafio"
	"github.com/swarmd/swarmd/merge/exchange/leafset"
	"github.com/swarmd/swarmd/merge/exchange/schedule"
	"github.com/swarmd/swarmd/merge/exchange/wire"
)

// sendScheduler makes the streams of an attempt send in the order of its scheduler.
type sendScheduler struct {
	plan  *assignment
	ctx   context.Context //nolint:containedctx // It is the attempt's.
	sched *schedule.Scheduler
}

// schedule calls send, which sends a leaf to participant i: at once if nothing is queued on the connection, else when it is the
// stream's turn. It does not call send if the attempt ends or quit is closed before; the caller has to check for that.
func (t *sendScheduler) schedule(c *wire.Conn, i int, rk schedule.Rank, quit <-chan struct{}, send func() error) error {
	if !c.Queues() {
		return send()
	}
	if err := c.Flush(rk.Merged); err != nil {
		return err
	}
	all := len(t.plan.Participants)
	rk.Distance = (i - t.plan.Self + all) % all
	turn := t.sched.Ask(rk)
	defer t.sched.End(turn)
	select {
	case <-turn.Granted:
		if t.ctx.Err() != nil { // both at once: a leaf that is broken off would leave no place for the reason
			return nil
		}
		return send()
	case <-quit:
	case <-t.ctx.Done():
	}
	return nil
}

// sender sends leaves from slots on one stream.
type sender struct {
	plan    *assignment
	codec   *leafio.Codec
	c       *wire.Conn
	bounded bool
	measure leafio.Measure // what is sent; nil: it is not
}

// unreadError is that the slot could not be read.
type unreadError struct{ error }

// Unwrap returns the slot's error.
func (e unreadError) Unwrap() error { return e.error }

// leaf sends one that is read from a slot. It returns an unreadError if that is what failed.
func (s *sender) leaf(from io.ReaderAt, leaf int) error {
	var head [wire.HeaderSize]byte
	var wrote, measured error
	lent, err := s.codec.Lend(from, leaf, func(b []byte) {
		if s.measure != nil {
			measured = s.measure(leaf, b, nil)
		}
		if measured == nil {
			wrote = s.c.WriteFrame(s.codec.Header(leaf).Append(head[:0]), b, s.bounded)
		}
	})
	if err == nil {
		err = measured
	}
	if err != nil {
		return unreadError{err}
	}
	if lent {
		return wrote
	}
	return s.batch([]int{leaf}, false, func(b []byte, leaf int) ([]byte, error) { return s.codec.Append(b, from, leaf, s.measure) })
}

// minInPlace is the shortest leaf that is sent from where it lies, if it is a bundle by itself. To copy a shorter one costs less than a write.
const minInPlace = 16 << 10

// sendsInPlace reports whether a bundle is one leaf that is sent from where it lies.
func (s *sender) sendsInPlace(leaves []int) bool {
	return len(leaves) == 1 && s.plan.Layout.LeafLen(leaves[0]) >= minInPlace
}

// batch sends some leaves as one; the last ones go with what follows. Frame appends the frame of one; its error becomes an unreadError.
func (s *sender) batch(leaves []int, last bool, frame func(b []byte, leaf int) ([]byte, error)) error {
	err := s.c.Buffer(len(leaves)*(wire.HeaderSize+s.plan.Layout.LeafSize()), func(b []byte) (_ []byte, err error) {
		for _, leaf := range leaves {
			if b, err = frame(b, leaf); err != nil {
				return nil, unreadError{err}
			}
		}
		return b, nil
	})
	if err != nil || last {
		return err
	}
	return s.c.Flush(s.bounded)
}

// distributor sends a participant what this node has merged: in the order of the leaves, which is also that of merging. It says "alive" while
// it waits, so that the receiver does not blame this owner for what a contributor owes.
type distributor struct {
	plan      *assignment
	i         int // the participant
	lifecycle *lifecycle
	codec     *leafio.Codec
	progress  *progress
	store     *store
	sealing   *sealing
	scheduler *sendScheduler
	watchdog  *watchdog
	share     func() []byte // the frame with the own share of the distances, once that is known
	stall     time.Duration
}

// distribute sends all but what the participant has, and before, which leaves it need not send.
func (g *distributor) distribute(c *wire.Conn, given, have leafset.Bitmap) error {
	c.BufferFrames(wire.AppendHave(nil, given))
	if g.plan.Number > 1 { // Else nobody waits for it.
		if err := c.Flush(true); err != nil {
			return err
		}
	}
	if err := g.sums(c); err != nil {
		return err
	}
	own, per := g.plan.localRuns(), leafio.PerBundle(g.plan.Layout)
	n, s := own.Count(), &sender{plan: g.plan, codec: g.codec, c: c, bounded: true}
	for k, leaves := range own.Bundles(per, have) {
		if err := g.awaitLeaves(c, leaves); err != nil || g.lifecycle.ctx.Err() != nil {
			return err
		}
		behind := schedule.Rank{Merged: true, Share: float64(k) / float64(n)}
		if err := g.scheduler.schedule(c, g.i, behind, nil, func() error { return g.bundle(s, leaves, k+per >= n) }); err != nil {
			return err
		}
	}
	if g.lifecycle.ctx.Err() != nil {
		return nil
	}
	return g.seal(c)
}

// bundle sends leaves that this node has merged, from memory where they are still there.
func (g *distributor) bundle(s *sender, leaves []int, last bool) error {
	cache, merged := g.store.cache, g.store.served()
	if s.sendsInPlace(leaves) {
		if f := cache.Take(leaves[0]); f != nil {
			defer cache.Drop(f)
			return s.c.Write(f.Bytes(), true)
		}
		return s.leaf(merged, leaves[0])
	}
	return s.batch(leaves, last, func(b []byte, leaf int) ([]byte, error) {
		if f := cache.Take(leaf); f != nil {
			defer cache.Drop(f)
			return append(b, f.Bytes()...), nil
		}
		return g.codec.Append(b, merged, leaf, nil)
	})
}

// sums sends the own share of the distances when it is known.
func (g *distributor) sums(c *wire.Conn) error {
	if g.progress.distances == nil {
		return nil
	}
	err := g.await(c, func() (bool, <-chan struct{}) {
		s, changed := g.progress.distances.ShareOf(g.plan.Self)
		return s != nil, changed
	})
	if err != nil || g.lifecycle.ctx.Err() != nil {
		return err
	}
	return c.Write(g.share(), true)
}

// seal sends the own seal when the own shard is merged, and those that this node witnesses: until then it reads from the stream,
// and says that it lives.
func (g *distributor) seal(c *wire.Conn) error {
	finished := func() (bool, <-chan struct{}) { return g.progress.finished(g.plan.task()) }
	if done, _ := finished(); !done {
		err := c.Flush(true)
		if err == nil {
			err = g.await(c, finished)
		}
		if err != nil || g.lifecycle.ctx.Err() != nil {
			return err
		}
	}
	s, err := g.sealing.sealLocal()
	if err != nil {
		g.lifecycle.fail(g.plan.Self, wire.Brief(err), err)
		return nil
	}
	return c.Write(s.Frame(g.plan.Self), true)
}

// awaitLeaves blocks until all leaves of a bundle are merged or the attempt has ended.
func (g *distributor) awaitLeaves(c *wire.Conn, leaves []int) error {
	for _, leaf := range leaves {
		if g.progress.merged.Has(leaf) {
			continue
		}
		err := g.await(c, func() (bool, <-chan struct{}) { return g.progress.merged.Ready(leaf) })
		if err != nil || g.lifecycle.ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// await blocks until what the receiver waits for is ready or the attempt has
// ended. Look reports whether it is, and else when to look again.
func (g *distributor) await(c *wire.Conn, look func() (bool, <-chan struct{})) error {
	ready, changed := look()
	if ready {
		return nil
	}
	quarter := g.stall / 4
	alive := time.NewTimer(quarter)
	defer alive.Stop()
	if c.HasBuffered() {
		alive.Reset(quarter / 16) // What is awaited comes soon, as a rule; else the buffered frames should not wait for it.
	}
	for {
		select {
		case <-g.lifecycle.ctx.Done():
			return nil
		case <-changed:
			if ready, changed = look(); ready {
				return nil
			}
		case <-alive.C:
			alive.Reset(quarter)
			if err := g.watchdog.check(); err != nil {
				g.lifecycle.fail(g.plan.Self, err.Error(), nil)
			}
			if err := c.Write(wire.Header{Kind: wire.KindWait}.Append(nil), true); err != nil {
				return err
			}
		}
	}
}
