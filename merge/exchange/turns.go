package exchange

import (
	"slices"
	"sync"
	"time"
)

// writers is how many streams of an attempt send at a time where more would only fill a queue. TCP divides a link among the
// streams that share it by how lucky they were, for seconds, and a round ends with the last of them; so few share it, and each
// leaf goes to a stream that is behind. With 8 peers on links of 200 Mbit/s, 2 to 4 were alike, 6 were worse.
const writers = 4

// queuer is a Stream that knows whether what it sends waits in a queue on its way, because the link has more to carry than it can.
type queuer interface{ Queues() bool }

// rank orders the streams that want to send a leaf: contributions before what is merged, because all owners wait for
// them, and who is behind before who is ahead. Among equals each node begins with another peer.
type rank struct {
	merged   bool
	share    float64 // of what the stream is to carry that it has carried
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
	since   time.Time     // when it was asked for or, later, granted
}

// turns says who may send next. The zero value with a limit is ready.
type turns struct {
	limit time.Duration // who has waited for so long may send, and who has sent for so long counts no more: it may be stuck

	mu      sync.Mutex // guards all below
	sending []*turn    // oldest first, writers at most
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
	early := time.Now().Add(-t.limit)
	for len(t.sending) > 0 && !t.sending[0].since.After(early) {
		t.sending = t.sending[1:]
	}
	for len(t.waiting) > 0 && !t.waiting[0].since.After(early) {
		t.waiting[0].grant() // beyond the number: its receiver must not take this node for dead
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
	next := t.waiting[0].since
	if len(t.sending) > 0 && t.sending[0].since.Before(next) {
		next = t.sending[0].since
	}
	t.timer = time.AfterFunc(time.Until(next.Add(t.limit)), func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.grantLocked()
	})
}

// inTurn has send send leaf k of n to participant i, when it is the stream's turn if the link is what it waits for. It sends nothing
// once the attempt has ended.
func (r *run) inTurn(c *conn, i int, merged bool, k, n int, send func() error) error {
	if q, ok := c.s.(queuer); !ok || !q.Queues() {
		return send()
	}
	all := len(r.Participants)
	t := r.turns.ask(rank{merged: merged, share: float64(k) / float64(n), distance: (i - r.Self + all) % all})
	defer r.turns.end(t)
	select {
	case <-t.granted:
		return send()
	case <-r.ctx.Done():
		return nil
	}
}
