package rpc

import (
	"context"
	"net/http"
	"sync"
)

const (
	// memoryInAll bounds what the calls that are served at a time may take, by their charges, in bytes; memoryPerID what
	// those of one SPIFFE ID may.
	memoryInAll = 256 << 20
	memoryPerID = 64 << 20
	// memoryNodes bounds what small calls with a node's token take, of all and of one node: heartbeats and watches do not wait for
	// what others do under the same SPIFFE ID, or without a token. A small call is charged smallCall at most. All nodes of a SPIFFE
	// ID may take timesFree times what is then still free, which is three quarters of all if nobody else takes any: enough for the
	// watches of 1,024 nodes, and others find some.
	memoryNodes   = 128 << 20
	timesFree     = 3
	memoryPerNode = 8 << 20
	smallCall     = 512 << 10
	// bodyCopies is how much of a message's size is in memory at the worst: a buffer that has grown, and what is made of it.
	bodyCopies = 3
)

// budget bounds the memory of calls. Each takes what it may need before anything of it is read, waits if that is not there,
// and gives it back when it has been answered. Small calls overtake large ones that wait: a heartbeat must not stand
// behind the layouts of others.
type budget struct {
	inAll, each int64
	times       int64 // a SPIFFE ID may take so many times what is free then; 0: all that is free

	mu    sync.Mutex
	used  int64
	by    map[taker]int64
	byID  map[string]int64 // by SPIFFE ID
	freed chan struct{}    // closed and replaced when something was given back
}

// taker is whose calls are bounded together.
type taker struct {
	id   string // SPIFFE ID
	node string // one of its nodes; empty: all that have it
}

func newBudget(inAll, each, times int64) *budget {
	return &budget{inAll: inAll, each: each, times: times, by: map[taker]int64{}, byID: map[string]int64{}, freed: make(chan struct{})}
}

// take waits until n bytes are free for a call, or ctx ends. More than all there is waits for all.
func (b *budget) take(ctx context.Context, who taker, n int64) (give func(), err error) {
	n = min(n, b.each, b.inAll)
	for {
		b.mu.Lock()
		freed := b.freed
		free := b.inAll - b.used - n
		ok := free >= 0 && b.by[who]+n <= b.each && (b.times == 0 || b.byID[who.id]+n <= b.times*free)
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

func (b *budget) give(who taker, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.charge(who, -n)
	close(b.freed)
	b.freed = make(chan struct{})
}

// charge books n bytes. The caller holds mu.
func (b *budget) charge(who taker, n int64) {
	b.used += n
	if b.by[who] += n; b.by[who] == 0 {
		delete(b.by, who)
	}
	if b.byID[who.id] += n; b.byID[who.id] == 0 {
		delete(b.byID, who.id)
	}
}

// charge is what a call may take: its message as long as it says, or as it may be if it does not say or is compressed, and
// its answer.
func (a Access) charge(r *http.Request) int64 {
	size := r.ContentLength
	if size < 0 || size > a.maxMessage() || compressed(r.Header) {
		size = a.maxMessage()
	}
	return bodyCopies*size + a.answer()
}

// compressed tells whether a message may become larger than what is read of it, in any of the API's protocols.
func compressed(h http.Header) bool {
	for _, name := range []string{"Content-Encoding", "Grpc-Encoding", "Connect-Content-Encoding"} {
		if v := h.Get(name); v != "" && v != "identity" {
			return true
		}
	}
	return h.Get("Content-Type") == "" // a message in the address: it says nothing of itself
}
