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
	plan        *assignment
	i           int // the participant
	lifecycle   *lifecycle
	judge       *judge
	receive     *receiver
	distributor *distributor

	arrived   chan struct{}  // closed when the stream is claimed
	have      leafset.Bitmap // what the participant holds; set before greeted is closed
	greeted   chan struct{}
	settled   chan struct{} // closed when no more of its leaves is read
	sendEnded chan struct{} // closed when nothing more is written

	mu sync.Mutex // guards what is below
	c  *wire.Conn // nil: it is not claimed yet
}

func newServerStream(plan *assignment, i int, lifecycle *lifecycle, j *judge) *serverStream {
	return &serverStream{
		plan: plan, i: i, lifecycle: lifecycle, judge: j, arrived: make(chan struct{}), greeted: make(chan struct{}), settled: make(chan struct{}),
		sendEnded: make(chan struct{}),
	}
}

// claim binds the participant's stream to this attempt, once.
func (s *serverStream) claim(c *wire.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c != nil || !s.lifecycle.attach(s.i, c) {
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
		s.lifecycle.failFor(s.i, "sends no more: "+wire.Brief(err), err)
	}
	close(s.settled)
	if err == nil {
		c.NoDeadline()
		return nil
	}
	<-s.sendEnded // the attempt failed
	c.Drain()
	s.lifecycle.detach(c)
	return err
}

// greet reads what the participant holds.
func (s *serverStream) greet(c *wire.Conn) error {
	h, err := c.Next(true)
	if err != nil {
		return err
	}
	m := leafset.NewBitmap(s.plan.localRuns().Count())
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
		t := time.NewTimer(s.lifecycle.grace / 2)
		defer t.Stop()
		select {
		case <-s.sendEnded:
		case <-t.C:
			s.lifecycle.endedBy(s.i, -1, s.plan.node(s.i)+" left before it had everything")
		}
	case h.Kind == wire.KindFail:
		s.judge.failed(s.i, c, h)
		err = fmt.Errorf("%w: %s", errPeerFailed, s.plan.node(s.i))
	}
	<-s.sendEnded
	if err == nil && s.lifecycle.failed() != nil {
		err = errPeerFailed
	}
	if err != nil && !errors.Is(err, io.EOF) {
		c.EndWithin(s.lifecycle.grace)
		c.Drain()
	}
	s.lifecycle.detach(c)
	return h, err
}

// send gives the participant the merged leaves of the own shard. It returns when nothing is taken from the participant any
// more either.
func (s *serverStream) send() {
	defer close(s.sendEnded)
	s.judge.awaitStream(s.i, s.arrived)
	select {
	case <-s.greeted:
		s.distribute(s.conn())
	case <-s.lifecycle.ctx.Done():
	}
	if c := s.conn(); c != nil {
		s.lifecycle.sendFailure(c)
		<-s.settled // Soon: streams of an attempt that failed are bounded in time.
	}
}

// distribute sends what the participant has not, and ends the attempt if that can't be done.
func (s *serverStream) distribute(c *wire.Conn) {
	err := s.distributor.distribute(c, s.receive.given, s.have)
	if unread := (unreadError{}); errors.As(err, &unread) {
		s.lifecycle.failFor(s.plan.Self, fmt.Sprintf("read merged weights: %v", unread), err)
		return
	}
	if err != nil {
		s.lifecycle.suspect(s.i, s.owes(), s.plan.node(s.i)+" takes no more", err)
	}
}

// owes reports whether a leaf of the participant is needed still.
func (s *serverStream) owes() bool {
	task := s.plan.task()
	return s.plan.Participants[s.i].Weight > 0 && s.receive.ring.Empty() && !s.receive.progress.received(s.i, task).All(task.Count())
}
