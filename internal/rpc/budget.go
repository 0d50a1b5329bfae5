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
	// what others do under the same SPIFFE ID, or without a token. A small call is charged smallCall at most.
	memoryNodes   = 128 << 20
	memoryPerNode = 8 << 20
	smallCall     = 512 << 10
	// bodyCopies is how much of a message's size is in memory at the worst: a buffer that has grown, and what is made of it.
	bodyCopies = 3
)

// budget bounds the memory of calls. Each takes what it may need before anything of it is read, waits if that is not there,
// and gives it back when it has been answered. Small calls overtake large ones that wait: a heartbeat must not stand
// behind the layouts of others.
type budget struct {
	inAll, perID int64

	mu    sync.Mutex
	used  int64
	by    map[string]int64 // by SPIFFE ID
	freed chan struct{}    // closed and replaced when something was given back
}

func newBudget(inAll, perID int64) *budget {
	return &budget{inAll: inAll, perID: perID, by: map[string]int64{}, freed: make(chan struct{})}
}

// take waits until n bytes are free for a call of this SPIFFE ID, or ctx ends. More than all there is waits for all.
func (b *budget) take(ctx context.Context, id string, n int64) (give func(), err error) {
	n = min(n, b.perID, b.inAll)
	for {
		b.mu.Lock()
		freed := b.freed
		ok := b.used+n <= b.inAll && b.by[id]+n <= b.perID
		if ok {
			b.used += n
			b.by[id] += n
		}
		b.mu.Unlock()
		if ok {
			return func() { b.give(id, n) }, nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return nil, ErrBusy
		}
	}
}

func (b *budget) give(id string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	if b.by[id] -= n; b.by[id] == 0 {
		delete(b.by, id)
	}
	close(b.freed)
	b.freed = make(chan struct{})
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
