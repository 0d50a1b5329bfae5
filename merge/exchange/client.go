package exchange

import (
	"errors"
	"io"
	"time"

	"github.com/swarmd/swarmd/merge/exchange/leafio"
	"github.com/swarmd/swarmd/merge/exchange/leafset"
	"github.com/swarmd/swarmd/merge/exchange/wire"
)

// client is this node's dialogue with the owner j: own slices out, merged leaves in, both at once.
type client struct {
	plan      *assignment
	j         int // the owner
	lifecycle *lifecycle
	dial      *dialer
	fetch     *fetcher
	send      *contribution
}

// run talks to the owner, on another stream if one can't be used.
func (c *client) run() {
	var first time.Time // when there was a stream for the first time
	for {
		conn, reused, err := c.dial.open(c.j)
		if c.lifecycle.ctx.Err() != nil {
			if conn != nil {
				conn.Reset()
			}
			return
		}
		if err != nil {
			c.lifecycle.fail(c.j, "dial: "+wire.Brief(err), err)
			return
		}
		if first.IsZero() {
			first = time.Now()
		}
		if !c.lifecycle.attach(c.j, conn) {
			conn.Reset()
			return
		}
		again := c.converse(&clientStream{Conn: conn, j: c.j, reused: reused, have: c.fetch.progress.merged.Bitmap(c.plan.owned[c.j])})
		c.lifecycle.detach(conn)
		if !again {
			return
		}
		if reused {
			continue
		}
		if c.dial.tooLate(first) {
			c.lifecycle.fail(c.j, "has no plan for this attempt", nil)
			return
		}
		if !c.dial.pause() { // An owner that refuses without parking the stream must not keep this node dialling.
			return
		}
	}
}

// clientStream is one stream to an owner.
type clientStream struct {
	*wire.Conn
	j      int // the owner
	reused bool
	have   leafset.Bitmap // merged leaves of j's shard held before this attempt
}

// converse returns true when another stream should be tried.
func (c *client) converse(s *clientStream) (again bool) {
	need := make(chan leafset.Bitmap, 1)
	quit := make(chan struct{})
	sent := make(chan error, 1)
	go func() { sent <- c.send.send(s, need, quit) }()

	again, err := c.fetch.receive(s, need)
	close(quit)
	if again {
		s.EndWithin(0) // Ends the sending half, which may be in a write.
		s.Reset()
		_ = <-sent // it fails because of the reset
		return true
	}
	if err != nil {
		c.lifecycle.failFor(c.j, "sends no more: "+wire.Brief(err), err)
		_ = <-sent // a consequence
	} else if err = <-sent; err != nil {
		c.lifecycle.failFor(c.j, "takes no more: "+wire.Brief(err), err)
	}
	if err == nil && c.lifecycle.ctx.Err() == nil {
		s.NoDeadline()
		c.lifecycle.detach(s.Conn)
		c.dial.keep(c.j, s.Conn)
		return false
	}
	c.lifecycle.sendFailure(s.Conn)
	s.Drain()
	s.Close()
	return false
}

// fetcher is the receiving half: it reads merged leaves into the slot.
type fetcher struct {
	plan      *assignment
	lifecycle *lifecycle
	judge     *judge
	codec     *leafio.Codec
	progress  *progress
	store     *store
	sealing   *sealing
}

// receive reads all that the owner gives. It has failed the attempt itself where more is known than an error says.
func (f *fetcher) receive(s *clientStream, need chan<- leafset.Bitmap) (again bool, err error) {
	h, err := s.Next(true)
	if err != nil {
		return s.reused && f.lifecycle.ctx.Err() == nil, err
	}
	if h.Kind == wire.KindFail {
		return f.refused(s, h)
	}
	m := leafset.NewBitmap(f.plan.tasks[s.j].Count())
	if h.Kind != wire.KindHave || int(h.Length) != len(m) {
		return false, wire.Unexpected(h)
	}
	if _, err := io.ReadFull(s, m); err != nil {
		return false, err
	}
	need <- m
	if err := f.sums(s); err != nil {
		return false, err
	}
	for i, leaf := range f.plan.owned[s.j].All() {
		if s.have.Get(i) {
			continue
		}
		if err := f.leaf(s, leaf); err != nil {
			return false, err
		}
	}
	return false, f.seal(s)
}

// refused handles a Fail as first answer: an owner without the plan is asked again.
func (f *fetcher) refused(s *clientStream, h wire.Header) (again bool, err error) {
	b, err := s.Payload(h, 1+wire.MaxReason)
	if err != nil {
		return false, err
	}
	said, err := wire.DecodeFail(h.Arg, b, len(f.plan.Participants))
	if err != nil {
		return false, err
	}
	if said.Code == wire.CodeNotReady || s.reused && (said.Code == wire.CodeFailed || said.Code == wire.CodeHeard) {
		return true, nil // In the second case it may be what ended an earlier attempt after we had everything.
	}
	f.judge.weigh(s.j, said)
	return false, wire.ErrFrame
}

// expect reads until the frame that must come next, but not its payload.
func (f *fetcher) expect(s *clientStream, want wire.Header) error {
	for {
		h, err := s.Next(true)
		switch {
		case err != nil:
			return err
		case h == want:
			return nil
		case h.Kind == wire.KindWait && h.Length == 0:
		case h.Kind == wire.KindFail:
			f.judge.failed(s.j, s.Conn, h)
			return wire.ErrFrame
		default:
			return f.judge.unexpected(s.j, h)
		}
	}
}

// leaf reads until the expected leaf is in the slot.
func (f *fetcher) leaf(s *clientStream, leaf int) error {
	if err := f.expect(s, f.codec.Header(leaf)); err != nil {
		return err
	}
	lent, d, err := f.store.inPlace(leaf, func(b []byte) error { return f.codec.Take(s, leaf, b, nil) })
	if !lent {
		room := leafio.Room(f.plan.Layout)
		defer leafio.Free(room)
		buf := room[:f.plan.Layout.LeafLen(leaf)]
		if err := f.codec.Take(s, leaf, buf, nil); err != nil {
			return err
		}
		d, err = f.store.write(leaf, buf)
	}
	if err == nil {
		f.progress.merged.Add(leaf, d)
	}
	return err
}

// sums takes the owner's share of the distances. Who owns nothing needs them for the owner's seal alone.
func (f *fetcher) sums(s *clientStream) error {
	if f.progress.distances == nil {
		return nil
	}
	if err := f.expect(s, wire.SumsHeader(len(f.plan.contributors))); err != nil {
		return err
	}
	share, err := wire.ReadShare(s, len(f.plan.contributors))
	if err != nil {
		return err
	}
	if err := f.sealing.signer.checkShare(s.j, share); err != nil {
		f.judge.convict(s.j, err)
		return err
	}
	return f.progress.distances.SetShare(s.j, share)
}

// seal reads the owner's word on what it has given.
func (f *fetcher) seal(s *clientStream) error {
	if err := f.expect(s, wire.SealHeader(s.j)); err != nil {
		return err
	}
	seal, err := wire.ReadSeal(s)
	if err != nil {
		return err
	}
	if bad := (*badSeal)(nil); errors.As(f.sealing.take(s.j, seal), &bad) {
		f.lifecycle.fail(s.j, bad.reason, bad.cause)
		return errSeal
	}
	return nil
}
