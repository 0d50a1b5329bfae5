package exchange

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/swarmd/swarmd/merge/exchange/leafset"
	"github.com/swarmd/swarmd/merge/exchange/schedule"
	"github.com/swarmd/swarmd/merge/exchange/wire"
)

// visit is this node's dialogue with the owner j: own slices out, merged leaves
// in, both at once.
func (r *run) visit(j int) {
	var first time.Time // when there was a stream for the first time
	for {
		c, reused, err := r.open(j)
		if r.ctx.Err() != nil {
			if c != nil {
				c.Reset()
			}
			return
		}
		if err != nil {
			r.fail(j, "dial: "+wire.Brief(err), err)
			return
		}
		if first.IsZero() {
			first = time.Now()
		}
		if !r.attach(j, c) {
			c.Reset()
			return
		}
		v := &visitor{run: r, j: j, c: c, reused: reused, have: r.progress.held(r.owned[j])}
		again := v.converse()
		r.detach(c)
		if !again {
			return
		}
		if reused {
			continue
		}
		if time.Now().After(r.late.Due(first, time.Time{})) {
			r.fail(j, "has no plan for this attempt", nil)
			return
		}
		select { // An owner that refuses without parking the stream must not keep this node dialling.
		case <-time.After(r.hub.cfg.Grace / 8):
		case <-r.ctx.Done():
			return
		}
	}
}

// open takes an idle stream to the owner or dials one.
func (r *run) open(j int) (c *wire.Conn, reused bool, err error) {
	if c := r.hub.takeIdle(r.line(j)); c != nil {
		return c, true, nil
	}
	var first time.Time // when this node began to dial
	for {
		if err := r.hub.opening.Enter(r.ctx); err != nil {
			return nil, false, err
		}
		begun := time.Now()
		s, err := r.dialOnce(j)
		r.hub.opening.Leave(time.Since(begun), err == nil || !unanswered(err))
		if err == nil {
			r.late.Opened()
			return wire.NewConn(s, r.hub.cfg.StallTimeout), false, nil
		}
		if first.IsZero() {
			first = begun
		}
		if !r.mayAnswer(err, first) {
			return nil, false, err
		}
		select {
		case <-time.After(r.hub.cfg.Grace / 8):
		case <-r.ctx.Done():
			return nil, false, r.ctx.Err()
		}
	}
}

// dialOnce dials the owner j, for the stall time at most.
func (r *run) dialOnce(j int) (wire.Stream, error) {
	ctx, cancel := context.WithTimeout(r.ctx, r.hub.cfg.StallTimeout)
	defer cancel()
	return r.dial(ctx, j, r.line(j).bulk)
}

// line is what streams to the owner j are kept by.
func (r *run) line(j int) line {
	return line{r.Participants[j].Node, r.owned[j].Bytes(r.Layout) >= BulkBytes}
}

// inTurn calls send, which sends a leaf to participant i, once it is the stream's turn, if the link is what it waits for. Then
// it sends nothing when the attempt has ended or quit is closed meanwhile; the caller finds that out for itself.
func (r *run) inTurn(c *wire.Conn, i int, rk schedule.Rank, quit <-chan struct{}, send func() error) error {
	if !c.Queues() {
		return send()
	}
	if err := c.Flush(rk.Merged); err != nil {
		return err
	}
	all := len(r.Participants)
	rk.Distance = (i - r.Self + all) % all
	t := r.turns.Ask(rk)
	defer r.turns.End(t)
	select {
	case <-t.Granted:
		if r.ctx.Err() != nil { // both at once: a leaf that is broken off would leave no place for the reason
			return nil
		}
		return send()
	case <-quit:
	case <-r.ctx.Done():
	}
	return nil
}

// mayAnswer reports whether who did not answer may do so yet: this node is busy with handshakes, so they are slow, or the peer had
// no place for one more. Among few, where nothing is queued and nothing moves, it is gone.
func (r *run) mayAnswer(err error, first time.Time) bool {
	busy := r.late.Many || r.hub.opening.Queued() || r.late.Quiet() < r.hub.cfg.StallTimeout/4
	return busy && unanswered(err) && time.Now().Before(r.late.Due(first, time.Time{}))
}

// visitor is one stream to an owner.
type visitor struct {
	*run
	j      int
	c      *wire.Conn
	reused bool
	have   leafset.Bitmap // merged leaves of j's shard held before this attempt
}

// converse returns true when another stream should be tried.
func (v *visitor) converse() (again bool) {
	need := make(chan leafset.Bitmap, 1)
	quit := make(chan struct{})
	sent := make(chan error, 1)
	go func() { sent <- v.send(need, quit) }()

	again, err := v.receive(need)
	close(quit)
	if again {
		v.c.EndWithin(0) // Ends the sending half, which may be in a write.
		v.c.Reset()
		_ = <-sent // it fails because of the reset
		return true
	}
	if err != nil {
		v.fail(v.j, "sends no more: "+wire.Brief(err), err)
		_ = <-sent // a consequence
	} else if err = <-sent; err != nil {
		v.fail(v.j, "takes no more: "+wire.Brief(err), err)
	}
	if err == nil && v.ctx.Err() == nil {
		v.c.NoDeadline()
		v.detach(v.c)
		v.hub.putIdle(v.line(v.j), v.c)
		return false
	}
	v.part(v.c)
	v.c.Drain()
	v.c.Close()
	return false
}

