package exchange

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// visit is this node's dialogue with the owner j: own slices out, merged leaves
// in, both at once.
func (r *run) visit(j int) {
	var first time.Time // when there was a stream for the first time
	for {
		c, reused, err := r.open(j)
		if r.ctx.Err() != nil {
			if c != nil {
				_ = c.s.Reset()
			}
			return
		}
		if err != nil {
			r.fail(j, "dial: "+brief(err), err)
			return
		}
		if first.IsZero() {
			first = time.Now()
		}
		if !r.attach(j, c) {
			_ = c.s.Reset()
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
		if time.Now().After(r.late.due(first, time.Time{})) {
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
func (r *run) open(j int) (c *conn, reused bool, err error) {
	if c := r.hub.takeIdle(r.line(j)); c != nil {
		return c, true, nil
	}
	var first time.Time // when this node began to dial
	for {
		if err := r.hub.opening.enter(r.ctx); err != nil {
			return nil, false, err
		}
		begun := time.Now()
		s, err := r.dialOnce(j)
		r.hub.opening.leave(time.Since(begun), err == nil || !unanswered(err))
		if err == nil {
			r.late.opened()
			return newConn(s, r.hub.cfg.StallTimeout), false, nil
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
func (r *run) dialOnce(j int) (Stream, error) {
	ctx, cancel := context.WithTimeout(r.ctx, r.hub.cfg.StallTimeout)
	defer cancel()
	return r.dial(ctx, j, r.line(j).bulk)
}

// line is what streams to the owner j are kept by.
func (r *run) line(j int) line {
	return line{r.Participants[j].Node, r.owned[j].bytes(r.Layout) >= BulkBytes}
}

// mayAnswer reports whether who did not answer may do so yet: this node is busy with handshakes, so they are slow, or the peer had
// no place for one more. Among few, where nothing is queued and nothing moves, it is gone.
func (r *run) mayAnswer(err error, first time.Time) bool {
	busy := r.late.many || r.hub.opening.queued() || r.late.quiet() < r.hub.cfg.StallTimeout/4
	return busy && unanswered(err) && time.Now().Before(r.late.due(first, time.Time{}))
}

// visitor is one stream to an owner.
type visitor struct {
	*run
	j      int
	c      *conn
	reused bool
	have   bitmap // merged leaves of j's shard held before this attempt
}

// converse returns true when another stream should be tried.
func (v *visitor) converse() (again bool) {
	need := make(chan bitmap, 1)
	quit := make(chan struct{})
	sent := make(chan error, 1)
	go func() { sent <- v.send(need, quit) }()

	again, err := v.receive(need)
	close(quit)
	if again {
		v.c.wind(0) // Ends the sending half, which may be in a write.
		_ = v.c.s.Reset()
		_ = <-sent // it fails because of the reset
		return true
	}
	if err != nil {
		v.fail(v.j, "sends no more: "+brief(err), err)
		_ = <-sent // a consequence
	} else if err = <-sent; err != nil {
		v.fail(v.j, "takes no more: "+brief(err), err)
	}
	if err == nil && v.ctx.Err() == nil {
		v.c.patient()
		v.detach(v.c)
		v.hub.putIdle(v.line(v.j), v.c)
		return false
	}
	v.part(v.c)
	v.c.drain()
	_ = v.c.s.Close()
	return false
}

// receive reads merged leaves into the slot. It has failed the attempt itself
// where more is known than an error says.
func (v *visitor) receive(need chan<- bitmap) (again bool, err error) {
	h, err := v.c.next(true)
	if err != nil {
		return v.reused && v.ctx.Err() == nil, err
	}
	if h.kind == kindFail {
		return v.refused(h)
	}
	m := newBitmap(v.tasks[v.j].count())
	if h.kind != kindHave || int(h.length) != len(m) {
		return false, wrongKind(h)
	}
	if _, err := io.ReadFull(v.c, m); err != nil {
		return false, err
	}
	need <- m
	if err := v.sums(); err != nil {
		return false, err
	}
	for i, leaf := range v.owned[v.j].all() {
		if v.have.get(i) {
			continue
		}
		if err := v.leaf(leaf); err != nil {
			return false, err
		}
	}
	return false, v.takeSeal()
}

// refused handles a Fail as first answer: an owner without the plan is asked again.
func (v *visitor) refused(h header) (again bool, err error) {
	b, err := v.c.payload(h, 1+maxReason)
	if err != nil {
		return false, err
	}
	f, err := decodeFail(h.arg, b, len(v.Participants))
	if err != nil {
		return false, err
	}
	if f.code == codeNotReady || v.reused && (f.code == codeFailed || f.code == codeHeard) {
		return true, nil // In the second case it may be what ended an earlier attempt after we had everything.
	}
	v.failFrame(v.j, f)
	return false, errFrame
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
func (v *visitor) expect(want header) error {
	for {
		h, err := v.c.next(true)
		switch {
		case err != nil:
			return err
		case h == want:
			return nil
		case h.kind == kindWait && h.length == 0:
		case h.kind == kindFail:
			v.peerFailed(v.j, v.c, h)
			return errFrame
		default:
			return v.strange(v.j, h)
		}
	}
}

// send writes the hello and the slices that the owner needs.
func (v *visitor) send(need <-chan bitmap, quit <-chan struct{}) error {
	task := v.tasks[v.j]
	n := task.count()
	hi := hello{contract: v.Contract, run: v.Run, round: v.Round, number: v.Number, sender: v.Self, plan: v.plan}
	v.c.holdFrames(v.have.appendFrame(hi.appendFrame(nil)))
	contributes := v.Participants[v.Self].Weight > 0
	if !contributes || v.Number > 1 {
		if err := v.c.flush(false); err != nil {
			return v.unsent(err, quit)
		}
	}
	if !contributes {
		return nil
	}
	skip := newBitmap(n)
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
	for i, leaves := range task.bundles(per, skip) {
		if err := v.ctx.Err(); err != nil {
			return nil // The reader knows why.
		}
		behind := rank{share: float64(i) / float64(n)}
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
	return v.c.flush(false)
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
			v.c.wind(0) // The reader gives up too and another stream is dialled.
			break
		}
		v.fail(v.j, "takes no more: "+brief(err), err)
	}
	return err
}
