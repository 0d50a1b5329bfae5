package figures

import (
	"context"
	"sync"
)

// asker asks what may never answer: one question at a time, whose answer goes to all who wait for it.
type asker[T any] struct {
	ask func() T

	mu      sync.Mutex
	pending *question[T] // nil: none
}

// question is one that was asked.
type question[T any] struct {
	answered chan struct{}
	answer   T // once answered is closed
}

// begin asks, unless that is under way.
func (a *asker[T]) begin() *question[T] {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pending != nil {
		return a.pending
	}
	q := &question[T]{answered: make(chan struct{})}
	a.pending = q
	go func() {
		q.answer = a.ask()
		a.mu.Lock()
		a.pending = nil
		a.mu.Unlock()
		close(q.answered)
	}()
	return q
}

// wait waits for the answer; the zero value: there is none before ctx ends.
func (q *question[T]) wait(ctx context.Context) (none T) {
	select {
	case <-q.answered:
		return q.answer
	case <-ctx.Done():
		return none
	}
}
