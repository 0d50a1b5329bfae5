package leafio

import "github.com/swarmd/swarmd/merge"

// minRing is how many leaves of one contributor wait at least to be merged.
const minRing = 4

// Ring holds the leaves of one contributor in order, but for those in the spill, between the goroutine that receives and the one that
// merges.
type Ring struct {
	layout  *merge.Layout
	full    chan piece
	free    chan []byte   // buffers that come back
	spilled chan struct{} // has an entry when a leaf went to the spill since the last look
	next    piece         // taken from full and not given back; of the goroutine that merges
	made    int           // buffers; of the goroutine that receives
}

// piece is a leaf of a contributor in a buffer of its ring.
type piece struct {
	leaf int
	buf  []byte
}

// NewRing returns one for as many leaves as come together.
func NewRing(l *merge.Layout) *Ring {
	n := max(minRing, PerBundle(l))
	return &Ring{layout: l, full: make(chan piece, n), free: make(chan []byte, n), spilled: make(chan struct{}, 1)}
}

// Buffer returns one to receive into; nil: all are in use.
func (r *Ring) Buffer() []byte {
	if r.made < cap(r.full) {
		r.made++
		return Room(r.layout)
	}
	select {
	case buf := <-r.free:
		return buf
	default:
		return nil
	}
}

// Freed gives buffers that come back, to who receives.
func (r *Ring) Freed() <-chan []byte { return r.free }

// Put adds a leaf in one of the buffers. It never blocks: there are not more buffers than places.
func (r *Ring) Put(leaf int, buf []byte) { r.full <- piece{leaf, buf} }

// Wake lets who waits for a leaf look into the spill.
func (r *Ring) Wake() {
	select {
	case r.spilled <- struct{}{}:
	default: // It is to look anyway.
	}
}

// Empty reports whether no leaf waits.
func (r *Ring) Empty() bool { return len(r.full) == 0 }

// Peek returns the leaf if it is the next one; later is whether the next one is behind it.
func (r *Ring) Peek(leaf int) (b []byte, later bool) {
	switch {
	case r.next.buf == nil:
		return nil, false
	case r.next.leaf == leaf:
		return r.next.buf[:r.layout.LeafLen(leaf)], false
	}
	return nil, true
}

// Wait blocks until the next leaf has come, or one has gone to the spill; false: neither before done was closed.
func (r *Ring) Wait(done <-chan struct{}) bool {
	select {
	case r.next = <-r.full:
	case <-r.spilled:
	case <-done:
		return false
	}
	return true
}

// Release lets the buffer of the next leaf be filled again.
func (r *Ring) Release() {
	r.free <- r.next.buf
	r.next = piece{}
}

// Drain calls keep with all leaves that wait. Nobody else uses the ring any more.
func (r *Ring) Drain(keep func(leaf int, b []byte)) {
	if r.next.buf != nil {
		keep(r.next.leaf, r.next.buf[:r.layout.LeafLen(r.next.leaf)])
	}
	for len(r.full) > 0 {
		p := <-r.full
		keep(p.leaf, p.buf[:r.layout.LeafLen(p.leaf)])
	}
}
