package exchange

import (
	"errors"
	"fmt"
)

// gatherer brings the contributions of one leaf together, from the rings, the stash and the own slot. It belongs to the
// goroutine that merges.
type gatherer struct {
	*run
	sources [][]byte // of the leaf gathered last, in plan order
	ringed  []bool   // whose bytes are in a buffer of its ring
	buffers [][]byte // for what is read from files; nil while it was not needed
	copies  bool     // the own leaf is copied, so that it is the same whenever it is looked at
}

func (r *run) newGatherer() *gatherer {
	n := len(r.who)
	return &gatherer{run: r, sources: make([][]byte, n), ringed: make([]bool, n), buffers: make([][]byte, n), copies: r.witnessed()}
}

func (g *gatherer) release() {
	for _, b := range g.buffers {
		if b != nil {
			putLeaf(b)
		}
	}
}

// gather takes one leaf of every contributor, in plan order, and calls use, which finds them in sources. The caller gives them
// back. It returns errEnded when the attempt has ended, the error of use, or why the own leaf could not be read, which it has
// told the attempt.
func (g *gatherer) gather(leaf int, use func() error) error {
	g.does(&g.merging)
	own := -1
	for s, i := range g.who {
		if i == g.Self {
			own = s
		} else if !g.take(s, leaf) {
			return errEnded
		}
	}
	if own < 0 {
		return use()
	}
	if done, err := g.lendOwn(own, leaf, use); done {
		return err
	}
	b := g.buffer(own, leaf)
	if err := readLeaf(g.slots.Local, g.Layout, leaf, b); err != nil {
		return g.unread(err)
	}
	if err := g.travelOwn(leaf, b); errors.Is(err, errChanged) {
		return g.unread(err)
	} else if err != nil {
		return err
	}
	g.sources[own] = b
	return use()
}

// errEnded is that the attempt ended while a contribution was awaited.
var errEnded = errors.New("the attempt has ended")

// lendOwn calls use with the own leaf where it lies; false if that can't be.
func (g *gatherer) lendOwn(own, leaf int, use func() error) (bool, error) {
	if g.copies {
		return false, nil
	}
	var used error
	lent, err := g.lend(g.slots.Local, leaf, func(b []byte) {
		g.sources[own] = b
		used = use()
		g.sources[own] = nil
	})
	if err != nil {
		return true, g.unread(err)
	}
	return lent, used
}

func (g *gatherer) unread(err error) error {
	g.fail(g.Self, fmt.Sprintf("read own weights: %v", err), err)
	return err
}

// take waits for the leaf of a contributor. Leaves come in order, each either to the ring or, known before any later one
// is in the ring, to the stash.
func (g *gatherer) take(s, leaf int) bool {
	i := g.who[s]
	in := g.inbound[i]
	for {
		if g.progress.stash.Has(i, leaf) {
			b := g.buffer(s, leaf)
			if err := g.progress.stash.Get(i, leaf, b); err != nil {
				g.fail(g.Self, fmt.Sprintf("read contributions: %v", err), err)
				return false
			}
			g.sources[s], g.ringed[s] = b, false
			return true
		}
		if in.next.buf != nil && in.next.leaf == leaf {
			g.sources[s], g.ringed[s] = in.next.buf[:g.Layout.LeafLen(leaf)], true
			return true
		}
		if in.next.buf != nil { // A later one: this one was stashed in between.
			continue
		}
		g.merging.rests()
		select {
		case in.next = <-in.full:
		case <-in.stashed:
		case <-g.ctx.Done():
			return false
		}
		g.does(&g.merging)
	}
}

func (g *gatherer) buffer(s, leaf int) []byte {
	if g.buffers[s] == nil {
		g.buffers[s] = getLeaf(g.Layout)
	}
	return g.buffers[s][:g.Layout.LeafLen(leaf)]
}

// giveBack lets the contributors' buffers be filled again.
func (g *gatherer) giveBack() {
	for s, i := range g.who {
		if g.ringed[s] {
			in := g.inbound[i]
			in.free <- in.next.buf
			in.next, g.ringed[s] = piece{}, false
		}
	}
}
