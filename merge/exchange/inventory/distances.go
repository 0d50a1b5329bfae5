package inventory

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/swarmd/swarmd/merge"
	"github.com/swarmd/swarmd/merge/exchange/wire"
)

// Why what a peer says of distances is not taken.
var (
	ErrNorm      = errors.New("the norm that it signed is not that of what it sent")
	errOtherNorm = errors.New("its norm is not that of the last attempt")
	errDistances = errors.New("its distances do not fit the norms that contributors signed")
	errOtherSums = errors.New("its distances are not those of the last attempt")
)

// Distances is what a two-pass method knows of the contributors' whole models before it merges. It outlives a failed attempt. Sums and
// squared belong to the goroutine that merges the own shard.
type Distances struct {
	changed *Signal
	sums    []*merge.Distances // by owner; nil: not a shard of the task, or nothing is added yet
	squared []float64          // sums of squares of contributors' updates over the leaves that are in the sums

	mu     sync.Mutex    // guards all below
	added  int           // leaves of the task, from its first, that are in the spill and in the sums
	shares []*wire.Share // by owner; nil: not known yet
	norms  []*wire.Norm  // by participant, of its update over the own shard
	terms  []float64     // sums of squares of the own update, by leaf; below 0: not known
}

// NewDistances returns those of so many participants, over a model of so many leaves. It wakes changed when something is told.
func NewDistances(participants, leaves int, changed *Signal) *Distances {
	return &Distances{
		changed: changed, shares: make([]*wire.Share, participants), norms: make([]*wire.Norm, participants),
		terms: slices.Repeat([]float64{-1}, leaves),
	}
}

// Count returns how many leaves of the task are in the sums.
func (d *Distances) Count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.added
}

// SetCount tells that so many leaves of the task are in the sums.
func (d *Distances) SetCount(leaves int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.added = leaves
}

// Open prepares the sums over the shards of these owners, unless they are there.
func (d *Distances) Open(l *merge.Layout, owners []int, contributors int) {
	if d.sums != nil {
		return
	}
	d.sums, d.squared = make([]*merge.Distances, len(d.shares)), make([]float64, contributors)
	for _, owner := range owners {
		d.sums[owner] = merge.NewDistances(l, contributors)
	}
}

// Add adds a leaf of an owner's shard to the sums, contribution by contribution.
func (d *Distances) Add(owner, leaf int, sources [][]byte) error {
	return d.sums[owner].Add(leaf, sources)
}

// AddSquares adds what a leaf of the own shard adds to the contributors' norms.
func (d *Distances) AddSquares(squares []float64) {
	for s, v := range squares {
		d.squared[s] += v
	}
}

// Norm returns what the norm of a contributor must be over the leaves that are in the sums.
func (d *Distances) Norm(s int) float64 { return wire.Bounded(d.squared[s]) }

// Share returns the share of an owner of a shard of the task, whose contributors' norms are known.
func (d *Distances) Share(owner int, who []int) wire.Share {
	return wire.Share{Sums: d.sums[owner].Sums(), Norms: d.normsOf(who)}
}

// Reset throws the sums away, which are of no use.
func (d *Distances) Reset() {
	d.sums, d.squared = nil, nil
	d.SetCount(0)
}

// SetShare keeps what the owner's shard adds to the distances.
func (d *Distances) SetShare(owner int, s wire.Share) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if old := d.shares[owner]; old != nil {
		if !old.Equal(s) {
			return errOtherSums
		}
		return nil
	}
	d.shares[owner] = &s
	d.changed.Wake()
	return nil
}

// ShareOf returns the owner's share, nil if it is not known, and then a channel that is closed when something is.
func (d *Distances) ShareOf(owner int) (*wire.Share, <-chan struct{}) {
	changed := d.changed.next()
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.shares[owner], changed
}

// SetNorm keeps what a participant says of its update over the own shard.
func (d *Distances) SetNorm(i int, n wire.Norm) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if old := d.norms[i]; old != nil {
		if *old != n {
			return errOtherNorm
		}
		return nil
	}
	d.norms[i] = &n
	d.changed.Wake()
	return nil
}

// NormOf returns a participant's norm, nil if it is not known, and then a channel that is closed when something is.
func (d *Distances) NormOf(i int) (*wire.Norm, <-chan struct{}) {
	changed := d.changed.next()
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.norms[i], changed
}

// normsOf returns those of contributors, all of which are known.
func (d *Distances) normsOf(who []int) []wire.Norm {
	d.mu.Lock()
	defer d.mu.Unlock()
	norms := make([]wire.Norm, 0, len(who))
	for _, i := range who {
		norms = append(norms, *d.norms[i])
	}
	return norms
}

// SetTerm keeps the sum of squares of the own update over a leaf, which goes into what the leaf's owner is told.
func (d *Distances) SetTerm(leaf int, squares float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.terms[leaf] = squares
}

// Term returns the sum of squares of the own update over a leaf; below 0: it is not known.
func (d *Distances) Term(leaf int) float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.terms[leaf]
}

// Claimed returns the share that an owner of a shard of the task must have told, with the sums that this node has. Its norms are
// everybody's: their contributors have signed them.
func (d *Distances) Claimed(owner int) wire.Share {
	told, _ := d.ShareOf(owner)
	return wire.Share{Sums: d.sums[owner].Sums(), Norms: told.Norms}
}

// CheckTriangles holds the distances in a share of a shard of so many bytes to the norms in it, for what the triangle inequality says.
// Name returns what a contributor is called.
func CheckTriangles(sh wire.Share, bytes int64, name func(contributor int) string) error {
	slack, pair := rounding(bytes), 0
	for a := range sh.Norms {
		for b := a + 1; b < len(sh.Norms); b++ {
			low, high := between(sh.Norms[a].Squares, sh.Norms[b].Squares, slack)
			if d := sh.Sums[pair]; d < low || d > high {
				return fmt.Errorf("%w: %g between %s and %s, where %g to %g is possible", errDistances, d, name(a), name(b), low, high)
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
