package quota

import (
	"context"
	"errors"
	"sync"
)

// ErrBusy reports that the calls which are served leave no memory for another, in all or of the caller's SPIFFE ID.
var ErrBusy = errors.New("this SN serves as many calls as it may")

// Memory bounds the memory of calls. Each takes what it may need before anything of it is read, waits if that is not there,
// and gives it back when it has been answered. Small calls overtake large ones that wait: a heartbeat must not stand
// behind the layouts of others.
type Memory struct {
	inAll, each int64
	times       int64 // a SPIFFE ID may take so many times what is free then; 0: all that is free

	mu    sync.Mutex
	used  int64
	by    map[Taker]int64
	byID  map[string]int64 // by SPIFFE ID
	freed chan struct{}    // closed and replaced when something was given back
}

// Taker is whose calls are bounded together.
type Taker struct {
	ID   string // SPIFFE ID
	Node string // one of its nodes; empty: all that have it
}

// NewMemory returns memory of which inAll bytes may be taken in all, and each by one taker. With times, all takers of a SPIFFE ID together may
// have so many times what is free then.
func NewMemory(inAll, each, times int64) *Memory {
	return &Memory{inAll: inAll, each: each, times: times, by: map[Taker]int64{}, byID: map[string]int64{}, freed: make(chan struct{})}
}

// Take waits until n bytes are free for a call, or ctx ends. More than all there is waits for all.
func (b *Memory) Take(ctx context.Context, who Taker, n int64) (give func(), err error) {
	n = min(n, b.each, b.inAll)
	for {
		b.mu.Lock()
		freed := b.freed
		free := b.inAll - b.used - n
		ok := free >= 0 && b.by[who]+n <= b.each && (b.times == 0 || b.byID[who.ID]+n <= b.times*free)
		if ok {
			b.charge(who, n)
		}
		b.mu.Unlock()
		if ok {
			return func() { b.give(who, n) }, nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return nil, ErrBusy
		}
	}
}

func (b *Memory) give(who Taker, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.charge(who, -n)
	close(b.freed)
	b.freed = make(chan struct{})
}

// charge books n bytes. The caller holds mu.
func (b *Memory) charge(who Taker, n int64) {
	b.used += n
	if b.by[who] += n; b.by[who] == 0 {
		delete(b.by, who)
	}
	if b.byID[who.ID] += n; b.byID[who.ID] == 0 {
		delete(b.byID, who.ID)
	}
}

// Used returns how many bytes are taken.
func (b *Memory) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}
