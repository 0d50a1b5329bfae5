package exchange

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange/wire"
)

// A method that needs distances believes each owner's share of them: nobody else has seen the owner's shard of others. What
// bounds a lie is that each contributor signs the norm of its update over each shard, which the owner of that shard checks
// against what it got, and passes on with its share. A distance is then held to the triangle inequality by everybody.

// Normed identifies what a contributor says of its update over one owner's shard.
type Normed struct {
	Plan               merge.Digest // of Planned
	Contributor, Owner int          // indices in the plan
	Squares            float64      // the sum of squares of the update, see merge.UpdateSquares
}

// NormMessage returns the canonical bytes that a contributor's node key signs.
func NormMessage(n Normed) []byte {
	b := append([]byte("swarmd merge norm 1\x00"), n.Plan[:]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(n.Contributor)) //nolint:gosec // an index of at most MaxParticipants
	b = binary.LittleEndian.AppendUint32(b, uint32(n.Owner))       //nolint:gosec // likewise
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(n.Squares))
}

// signNorm says the own norm over the shard of owner j.
func (r *run) signNorm(j int, squares float64) (wire.Norm, error) {
	n := wire.Norm{Squares: wire.Bounded(squares)}
	sig, err := r.hub.cfg.Sign(NormMessage(Normed{r.plan, r.Self, j, n.Squares}))
	if err == nil && copy(n.Sig[:], sig) != wire.SealSize {
		err = fmt.Errorf("a signature of %d bytes, want %d", len(sig), wire.SealSize)
	}
	if err != nil {
		return wire.Norm{}, fmt.Errorf("sign the norm of the own update: %w", err)
	}
	return n, nil
}

// signed holds a norm to the key of its contributor i.
func (r *run) signed(n wire.Norm, i, j int) error {
	return r.hub.cfg.Verify(r.Participants[i].Node, NormMessage(Normed{r.plan, i, j, n.Squares}), n.Sig[:])
}

// tellNorm sends owner j the norm of the own update over its shard: of what it gets, so with what shortening leaves of it.
func (v *visitor) tellNorm() error {
	if !v.method.Distances() {
		return nil
	}
	var squares float64
	for _, leaf := range v.owned[v.j].All() {
		squares += v.progress.term(leaf)
	}
	n, err := v.signNorm(v.j, squares)
	if err != nil {
		return unreadError{err}
	}
	return v.c.Write(n.Append(wire.NormHeader(v.Self).Append(nil)), false)
}

// measureRest measures what this node sent to j before it was started again, and says meanwhile that it lives.
func (v *visitor) measureRest() error {
	said := time.Now()
	for _, leaf := range v.tasks[v.j].All() {
		if v.measured(leaf) {
			continue
		}
		if v.ctx.Err() != nil {
			return nil // The reader knows why.
		}
		if err := v.measureAlone(leaf); err != nil {
			return unreadError{err}
		}
		if now := time.Now(); now.Sub(said) >= v.hub.cfg.StallTimeout/4 {
			said = now
			if err := v.c.Write(wire.Header{Kind: wire.KindWait}.Append(nil), false); err != nil {
				return err
			}
		}
	}
	return nil
}

// measured tells whether all is known that is to be said of an own leaf behind the last one.
func (r *run) measured(leaf int) bool {
	return (!r.method.Distances() || r.progress.term(leaf) >= 0) && (!r.witnessed() || r.progress.sent(leaf))
}

// measureAlone measures a leaf that is not sent.
func (r *run) measureAlone(leaf int) error {
	room := getLeaf(r.Layout)
	defer putLeaf(room)
	b := room[:r.Layout.LeafLen(leaf)]
	if err := readLeaf(r.slots.Local, r.Layout, leaf, b); err != nil {
		return err
	}
	if err := r.travelOwn(leaf, b); err != nil || !r.method.Distances() {
		return err
	}
	return r.term(leaf, b, nil)
}

// term keeps what a leaf of the own contribution, as its owner has it, adds to its norm. Base is nil if it was not read yet.
func (r *run) term(leaf int, x, base []byte) error {
	add := func(base []byte) { r.progress.setTerm(leaf, merge.UpdateSquares(r.Layout, leaf, x, base)) }
	if base != nil {
		add(base)
		return nil
	}
	return r.withBase(leaf, add)
}

// withBase calls use with a leaf of the committed model, nil if there is none.
func (r *run) withBase(leaf int, use func(base []byte)) error {
	if r.slots.Base == nil {
		use(nil)
		return nil
	}
	room := getLeaf(r.Layout)
	defer putLeaf(room)
	base := room[:r.Layout.LeafLen(leaf)]
	if err := r.readBase(leaf, base); err != nil {
		return err
	}
	use(base)
	return nil
}

