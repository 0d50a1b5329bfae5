package exchange

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/swarmd/swarmd/merge/exchange/leafset"
	"github.com/swarmd/swarmd/merge/exchange/wire"
)

// serverStream is the stream of one participant to this owner: its slices in, merged leaves out, both at once.
type serverStream struct {
	plan    *assignment
	i       int // the participant
	life    *lifetime
	judge   *judge
	receive *receiver
	send    *giver

	arrived  chan struct{}  // closed when the stream is claimed
	have     leafset.Bitmap // what the participant holds; set before greeted is closed
	greeted  chan struct{}
	settled  chan struct{} // closed when no more of its leaves is read
	supplied chan struct{} // closed when nothing more is written

	mu sync.Mutex // guards what is below
	c  *wire.Conn // nil: it is not claimed yet
}

func newServerStream(plan *assignment, i int, life *lifetime, j *judge) *serverStream {
	return &serverStream{
		plan: plan, i: i, life: life, judge: j, arrived: make(chan struct{}), greeted: make(chan struct{}), settled: make(chan struct{}),
		supplied: make(chan struct{}),
	}
}

// claim binds the participant's stream to this attempt, once.
func (s *serverStream) claim(c *wire.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c != nil || !s.life.attach(s.i, c) {
		return false
	}
	s.c = c
	close(s.arrived)
	s.judge.clock.Opened()
	return true
}

// conn returns the stream, nil if it is not claimed.
func (s *serverStream) conn() *wire.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.c
}

// serve reads what the participant contributes, in the goroutine of Hub.Serve.
func (s *serverStream) serve(c *wire.Conn) error {
	err := s.greet(c)
	if err == nil {
		err = s.receive.receive(c)
	}
	if err != nil {
		s.life.failFor(s.i, "sends no more: "+wire.Brief(err), err)
	}
	close(s.settled)
	if err == nil {
		c.NoDeadline()
		return nil
	}
	<-s.supplied // the attempt failed
	c.Drain()
	s.life.detach(c)
	return err
}

// greet reads what the participant holds.
func (s *serverStream) greet(c *wire.Conn) error {
	h, err := c.Next(true)
	if err != nil {
		return err
	}
	m := leafset.NewBitmap(s.plan.own().Count())
	if h.Kind != wire.KindHave || int(h.Length) != len(m) {
		return wire.Unexpected(h)
	}
	if _, err := io.ReadFull(c, m); err != nil {
		return err
	}
	s.have = m
	close(s.greeted)
	return nil
}

// linger waits for the next attempt's hello on the stream of a participant that has contributed all it must.
func (s *serverStream) linger(c *wire.Conn) (wire.Header, error) {
	h, err := c.Next(false)
	switch {
	case err != nil:
		t := time.NewTimer(s.life.grace / 2)
		defer t.Stop()
		select {
		case <-s.supplied:
		case <-t.C:
			s.life.heard(s.i, -1, s.plan.node(s.i)+" left before it had everything")
		}
	case h.Kind == wire.KindFail:
		s.judge.failed(s.i, c, h)
		err = fmt.Errorf("%w: %s", errPeerFailed, s.plan.node(s.i))
	}
	<-s.supplied
	if err == nil && s.life.failed() != nil {
		err = errPeerFailed
	}
	if err != nil && !errors.Is(err, io.EOF) {
		c.EndWithin(s.life.grace)
		c.Drain()
	}
	s.life.detach(c)
	return h, err
}

// supply gives the participant the merged leaves of the own shard. It returns when nothing is taken from the participant any
// more either.
func (s *serverStream) supply() {
	defer close(s.supplied)
	s.judge.awaitStream(s.i, s.arrived)
	select {
	case <-s.greeted:
		s.give(s.conn())
	case <-s.life.ctx.Done():
	}
	if c := s.conn(); c != nil {
		s.life.tell(c)
		<-s.settled // Soon: streams of an attempt that failed are bounded in time.
	}
}

// give sends what the participant has not, and ends the attempt if that can't be done.
func (s *serverStream) give(c *wire.Conn) {
	err := s.send.give(c, s.receive.given, s.have)
	if unread := (unreadError{}); errors.As(err, &unread) {
		s.life.failFor(s.plan.Self, fmt.Sprintf("read merged weights: %v", unread), err)
		return
	}
	if err != nil {
		s.life.suspect(s.i, s.owes(), s.plan.node(s.i)+" takes no more", err)
	}
}

// owes reports whether a leaf of the participant is needed still.
func (s *serverStream) owes() bool {
	task := s.plan.task()
	return s.plan.Participants[s.i].Weight > 0 && s.receive.ring.Empty() && !s.receive.progress.received(s.i, task).All(task.Count())
}
