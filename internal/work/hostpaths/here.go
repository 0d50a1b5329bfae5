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

// Here sees the host that this process is on. It is safe for concurrent use, and has no look wait for one that is stuck.
type Here struct {
	root  string
	slots chan struct{} // of looks that are not stuck

	mu    sync.Mutex
	looks map[*looking]struct{} // that go on

	see func(root string, before func(at string) error) looker // lookerAt
}

// looking is a look that goes on.
type looking struct {
	at    string // where it is
	stuck bool
}

// NewHere returns one that sees all of the host.
func NewHere() *Here { return hereBelow("/") }

// hereBelow returns one whose world is a directory.
func hereBelow(root string) *Here {
	return &Here{root: root, slots: make(chan struct{}, maxLooks), looks: map[*looking]struct{}{}, see: lookerAt}
}

// Resolve implements Resolver. What takes longer than 10 seconds is an error, and is not looked at again before it has ended.
func (h *Here) Resolve(ctx context.Context, names []string) (map[string]Lead, error) {
	if all := tooMany(names); all != nil {
		return all, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, lookTime, fmt.Errorf("no answer within %v", lookTime))
	defer cancel()
	l, err := h.begin(ctx)
	if err != nil {
		return nil, err
	}
	type answer struct {
		leads map[string]Lead
		err   error
	}
	said := make(chan answer, 1)
	go func() { // it outlives the call if it is stuck
		leads, err := h.see(h.root, func(at string) error { return h.step(ctx, l, at) }).walkAll(names)
		h.end(l)
		said <- answer{leads, err}
	}()
	select {
	case a := <-said:
		return a.leads, a.err
	case <-ctx.Done():
		return nil, fmt.Errorf("look at path %.200q: %w", h.giveUp(l), context.Cause(ctx))
	}
}

// begin waits until there is room for a look.
func (h *Here) begin(ctx context.Context) (*looking, error) {
	select {
	case h.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("look at paths: all who look are busy: %w", context.Cause(ctx))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	stuck := 0
	for l := range h.looks {
		if l.stuck {
			stuck++
		}
	}
	if stuck >= maxStuck {
		<-h.slots
		return nil, fmt.Errorf("look at paths: %d looks before are stuck, as in mounts whose server does not answer", stuck)
	}
	l := &looking{}
	h.looks[l] = struct{}{}
	return l, nil
}

// step notes at which place a look is. An error ends it: nobody waits for it any more, or one before is stuck there.
func (h *Here) step(ctx context.Context, l *looking, at string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for other := range h.looks {
		if other != l && other.stuck && (at == other.at || inside(at, other.at)) {
			return errors.New("a look before is stuck there, as in a mount whose server does not answer")
		}
	}
	l.at = at
	return nil
}

// giveUp leaves a look to itself, and returns where it is.
func (h *Here) giveUp(l *looking) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, goesOn := h.looks[l]; goesOn && !l.stuck {
		l.stuck = true
		<-h.slots
	}
	return l.at
}

func (h *Here) end(l *looking) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.looks, l)
	if !l.stuck {
		<-h.slots
	}
}
