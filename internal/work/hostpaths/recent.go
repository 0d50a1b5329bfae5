package hostpaths

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	recent     = time.Minute
	recentFail = 10 * time.Second // for which an error is remembered, since it passes
	maxRecent  = 64               // lists of names that are remembered
)

// Recent answers from what was seen within a minute: a host is asked again and again while somebody is to approve a task, and by all members
// of an assignment at a time. It does not say what may be bound. It is safe for concurrent use.
type Recent struct {
	Of Resolver

	mu  sync.Mutex
	all map[string]*seen // by names
}

// seen is an answer. What is in it does not change once done is closed.
type seen struct {
	done  chan struct{}
	until time.Time // zero: it was given up
	leads map[string]Lead
	err   error
}

// Resolve implements Resolver: it returns where each name led a minute ago at most.
func (r *Recent) Resolve(ctx context.Context, names []string) (map[string]Lead, error) {
	key := fmt.Sprintf("%q", slices.Sorted(slices.Values(names))) // a name may have any byte
	for {
		s, mine := r.find(key)
		if mine {
			s.leads, s.err = r.Of.Resolve(ctx, names)
			switch {
			case ctx.Err() != nil:
			case s.err != nil:
				s.until = time.Now().Add(recentFail)
			default:
				s.until = time.Now().Add(recent)
			}
			close(s.done)
			return s.leads, s.err
		}
		select {
		case <-s.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if time.Now().Before(s.until) {
			return s.leads, s.err
		}
	}
}

// find returns what is remembered, or what the caller is to find out.
func (r *Recent) find(key string) (s *seen, mine bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s = r.all[key]
	if s != nil && s.fresh() {
		return s, false
	}
	if r.all == nil || len(r.all) >= maxRecent {
		r.all = map[string]*seen{}
	}
	s = &seen{done: make(chan struct{})}
	r.all[key] = s
	return s, true
}

// fresh reports whether an answer is still good, or is being found.
func (s *seen) fresh() bool {
	select {
	case <-s.done:
		return time.Now().Before(s.until)
	default:
		return true
	}
}