// receive reads merged leaves into the slot. It has failed the attempt itself
// where more is known than an error says.
func (v *visitor) receive(need chan<- leafset.Bitmap) (again bool, err error) {
	h, err := v.c.Next(true)
	if err != nil {
		return v.reused && v.ctx.Err() == nil, err
	}
	if h.Kind == wire.KindFail {
		return v.refused(h)
	}
	m := leafset.NewBitmap(v.tasks[v.j].Count())
	if h.Kind != wire.KindHave || int(h.Length) != len(m) {
		return false, wire.Unexpected(h)
	}
	if _, err := io.ReadFull(v.c, m); err != nil {
		return false, err
	}
	need <- m
	if err := v.sums(); err != nil {
		return false, err
	}
	for i, leaf := range v.owned[v.j].All() {
		if v.have.Get(i) {
			continue
		}
		if err := v.leaf(leaf); err != nil {
			return false, err
		}
	}
	return false, v.takeSeal()
}

// refused handles a Fail as first answer: an owner without the plan is asked again.
func (v *visitor) refused(h wire.Header) (again bool, err error) {
	b, err := v.c.Payload(h, 1+wire.MaxReason)
	if err != nil {
		return false, err
	}
	f, err := wire.DecodeFail(h.Arg, b, len(v.Participants))
	if err != nil {
		return false, err
	}
	if f.Code == wire.CodeNotReady || v.reused && (f.Code == wire.CodeFailed || f.Code == wire.CodeHeard) {
		return true, nil // In the second case it may be what ended an earlier attempt after we had everything.
	}
	v.failFrame(v.j, f)
	return false, wire.ErrFrame
}

// leaf reads until the expected leaf is in the slot.
func (v *visitor) leaf(leaf int) error {
	if err := v.expect(v.leafHeader(leaf)); err != nil {
		return err
	}
	lent, d, err := v.inPlace(leaf, func(b []byte) error { return v.takeLeaf(v.c, leaf, b, nil) })
	if !lent {
		room := getLeaf(v.Layout)
		defer putLeaf(room)
		buf := room[:v.Layout.LeafLen(leaf)]
		if err := v.takeLeaf(v.c, leaf, buf, nil); err != nil {
			return err
		}
		d, err = v.store(leaf, buf)
	}
	if err == nil {
		v.progress.add(leaf, d)
	}
	return err
}

// expect reads until the frame that must come next, but not its payload.
func (v *visitor) expect(want wire.Header) error {
	for {
		h, err := v.c.Next(true)
		switch {
		case err != nil:
			return err
		case h == want:
			return nil
		case h.Kind == wire.KindWait && h.Length == 0:
		case h.Kind == wire.KindFail:
			v.peerFailed(v.j, v.c, h)
			return wire.ErrFrame
		default:
			return v.strange(v.j, h)
		}
	}
}

// send writes the hello and the slices that the owner needs.
func (v *visitor) send(need <-chan leafset.Bitmap, quit <-chan struct{}) error {
	task := v.tasks[v.j]
	n := task.Count()
	hi := wire.Hello{Contract: v.Contract, Run: v.Run, Round: v.Round, Number: v.Number, Sender: v.Self, Plan: v.plan}
	v.c.HoldFrames(wire.AppendHave(hi.AppendFrame(nil), v.have))
	contributes := v.Participants[v.Self].Weight > 0
	if !contributes || v.Number > 1 {
		if err := v.c.Flush(false); err != nil {
			return v.unsent(err, quit)
		}
	}
	if !contributes {
		return nil
	}
	skip := leafset.NewBitmap(n)
	if v.Number > 1 {
		select {
		case skip = <-need:
		case <-quit:
			select { // All that was to come may have come at once, and the owner awaits the norm still.
			case skip = <-need:
			default:
				return nil
			}
		case <-v.ctx.Done():
			return nil
		}
	}
	s := &sender{run: v.run, c: v.c}
	if v.method.Distances() {
		s.measure = v.term
	}
	per := perBundle(v.Layout)
	for i, leaves := range task.Bundles(per, skip) {
		if err := v.ctx.Err(); err != nil {
			return nil // The reader knows why.
		}
		behind := schedule.Rank{Share: float64(i) / float64(n)}
		err := v.inTurn(v.c, v.j, behind, quit, func() error { return s.contribute(leaves, i+per >= n) })
		if unread := (unreadError{}); errors.As(err, &unread) {
			v.fail(v.Self, fmt.Sprintf("read own weights: %v", unread), err)
			return err
		}
		if err != nil {
			return v.unsent(err, quit)
		}
	}
	err := v.conclude()
	if unread := (unreadError{}); errors.As(err, &unread) {
		v.fail(v.Self, fmt.Sprintf("measure own weights: %v", unread), err)
		return err
	}
	if err != nil {
		return v.unsent(err, quit)
	}
	return nil
}

// conclude writes what follows on the last slice.
func (v *visitor) conclude() error {
	err := v.measureRest()
	if err != nil || v.ctx.Err() != nil {
		return err // Where there is none the reader knows why nothing follows.
	}
	if err := v.tellNorm(); err != nil {
		return err
	}
	if err := v.tellInputs(); err != nil {
		return err
	}
	return v.c.Flush(false)
}

// unsent lets the reading side explain a write error first.
func (v *visitor) unsent(err error, quit <-chan struct{}) error {
	t := time.NewTimer(v.hub.cfg.Grace / 2)
	defer t.Stop()
	select {
	case <-quit:
	case <-v.ctx.Done():
	case <-t.C:
		if v.reused {
			v.c.EndWithin(0) // The reader gives up too and another stream is dialled.
			break
		}
		v.fail(v.j, "takes no more: "+wire.Brief(err), err)
	}
	return err
}

// unanswered reports whether a dial ended without the peer's word: it may have had no place, or no time yet. An error that would
// come again is an answer.
func unanswered(err error) bool {
	return wire.Late(err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
