package exchange

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	// BulkBytes is from how many bytes each way on a stream is for bulk: it earns the handshake of a connection for itself, which costs as
	// much as some hundred KiB on one that is shared. Among a hundred nodes the shares of a model are small, and handshakes are many.
	BulkBytes = 1 << 20

	// A node opens so many streams at the same time at first, and at most.
	firstOpening = 4
	mostOpening  = 32
)

// opening are the streams that this node is about to open. A handshake costs a core some milliseconds at both ends: if a node that
// starts a round with a hundred others began all of them at once, each would take as long as all, and none would finish in time.
// So it begins with few, and goes on with more while they are quick: where they only wait for the network there may be many. Who
// finds that peers do not answer in time opens fewer.
type opening struct {
	slow time.Duration // a handshake that takes longer leaves its place to nobody

	mu     sync.Mutex
	places int
	taken  int
	least  time.Duration   // that one took; 0: none was finished
	queue  []chan struct{} // closed to give the place away; who came first is first
}

func newOpening(stall time.Duration) *opening {
	return &opening{slow: stall / 5, places: firstOpening}
}

// enter waits for a place.
func (o *opening) enter(ctx context.Context) error {
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

// leave gives the place back and takes note of how long it was taken, and whether the peer answered.
func (o *opening) leave(took time.Duration, answered bool) {
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

func (o *opening) serveLocked() {
	for len(o.queue) > 0 && o.taken < o.places {
		close(o.queue[0])
		o.queue = o.queue[1:]
		o.taken++
	}
}

// queued reports whether somebody waits for a place.
func (o *opening) queued() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.queue) > 0
}

// arrivals is the clock of the streams of an attempt that are not open yet. As long as this node finishes handshakes, those that
// are left wait for their turn, here or at their other end, and nobody is to blame.
type arrivals struct {
	stall time.Duration
	many  bool      // so many participants that some of their handshakes wait for others
	end   time.Time // after which finished handshakes and signs of life count no more

	mu   sync.Mutex
	last time.Time // when the newest of them was finished
}

// newArrivals returns the clock of an attempt that begins now with so many participants. The others' turns at a node that opens
// as few at once as any, and takes the stall time for each, are what it waits for at most: who drips its handshakes gains no more.
func newArrivals(stall time.Duration, participants int) *arrivals {
	now := time.Now()
	turns := max(0, participants-2)/firstOpening + 1
	return &arrivals{stall: stall, many: turns > 1, end: now.Add(time.Duration(turns) * stall), last: now}
}

// opened notes that a handshake is finished, of either end.
func (a *arrivals) opened() {
	a.mu.Lock()
	a.last = time.Now()
	a.mu.Unlock()
}

// quiet reports how long no handshake was finished.
func (a *arrivals) quiet() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Since(a.last)
}

// due returns when a stream is too late that is being waited for since then; life is when its peer was last heard of.
func (a *arrivals) due(since, life time.Time) time.Time {
	a.mu.Lock()
	latest := a.last
	a.mu.Unlock()
	if life.After(latest) {
		latest = life
	}
	latest = latest.Add(a.stall)
	if latest.After(a.end) {
		latest = a.end
	}
	if own := since.Add(a.stall); own.After(latest) {
		return own
	}
	return latest
}

// unanswered reports whether a dial ended without the peer's word: it may have had no place, or no time yet. An error that would
// come again is an answer.
func unanswered(err error) bool {
	return late(err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
