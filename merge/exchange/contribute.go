package exchange

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange/leafio"
	"github.com/swarmd/swarmd/merge/exchange/leafset"
	"github.com/swarmd/swarmd/merge/exchange/schedule"
	"github.com/swarmd/swarmd/merge/exchange/wire"
)

// contribution is the sending half: it gives an owner the own slices, and what this node signs of them.
type contribution struct {
	plan      *assignment
	lifecycle *lifecycle
	codec     *leafio.Codec
	local     io.ReaderAt
	progress  *progress
	signer    signer
	scheduler *sendScheduler
	stall     time.Duration
}

// send writes the hello and the slices that the owner needs.
func (o *contribution) send(s *clientStream, need <-chan leafset.Bitmap, quit <-chan struct{}) error {
	hi := wire.Hello{Contract: o.plan.Contract, Run: o.plan.Run, Round: o.plan.Round, Number: o.plan.Number, Sender: o.plan.Self, Plan: o.plan.digest}
	s.BufferFrames(wire.AppendHave(hi.AppendFrame(nil), s.have))
	contributes := o.plan.Participants[o.plan.Self].Weight > 0
	if !contributes || o.plan.Number > 1 {
		if err := s.Flush(false); err != nil {
			return o.unsent(s, err, quit)
		}
	}
	if !contributes {
		return nil
	}
	skip := leafset.NewBitmap(o.plan.tasks[s.j].Count())
	if o.plan.Number > 1 {
		select {
		case skip = <-need:
		case <-quit:
			select { // All that was to come may have come at once, and the owner awaits the norm still.
			case skip = <-need:
			default:
				return nil
			}
		case <-o.lifecycle.ctx.Done():
			return nil
		}
	}
	doing, err := "read own weights", o.leaves(s, skip, quit)
	if err == nil && o.lifecycle.ctx.Err() == nil { // else the reader knows why
		doing, err = "measure own weights", o.conclude(s)
	}
	if unread := (unreadError{}); errors.As(err, &unread) {
		o.lifecycle.failFor(o.plan.Self, fmt.Sprintf("%s: %v", doing, unread), err)
		return err
	}
	if err != nil {
		return o.unsent(s, err, quit)
	}
	return nil
}

// leaves sends the slices but for those to skip.
func (o *contribution) leaves(s *clientStream, skip leafset.Bitmap, quit <-chan struct{}) error {
	out := &sender{plan: o.plan, codec: o.codec, c: s.Conn}
	if o.progress.distances != nil {
		out.measure = o.term
	}
	task, per := o.plan.tasks[s.j], leafio.PerBundle(o.plan.Layout)
	n := task.Count()
	for i, leaves := range task.Bundles(per, skip) {
		if o.lifecycle.ctx.Err() != nil {
			return nil
		}
		behind := schedule.Rank{Share: float64(i) / float64(n)}
		if err := o.scheduler.schedule(s.Conn, s.j, behind, quit, func() error { return o.bundle(out, leaves, i+per >= n) }); err != nil {
			return err
		}
	}
	return nil
}

// bundle sends own leaves. Where shards have witnesses their bytes are those that their digests say, whatever a program
// writes meanwhile.
func (o *contribution) bundle(out *sender, leaves []int, last bool) error {
	if out.sendsInPlace(leaves) && o.progress.record == nil {
		return out.leaf(o.local, leaves[0])
	}
	return out.batch(leaves, last, func(b []byte, leaf int) ([]byte, error) {
		at := len(b) + wire.HeaderSize
		b, err := o.codec.Append(b, o.local, leaf, out.measure)
		if err == nil && o.progress.record != nil {
			err = o.progress.record.Send(leaf, b[at:])
		}
		return b, err
	})
}

