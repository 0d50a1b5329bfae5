// Package schedule says which streams of an attempt send when they share a link that has more to carry than it can.
package schedule

import (
	"slices"
	"sync"
	"time"
)

const (
	// Writers is how many streams of an attempt are let send at a time where more would only fill a queue; who waited or sent for
	// too long comes on top. TCP divides a link among the streams that share it by how lucky they were, for seconds, and a
	// round ends with the last of them; so few share it, and each leaf goes to a stream that is behind. With 8 peers on links of
	// 200 Mbit/s, 2 to 4 were alike, 6 were worse.
	Writers = 4
	// turnTime is how long a turn counts. On that link all streams have sent a leaf in a third of it. It is short because round trips
	// grow for other reasons too: where they swing by 120 ms and 0.5 % is lost, nothing of it by our own sending, turns of 2.5 s
	// cost a quarter of what 14 streams carry.
	turnTime = 500 * time.Millisecond
)

// Rank orders the streams that want to send a leaf: contributions before what is merged, because all owners wait for
// them, and who is behind before who is ahead. Among equals each node begins with another peer.
type Rank struct {
	Merged   bool
	Share    float64 // of the owner's leaves that are behind it
	Distance int     // of the receiver behind the sender in the plan's circle
}

func (a Rank) before(b Rank) bool {
	switch {
	case a.Merged != b.Merged:
		return b.Merged
	case a.Share != b.Share:
		return a.Share < b.Share
	}
	return a.Distance < b.Distance
}

// Turn is one stream's wish to send.
type Turn struct {
	Rank
	Granted chan struct{} // closed when it may
	since   time.Time     // when it was asked for or, later, granted: so both lists of turns are oldest first
}

// Scheduler says who may send next.
type Scheduler struct {
	turnLimit time.Duration // who has sent for so long counts no more: it may be stuck
	waitLimit time.Duration // who has waited for so long may send: its receiver must not take this node for dead

	mu      sync.Mutex // guards all below
	sending []*Turn    // oldest first, Writers at most: those that count
	waiting []*Turn    // oldest first
	timer   *time.Timer
}

// New returns the scheduler of an attempt that fails when nothing comes for the stall time.
func New(stall time.Duration) *Scheduler {
	// With what an owner waits before it says that it lives, a quarter, wait stays under the half that others take for evidence.
	return &Scheduler{turnLimit: min(turnTime, stall/8), waitLimit: stall / 5}
}

// Ask asks for a turn and does not block. The caller ends the turn, granted or not.
func (t *Scheduler) Ask(r Rank) *Turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := &Turn{Rank: r, Granted: make(chan struct{}), since: time.Now()}
	t.waiting = append(t.waiting, x)
	t.grantLocked()
	return x
}

// End gives a turn, granted or not, to the next.
func (t *Scheduler) End(x *Turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	is := func(y *Turn) bool { return x == y }
	t.sending = slices.DeleteFunc(t.sending, is)
	t.waiting = slices.DeleteFunc(t.waiting, is)
	t.grantLocked()
}

// grantLocked lets send who may. While somebody waits still, it is called again by the time that changes something.
func (t *Scheduler) grantLocked() {
	now := time.Now()
	for len(t.sending) > 0 && now.Sub(t.sending[0].since) >= t.turnLimit {
		t.sending = t.sending[1:]
	}
	for len(t.waiting) > 0 && now.Sub(t.waiting[0].since) >= t.waitLimit {
		t.waiting[0].grant() // beyond the number
		t.waiting = t.waiting[1:]
	}
	for len(t.waiting) > 0 && len(t.sending) < Writers {
		first := 0
		for i, x := range t.waiting {
			if x.before(t.waiting[first].Rank) {
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

func (x *Turn) grant() {
	x.since = time.Now()
	close(x.Granted)
}

func (t *Scheduler) againLocked() {
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
	if len(t.waiting) == 0 {
		return
	}
	next := time.Until(t.waiting[0].since.Add(t.waitLimit))
	if len(t.sending) > 0 {
		next = min(next, time.Until(t.sending[0].since.Add(t.turnLimit)))
	}
	t.timer = time.AfterFunc(next, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.grantLocked()
	})
}
