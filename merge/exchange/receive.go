package exchange

import (
	"fmt"
	"io"
	"time"

	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange/leafio"
	"github.com/swarmd/swarmd/merge/exchange/leafset"
	"github.com/swarmd/swarmd/merge/exchange/wire"
)

// receiver takes from one contributor's stream what that owes this node. Leaves go into its ring. When the ring stays full, because the
// merge waits for somebody else, or the attempt has failed, it reads on into the spill: what a peer has sent should not have to come
// again.
type receiver struct {
	plan       *assignment
	i          int // the contributor
	codec      *leafio.Codec
	judge      *judge
	signer     signer
	progress   *progress
	ring       *leafio.Ring
	given      leafset.Bitmap  // leaves of the task that it need not send: merged before this attempt, or kept of what it sent
	done       <-chan struct{} // closed when the attempt has ended
	spillAfter time.Duration   // how long the ring may be full before the spill is used
	work       *task

	stuck bool // the ring was full for long, and is still
	spare []byte
	timer *time.Timer
}

// receive reads all that the attempt needs of the contributor.
func (r *receiver) receive(c *wire.Conn) error {
	if r.plan.Participants[r.i].Weight == 0 {
		return nil
	}
	defer func() {
		if r.spare != nil {
			leafio.Free(r.spare)
		}
	}()
	for k, leaf := range r.plan.task().All() {
		if r.given.Get(k) {
			continue
		}
		if err := r.one(c, leaf); err != nil {
			return err
		}
	}
	if err := r.norm(c); err != nil {
		return err
	}
	return r.inputs(c)
}

func (r *receiver) one(c *wire.Conn, leaf int) error {
	buf, err := r.buffer()
	if err != nil {
		return err
	}
	spilled := buf == nil
	if spilled {
		if r.spare == nil {
			r.spare = leafio.Room(r.plan.Layout)
		}
		buf = r.spare
	}
	if err := r.leaf(c, leaf, buf); err != nil {
		return err
	}
	if spilled {
		r.work.busy()
		err = r.progress.spill.Put(r.i, leaf, buf[:r.plan.Layout.LeafLen(leaf)])
		r.work.idle()
		if err == nil {
			r.ring.Wake()
			return nil
		}
		// There is no room: as if there were no spill, but with this leaf in hand.
		if r.spare, err = r.free(); err != nil {
			return err
		}
	}
	r.ring.Put(leaf, buf)
	return nil
}

// leaf reads one leaf into buf.
func (r *receiver) leaf(c *wire.Conn, leaf int, buf []byte) error {
	h, err := c.Next(true)
	if err != nil {
		return err
	}
	if h.Kind == wire.KindFail {
		r.judge.failed(r.i, c, h)
		return wire.ErrFrame
	}
	if h != r.codec.Header(leaf) {
		return r.judge.unexpected(r.i, h)
	}
	var came func(sent []byte)
	if r.progress.record != nil {
		came = func(sent []byte) { r.progress.record.Came(r.i, leaf, sent) }
	}
	return r.codec.Take(c, leaf, buf[:r.plan.Layout.LeafLen(leaf)], came)
}

// buffer returns one of the ring. It returns none when the next leaf should go to the spill.
func (r *receiver) buffer() ([]byte, error) {
	select {
	case <-r.done:
	default:
		if buf := r.ring.Buffer(); buf != nil {
			r.stuck = false
			return buf, nil
		}
		if buf := r.wait(); buf != nil {
			return buf, nil
		}
	}
	if r.progress.spill.Ensure() == nil {
		return nil, nil
	}
	return r.free()
}

// wait gives the merge a short while to go on, once; then the contributor is behind one that stalls.
func (r *receiver) wait() []byte {
	if r.stuck {
		return nil
	}
	if r.timer == nil {
		r.timer = time.NewTimer(r.spillAfter)
	} else {
		r.timer.Reset(r.spillAfter)
	}
	defer r.timer.Stop()
	select {
	case buf := <-r.ring.Freed():
		return buf
	case <-r.timer.C:
		r.stuck = true
	case <-r.done:
	}
	return nil
}

// free waits for a buffer of the ring; nothing is owed then, and no deadline runs.
func (r *receiver) free() ([]byte, error) {
	select {
	case buf := <-r.ring.Freed():
		return buf, nil
	case <-r.done:
		return nil, errEnded
	}
}

// last reads the header of a frame that follows on the last leaf.
func (r *receiver) last(c *wire.Conn, want wire.Header) error {
	h, err := c.Next(true)
	for waits := 0; err == nil && h == (wire.Header{Kind: wire.KindWait}) && waits < r.plan.task().Count(); waits++ {
		h, err = c.Next(true) // It measures leaves that it sent before it was started again.
	}
	switch {
	case err != nil:
		return err
	case h.Kind == wire.KindFail:
		r.judge.failed(r.i, c, h)
		return wire.ErrFrame
	case h != want:
		return wire.Unexpected(h)
	}
	return nil
}

// norm reads what the contributor says of its update over the own shard.
func (r *receiver) norm(c *wire.Conn) error {
	if r.progress.distances == nil {
		return nil
	}
	if err := r.last(c, wire.NormHeader(r.i)); err != nil {
		return err
	}
	n, err := wire.ReadNorm(c)
	if err != nil {
		return err
	}
	if err := r.signer.checkNorm(n, r.i, r.plan.Self); err != nil {
		return fmt.Errorf("its node key has not signed its norm: %w", err)
	}
	return r.progress.distances.SetNorm(r.i, n)
}

// inputs reads what the contributor has signed of its leaves, and holds it to what came.
func (r *receiver) inputs(c *wire.Conn) error {
	if r.progress.record == nil {
		return nil
	}
	shards := r.plan.shards[r.plan.Self]
	if err := r.last(c, wire.InputsHeader(r.i, len(shards))); err != nil {
		return err
	}
	for _, owner := range shards {
		b := make([]byte, wire.InputLength)
		if _, err := io.ReadFull(c, b); err != nil {
			return err
		}
		in := round.Input{Digest: merge.Digest(b[:32]), Signature: b[32:]}
		if err := r.signer.checkInput(in, r.i, owner); err != nil {
			return err
		}
		if err := r.progress.record.Take(r.i, owner, in); err != nil {
			return err
		}
	}
	return nil
}
