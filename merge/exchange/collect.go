package exchange

import (
	"errors"
	"io"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange/inventory"
	"github.com/swarmd/swarmd/merge/exchange/leafio"
)

// errEnded is that the attempt ended while a contribution was awaited.
var errEnded = errors.New("the attempt has ended")

// collector brings the contributions of one leaf together, from the rings, the spill and the own slot. It belongs to the
// goroutine that merges.
type collector struct {
	plan     *assignment
	codec    *leafio.Codec
	local    io.ReaderAt // the own contribution
	progress *progress
	rings    []*leafio.Ring // by participant; nil for self
	work     *task
	done     <-chan struct{} // closed when the attempt has ended

	sources [][]byte // of the leaf collected last, in plan order
	ringed  []bool   // whose bytes are in a buffer of its ring
	buffers [][]byte // for what is read from files; nil while it was not needed
	copies  bool     // the own leaf is copied, so that it is the same whenever it is looked at
}

// open makes room for what collect needs; close frees it.
func (c *collector) open() {
	n := len(c.plan.contributors)
	c.sources, c.ringed, c.buffers = make([][]byte, n), make([]bool, n), make([][]byte, n)
}

func (c *collector) close() {
	for _, b := range c.buffers {
		if b != nil {
			leafio.Free(b)
		}
	}
	c.buffers = nil
}

// ended reports whether the attempt has.
func (c *collector) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// collect takes one leaf of every contributor, in plan order, and calls use, which finds them in sources. The caller gives them
// back. It returns errEnded when the attempt has ended, the error of use, or a fault: why a leaf could not be read.
func (c *collector) collect(leaf int, use func() error) error {
	c.work.busy()
	own := -1
	for s, i := range c.plan.contributors {
		if i == c.plan.Self {
			own = s
		} else if err := c.take(s, leaf); err != nil {
			return err
		}
	}
	if own < 0 {
		return use()
	}
	if done, err := c.lendLocal(own, leaf, use); done {
		return err
	}
	b := c.buffer(own, leaf)
	if err := leafio.Read(c.local, c.plan.Layout, leaf, b); err != nil {
		return localReadFault(err)
	}
	if err := roundTripLocal(c.codec, c.progress.record, leaf, b); errors.Is(err, inventory.ErrChanged) {
		return localReadFault(err)
	} else if err != nil {
		return err
	}
	c.sources[own] = b
	return use()
}

// localReadFault is why the own contribution could not be read.
func localReadFault(err error) error { return &leafio.Fault{What: "read own weights", Cause: err} }

// roundTripLocal makes of a leaf of the own contribution what the others have of it, and notes that.
func roundTripLocal(c *leafio.Codec, r *inventory.Record, leaf int, b []byte) error {
	if r == nil {
		return c.RoundTrip(leaf, b, nil)
	}
	var changed error
	if err := c.RoundTrip(leaf, b, func(_ int, sent []byte) { changed = r.Send(leaf, sent) }); err != nil {
		return err
	}
	return changed
}

// lendLocal calls use with the own leaf where it lies; false if that can't be.
func (c *collector) lendLocal(own, leaf int, use func() error) (bool, error) {
	if c.copies {
		return false, nil
	}
	var used error
	lent, err := c.codec.Lend(c.local, leaf, func(b []byte) {
		c.sources[own] = b
		used = use()
		c.sources[own] = nil
	})
	if err != nil {
		return true, localReadFault(err)
	}
	return lent, used
}

// take waits for the leaf of a contributor. Leaves come in order, each either to the ring or, known before any later one
// is in the ring, to the spill.
func (c *collector) take(s, leaf int) error {
	i := c.plan.contributors[s]
	ring := c.rings[i]
	for {
		if c.progress.spill.Has(i, leaf) {
			b := c.buffer(s, leaf)
			if err := c.progress.spill.Get(i, leaf, b); err != nil {
				return &leafio.Fault{What: "read contributions", Cause: err}
			}
			c.sources[s], c.ringed[s] = b, false
			return nil
		}
		b, later := ring.Peek(leaf)
		if b != nil {
			c.sources[s], c.ringed[s] = b, true
			return nil
		}
		if later { // This one was spilled in between.
			continue
		}
		c.work.idle()
		if !ring.Wait(c.done) {
			return errEnded
		}
		c.work.busy()
	}
}

func (c *collector) buffer(s, leaf int) []byte {
	if c.buffers[s] == nil {
		c.buffers[s] = leafio.Room(c.plan.Layout)
	}
	return c.buffers[s][:c.plan.Layout.LeafLen(leaf)]
}

// release lets the contributors' buffers be filled again.
func (c *collector) release() {
	for s, i := range c.plan.contributors {
		if c.ringed[s] {
			c.rings[i].Release()
			c.ringed[s] = false
		}
	}
}

// spill writes what came of one leaf of the others to the spill.
func (c *collector) spill(leaf int) error {
	for s, i := range c.plan.contributors {
		if !c.ringed[s] {
			continue
		}
		if err := c.progress.spill.Put(i, leaf, c.sources[s]); err != nil {
			return &leafio.Fault{What: "keep contributions", Cause: err}
		}
	}
	return nil
}

// squares measures the contributors' updates over the leaf, from the committed model, which may be nil.
func (c *collector) squares(leaf int, base []byte) []float64 {
	sums := make([]float64, len(c.sources))
	for s := range c.sources {
		sums[s] = merge.UpdateSquares(c.plan.Layout, leaf, c.sources[s], base)
	}
	return sums
}
