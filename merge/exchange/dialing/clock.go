package dialing

import (
	"sync"
	"time"
)

// Clock is the clock of the streams of an attempt that are not open yet. As long as this node finishes handshakes, those that
// are left wait for their turn, here or at their other end, and nobody is to blame.
type Clock struct {
	stall time.Duration
	Many  bool      // so many participants that some of their handshakes wait for others
	End   time.Time // after which finished handshakes and signs of life count no more

	mu   sync.Mutex
	last time.Time // when the newest of them was finished
}

// NewClock returns the clock of an attempt that begins now with so many participants. The others' turns at a node that opens
// as few at once as any, and takes the stall time for each, are what it waits for at most: who drips its handshakes gains no more.
func NewClock(stall time.Duration, participants int) *Clock {
	now := time.Now()
	turns := max(0, participants-2)/firstOpening + 1
	return &Clock{stall: stall, Many: turns > 1, End: now.Add(time.Duration(turns) * stall), last: now}
}

// Opened notes that a handshake is finished, of either end.
func (a *Clock) Opened() {
	a.mu.Lock()
	a.last = time.Now()
	a.mu.Unlock()
}

// Quiet reports how long no handshake was finished.
func (a *Clock) Quiet() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Since(a.last)
}

// Due returns when a stream is too late that is being waited for since then; life is when its peer was last heard of.
func (a *Clock) Due(since, life time.Time) time.Time {
	a.mu.Lock()
	latest := a.last
	a.mu.Unlock()
	if life.After(latest) {
		latest = life
	}
	latest = latest.Add(a.stall)
	if latest.After(a.End) {
		latest = a.End
	}
	if own := since.Add(a.stall); own.After(latest) {
		return own
	}
	return latest
}