// conclude writes what follows on the last slice.
func (o *contribution) conclude(s *clientStream) error {
	err := o.measureRest(s)
	if err != nil || o.lifecycle.ctx.Err() != nil {
		return err // Where there is none the reader knows why nothing follows.
	}
	if err := o.norm(s); err != nil {
		return err
	}
	if err := o.inputs(s); err != nil {
		return err
	}
	return s.Flush(false)
}

// unsent lets the reading side explain a write error first.
func (o *contribution) unsent(s *clientStream, err error, quit <-chan struct{}) error {
	t := time.NewTimer(o.lifecycle.grace / 2)
	defer t.Stop()
	select {
	case <-quit:
	case <-o.lifecycle.ctx.Done():
	case <-t.C:
		if s.reused {
			s.EndWithin(0) // The reader gives up too and another stream is dialled.
			break
		}
		o.lifecycle.fail(s.j, "takes no more: "+wire.Brief(err), err)
	}
	return err
}

// norm sends the owner the norm of the own update over its shard: of what it gets, so with what shortening leaves of it.
func (o *contribution) norm(s *clientStream) error {
	if o.progress.distances == nil {
		return nil
	}
	var squares float64
	for _, leaf := range o.plan.owned[s.j].All() {
		squares += o.progress.distances.Term(leaf)
	}
	n, err := o.signer.norm(s.j, squares)
	if err != nil {
		return unreadError{err}
	}
	return s.Write(n.Append(wire.NormHeader(o.plan.Self).Append(nil)), false)
}

// inputs signs for the owner what it has been sent, one shard after the other.
func (o *contribution) inputs(s *clientStream) error {
	if o.progress.record == nil {
		return nil
	}
	b := wire.InputsHeader(o.plan.Self, len(o.plan.shards[s.j])).Append(nil)
	for _, owner := range o.plan.shards[s.j] {
		in, err := o.signer.input(o.progress.record, owner)
		if err != nil {
			return unreadError{err}
		}
		b = append(b, in.Digest[:]...)
		b = append(b, in.Signature...)
	}
	return s.Write(b, false)
}

// measureRest measures what this node sent before it was started again, and says meanwhile that it lives.
func (o *contribution) measureRest(s *clientStream) error {
	said := time.Now()
	for _, leaf := range o.plan.tasks[s.j].All() {
		if o.measured(leaf) {
			continue
		}
		if o.lifecycle.ctx.Err() != nil {
			return nil // The reader knows why.
		}
		if err := o.measure(leaf); err != nil {
			return unreadError{err}
		}
		if now := time.Now(); now.Sub(said) >= o.stall/4 {
			said = now
			if err := s.Write(wire.Header{Kind: wire.KindWait}.Append(nil), false); err != nil {
				return err
			}
		}
	}
	return nil
}

// measured reports whether all is known that is to be said of an own leaf behind the last one.
func (o *contribution) measured(leaf int) bool {
	d, r := o.progress.distances, o.progress.record
	return (d == nil || d.Term(leaf) >= 0) && (r == nil || r.Sent(leaf))
}

// measure measures a leaf that is not sent.
func (o *contribution) measure(leaf int) error {
	room := leafio.Room(o.plan.Layout)
	defer leafio.Free(room)
	b := room[:o.plan.Layout.LeafLen(leaf)]
	if err := leafio.Read(o.local, o.plan.Layout, leaf, b); err != nil {
		return err
	}
	if err := roundTripLocal(o.codec, o.progress.record, leaf, b); err != nil || o.progress.distances == nil {
		return err
	}
	return o.term(leaf, b, nil)
}

// term keeps what a leaf of the own contribution, as its owner has it, adds to its norm. Base is nil if it was not read yet.
func (o *contribution) term(leaf int, x, base []byte) error {
	add := func(base []byte) {
		o.progress.distances.SetTerm(leaf, merge.UpdateSquares(o.plan.Layout, leaf, x, base))
	}
	if base != nil {
		add(base)
		return nil
	}
	return o.codec.WithBase(leaf, add)
}
