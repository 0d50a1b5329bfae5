// Package dialing says how many streams a node opens at a time, and until when it waits for those that are not open yet.
package dialing

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// A node opens so many streams at the same time at first, and at most.
	firstOpening = 4
	mostOpening  = 32
)

// Limiter bounds how many streams this node opens at a time. A handshake costs a core some milliseconds at both ends: if a node that
// starts a round with a hundred others began all of them at once, each would take as long as all, and none would finish in time.
// So it begins with few, and goes on with more while they are quick: where they only wait for the network there may be many. Who
// finds that peers do not answer in time opens fewer.
type Limiter struct {
	slow time.Duration // a handshake that takes longer leaves its place to nobody

	mu     sync.Mutex
	places int
	taken  int
	least  time.Duration   // that one took; 0: none was finished
	queue  []chan struct{} // closed to give the place away; who came first is first
}

// NewLimiter returns the limiter of a node that gives a silent stream up after the stall time.
func NewLimiter(stall time.Duration) *Limiter {
	return &Limiter{slow: stall / 5, places: firstOpening}
}

// Enter waits for a place. Who has got one calls Leave.
func (o *Limiter) Enter(ctx context.Context) error {
	o.mu.Lock()
	turn := make(chan struct{})
	o.queue = append(o.queue, turn)
	o.serveLocked()
	o.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if i := slices.Index(o.queue, turn); i >= 0 {
		o.queue = slices.Delete(o.queue, i, i+1)
	} else {
		o.taken--
		o.serveLocked()
	}
	return ctx.Err()
}

// Leave gives the place back and takes note of how long it was taken, and whether the peer answered.
func (o *Limiter) Leave(took time.Duration, answered bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if answered && (o.least == 0 || took < o.least) {
		o.least = took
	}
	alike := took <= 2*o.least // as quick as any: the network takes the time, not the cores
	switch {
	case !answered:
		o.places = max(1, o.places/2)
	case took > o.slow && alike:
		o.places = max(min(firstOpening, o.places), o.places-1)
	case took > o.slow:
		o.places = max(1, o.places-1)
	case len(o.queue) > 0 && (alike || took <= o.slow/4):
		o.places = min(o.places+1, mostOpening)
	}
	o.taken--
	o.serveLocked()
}

func (o *Limiter) serveLocked() {
	for len(o.queue) > 0 && o.taken < o.places {
		close(o.queue[0])
		o.queue = o.queue[1:]
		o.taken++
	}
}

// Queued reports whether somebody waits for a place.
func (o *Limiter) Queued() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.queue) > 0
}
