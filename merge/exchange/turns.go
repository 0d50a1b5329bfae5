package exchange

import (
	"slices"
	"sync"
	"time"
)

const (
	// writers is how many streams of an attempt are let send at a time where more would only fill a queue; who waited or sent for
	// too long comes on top. TCP divides a link among the streams that share it by how lucky they were, for seconds, and a
	// round ends with the last of them; so few share it, and each leaf goes to a stream that is behind. With 8 peers on links of
	// 200 Mbit/s, 2 to 4 were alike, 6 were worse.
	writers = 4
	// turnTime is how long a turn counts. On that link all streams have sent a leaf in a third of it. It is short because round trips
	// grow for other reasons too: where they swing by 120 ms and 0.5 % is lost, nothing of it by our own sending, turns of 2.5 s
	// cost a quarter of what 14 streams carry.
	turnTime = 500 * time.Millisecond
)

// queuer is a Stream that knows whether what it sends waits in a queue on its way, because the link has more to carry than it can.
type queuer interface{ Queues() bool }

// rank orders the streams that want to send a leaf: contributions before what is merged, because all owners wait for
// them, and who is behind before who is ahead. Among equals each node begins with another peer.
type rank struct {
	merged   bool
	share    float64 // of the owner's leaves that are behind it
	distance int     // of the receiver behind the sender in the plan's circle
}

func (a rank) before(b rank) bool {
	switch {
	case a.merged != b.merged:
		return b.merged
	case a.share != b.share:
		return a.share < b.share
	}
	return a.distance < b.distance
}

// turn is one stream's wish to send.
type turn struct {
	rank
	granted chan struct{} // closed when it may
	since   time.Time     // when it was asked for or, later, granted: so both lists of turns are oldest first
}

// turns says who may send next. The zero value with its times is ready.
type turns struct {
	hold time.Duration // who has sent for so long counts no more: it may be stuck
	wait time.Duration // who has waited for so long may send: its receiver must not take this node for dead

	mu      sync.Mutex // guards all below
	sending []*turn    // oldest first, writers at most: those that count
	waiting []*turn    // oldest first
	timer   *time.Timer
}

// ask does not block. The caller ends the turn, granted or not.
func (t *turns) ask(r rank) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := &turn{rank: r, granted: make(chan struct{}), since: time.Now()}
	t.waiting = append(t.waiting, x)
	t.grantLocked()
	return x
}

// end gives the turn to the next.
func (t *turns) end(x *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	is := func(y *turn) bool { return x == y }
	t.sending = slices.DeleteFunc(t.sending, is)
	t.waiting = slices.DeleteFunc(t.waiting, is)
	t.grantLocked()
}

// grantLocked lets send who may. While somebody waits still, it is called again by the time that changes something.
func (t *turns) grantLocked() {
	now := time.Now()
	for len(t.sending) > 0 && now.Sub(t.sending[0].since) >= t.hold {
		t.sending = t.sending[1:]
	}
	for len(t.waiting) > 0 && now.Sub(t.waiting[0].since) >= t.wait {
		t.waiting[0].grant() // beyond the number
		t.waiting = t.waiting[1:]
	}
	for len(t.waiting) > 0 && len(t.sending) < writers {
		first := 0
		for i, x := range t.waiting {
			if x.before(t.waiting[first].rank) {
				first = i
			}
		}
		x := t.waiting[first]
		t.waiting = slices.Delete(t.waiting, first, first+1)
		t.sending = append(t.sending, x)
		x.grant()
	}
	t.againLocked()
}

func (x *turn) grant() {
	x.since = time.Now()
	close(x.granted)
}

func (t *turns) againLocked() {
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
	if len(t.waiting) == 0 {
		return
	}
	next := time.Until(t.waiting[0].since.Add(t.wait))
	if len(t.sending) > 0 {
		next = min(next, time.Until(t.sending[0].since.Add(t.hold)))
	}
	t.timer = time.AfterFunc(next, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.grantLocked()
	})
}

// inTurn calls send, which sends a leaf to participant i, once it is the stream's turn, if the link is what it waits for. Then
// it sends nothing when the attempt has ended or quit is closed meanwhile; the caller finds that out for itself.
func (r *run) inTurn(c *conn, i int, rk rank, quit <-chan struct{}, send func() error) error {
	if q, ok := c.s.(queuer); !ok || !q.Queues() {
		return send()
	}
	if err := c.flush(rk.merged); err != nil {
		return err
	}
	all := len(r.Participants)
	rk.distance = (i - r.Self + all) % all
	t := r.turns.ask(rk)
	defer r.turns.end(t)
	select {
	case <-t.granted:
		if r.ctx.Err() != nil { // both at once: a leaf that is broken off would leave no place for the reason
			return nil
		}
		return send()
	case <-quit:
	case <-r.ctx.Done():
	}
	return nil
}
