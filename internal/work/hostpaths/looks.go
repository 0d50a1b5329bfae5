package hostpaths

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Bounds of looking. A look at a network's file system whose server is gone may never end, and nothing can end it.
const (
	lookTime = 10 * time.Second
	maxLooks = 4  // that go on at a time, besides those that are stuck
	maxStuck = 16 // looks that took longer and go on
)

// errStuck is why a place is not looked at.
var errStuck = errors.New("a look before is stuck there, as in a mount whose server does not answer")

// looks are those that go on. Those that are stuck are in nobody's way, and nobody follows them. It is safe for concurrent use.
type looks struct {
	mu    sync.Mutex
	slots chan struct{} // of looks that are not stuck
	all   map[*looking]struct{}
}

// looking is a look that goes on.
type looking struct {
	at    string // where it is
	stuck bool
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
	one := &looking{}
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
	for _, other := range l.stuck() {
		if other != one && (at == other.at || inside(at, other.at)) {
			return errStuck
		}
	}
	one.at = at
	return nil
}

// giveUp leaves a look to itself, and returns where it is.
func (l *looks) giveUp(one *looking) string {
	l.mu.Lock()
	defer l.mu.Unlock()
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
	if !one.stuck {
		<-l.slots
	}
}
