package bucket

import "sync"

// Places bounds how much of each of many is under way at a time. The zero value has all places free. It is safe for concurrent use.
type Places[K comparable] struct {
	mu    sync.Mutex
	taken map[K]int
}

// Take takes one of the places that one has, until give is called, once; ok is false if none is free.
func (p *Places[K]) Take(one K, most int) (give func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken[one] >= most {
		return nil, false
	}
	if p.taken == nil {
		p.taken = map[K]int{}
	}
	p.taken[one]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.taken[one]--; p.taken[one] == 0 {
			delete(p.taken, one)
		}
	}, true
}

// Taken returns how many places are taken by all together.
func (p *Places[K]) Taken() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.taken {
		n += k
	}
	return n
}