// takeLast reads the header of a frame that follows on the last leaf of contributor i.
func (r *run) takeLast(i int, c *wire.Conn, want wire.Header) error {
	h, err := c.Next(true)
	for waits := 0; err == nil && h == (wire.Header{Kind: wire.KindWait}) && waits < r.task().Count(); waits++ {
		h, err = c.Next(true) // It measures leaves that it sent before it was started again.
	}
	switch {
	case err != nil:
		return err
	case h.Kind == wire.KindFail:
		r.peerFailed(i, c, h)
		return wire.ErrFrame
	case h != want:
		return wire.Unexpected(h)
	}
	return nil
}

// takeNorm reads what contributor i says of its update over the own shard.
func (r *run) takeNorm(i int, c *wire.Conn) error {
	if !r.method.Distances() {
		return nil
	}
	if err := r.takeLast(i, c, wire.NormHeader(i)); err != nil {
		return err
	}
	n, err := wire.ReadNorm(c)
	if err != nil {
		return err
	}
	if err := r.signed(n, i, r.Self); err != nil {
		return fmt.Errorf("its node key has not signed its norm: %w", err)
	}
	return r.progress.setNorm(i, n)
}

var (
	errNorm      = errors.New("the norm that it signed is not that of what it sent")
	errOtherNorm = errors.New("its norm is not that of the last attempt")
	errDistances = errors.New("its distances do not fit the norms that contributors signed")
)

// addSquares adds one gathered leaf to the norms that the owner works out itself.
func (g *gatherer) addSquares(leaf int) error {
	p := g.progress
	if p.squared == nil {
		p.squared = make([]float64, len(g.who))
	}
	return g.withBase(leaf, func(base []byte) {
		for s, v := range g.squares(leaf, g.sources, base) {
			p.squared[s] += v
		}
	})
}

// holdNorms waits for all contributors' norms and holds them to what they sent: both are sums of the same terms in the same
// order. It returns false when the attempt has ended.
func (r *run) holdNorms() bool {
	for s, i := range r.who {
		if i == r.Self {
			n, err := r.signNorm(i, r.progress.squared[s])
			if err == nil {
				err = r.progress.setNorm(i, n)
			}
			if err != nil {
				r.fail(r.Self, wire.Brief(err), err)
				return false
			}
			continue
		}
		n, changed := r.progress.normOf(i)
		r.merging.rests()
		for n == nil {
			select {
			case <-changed:
			case <-r.ctx.Done():
				return false
			}
			n, changed = r.progress.normOf(i)
		}
		if n.Squares != wire.Bounded(r.progress.squared[s]) {
			r.fail(i, errNorm.Error(), errNorm)
			return false
		}
	}
	r.does(&r.merging)
	return true
}

// checkShare holds an owner's share of the distances to the norms in it, and these to their contributors' keys.
func (r *run) checkShare(j int, sh wire.Share) error {
	for s, i := range r.who {
		if err := r.signed(sh.Norms[s], i, j); err != nil {
			return fmt.Errorf("the norm of %s in its distances: %w", r.Participants[i].Node, err)
		}
	}
	slack := rounding(r.owned[j].Bytes(r.Layout))
	pair := 0
	for s := range r.who {
		for k := s + 1; k < len(r.who); k++ {
			low, high := between(sh.Norms[s].Squares, sh.Norms[k].Squares, slack)
			if d := sh.Sums[pair]; d < low || d > high {
				return fmt.Errorf("%w: %g between %s and %s, where %g to %g is possible",
					errDistances, d, r.Participants[r.who[s]].Node, r.Participants[r.who[k]].Node, low, high)
			}
			pair++
		}
	}
	return nil
}

// rounding bounds the relative error of a sum of squares over a shard of so many bytes: each element adds one rounding at most to
// those of its own term, and there are at least two bytes to an element.
func rounding(bytes int64) float64 { return (float64(bytes/2) + 16) * 0x1p-52 }

// between returns what the squared distance of two updates can be whose sums of squares are x and y. With exact values the
// triangle inequality says (a-b)² to (a+b)², a and b being their roots; slack is the relative error of each of the three sums. What
// is smaller than floating point can tell apart is let through, as is everything where a sum is as large as one may be.
func between(x, y, slack float64) (low, high float64) {
	const tiny = 1e-300
	if x >= wire.MaxSum || y >= wire.MaxSum {
		return 0, math.MaxFloat64
	}
	a, b := math.Sqrt(x), math.Sqrt(y)
	sum, difference := a+b, math.Abs(a-b)
	high = float64(sum*sum)*(1+4*slack) + tiny
	if gap := difference - slack*sum; gap > 0 {
		low = max(0, float64(gap*gap)*(1-4*slack)-tiny)
	}
	return low, high
}
