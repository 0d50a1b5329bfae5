package hostpaths

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Bounds of looking. A look at a network's file system whose server is gone may never end, and nothing can end it.
const (
	lookTime = 10 * time.Second
	maxLooks = 4  // that go on at a time, besides those that are stuck
	maxStuck = 16 // looks that took longer and go on
)

// stuckError says where a look is that takes too long.
type stuckError struct {
	at    string
	ended <-chan struct{} // closed when it has ended
	cause error
}

func (e *stuckError) Error() string { return fmt.Sprintf("look at path %.200q: %s", e.at, e.cause) }

func (e *stuckError) Unwrap() error { return e.cause }

// errStuck is why a place is not looked at.
var errStuck = errors.New("a look before is stuck there, as in a mount whose server does not answer")

// looks are those that go on. Those that are stuck are in nobody's way, and nobody follows them. It is safe for concurrent use.
type looks struct {
	mu    sync.Mutex
	slots chan struct{} // of looks that are not stuck
	all   map[*looking]struct{}
	not   []string // places where looks of others are stuck
}

// looking is a look that goes on.
type looking struct {
	at    string // where it is
	by    string // the ID of the helper that looks; empty: none does
	stuck bool
	ended chan struct{}
}

// begin waits until there is room for a look.
func (l *looks) begin(ctx context.Context) (*looking, error) {
	slots := l.room()
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("look at paths: all who look are busy: %w", context.Cause(ctx))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.stuck()); n >= maxStuck {
		<-slots
		return nil, fmt.Errorf("look at paths: %d looks before are stuck, as in mounts whose server does not answer", n)
	}
	one := &looking{ended: make(chan struct{})}
	l.all[one] = struct{}{}
	return one, nil
}

func (l *looks) room() chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.slots == nil {
		l.slots, l.all = make(chan struct{}, maxLooks), map[*looking]struct{}{}
	}
	return l.slots
}

// stuck are the looks that are. The caller holds mu.
func (l *looks) stuck() (all []*looking) {
	for one := range l.all {
		if one.stuck {
			all = append(all, one)
		}
	}
	return all
}

// step notes at which place a look is. An error ends it: nobody waits for it any more, or one before is stuck there.
func (l *looks) step(ctx context.Context, one *looking, at string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if l.avoids(at, one) {
		return errStuck
	}
	one.at = at
	return nil
}

// avoids reports whether a place is, or lies in, one where a look is stuck, and not the one that asks. The caller holds mu.
func (l *looks) avoids(at string, asks *looking) bool {
	within := func(place string) bool { return at == place || inside(at, place) }
	return slices.ContainsFunc(l.not, within) ||
		slices.ContainsFunc(l.stuck(), func(other *looking) bool { return other != asks && within(other.at) })
}

// avoid has nobody look at a place where a look of others is stuck.
func (l *looks) avoid(place string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.not = append(l.not, place)
}

// isStuck reports whether a look is stuck on the way to a name, as far as the name itself says where that leads.
func (l *looks) isStuck(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.avoids(name, nil)
}

// places are those where looks are stuck.
func (l *looks) places() (all []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.stuck() {
		all = append(all, one.at)
	}
	return slices.Compact(slices.Sorted(slices.Values(all)))
}

// sent notes who looks.
func (l *looks) sent(one *looking, by string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one.by = by
}

// looksOn reports whether a helper's look goes on.
func (l *looks) looksOn(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for one := range l.all {
		if one.by == id {
			return true
		}
	}
	return false
}

// giveUp leaves a look to itself, and returns where it is. at is where, if another process looks.
func (l *looks) giveUp(one *looking, at string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at != "" {
		one.at = at
	}
	if _, goesOn := l.all[one]; goesOn && !one.stuck {
		one.stuck = true
		<-l.slots
	}
	return one.at
}

// end forgets a look that has ended.
func (l *looks) end(one *looking) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, one)
	close(one.ended)
	if !one.stuck {
		<-l.slots
	}
}
