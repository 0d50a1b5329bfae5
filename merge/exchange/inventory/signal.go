package inventory

import "sync"

// Signal wakes whoever waits for something that this node's own goroutines bring about.
type Signal struct {
	mu sync.Mutex
	ch chan struct{}
}

// NewSignal returns one that has woken nobody yet.
func NewSignal() *Signal { return &Signal{ch: make(chan struct{})} }

// next returns a channel that is closed when something has changed. Who waits takes it before looking whether it has to.
func (s *Signal) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ch
}

// Wake tells that something has changed.
func (s *Signal) Wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.ch)
	s.ch = make(chan struct{})
}
