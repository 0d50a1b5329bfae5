// Package quota bounds what callers take of an SN: memory at a time, and proposals over time.
package quota

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/swarmd/swarmd/consensus/state"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/bucket"
)

// What a node may have this SN propose. The leader's own proposals, reports and what operators ask for do not count.
const (
	proposalBurst = 128 // proposals for one node
	proposalEach  = 250 * time.Millisecond
	layoutBurst   = 16 << 20 // bytes of layouts that one node brings
	layoutEach    = time.Second / (32 << 10)
	registerBurst = 32 // registrations of one node key
	registerEach  = time.Second
	entryBurst    = 2 * state.MaxNodesOfID // registrations under one SPIFFE ID
	entryEach     = time.Second / 16
	dialBurst     = 32 // nodes of one SPIFFE ID that are dialled back
	dialEach      = 10 * time.Second
	addressBurst  = 4 // addresses at which a node key is dialled back
	addressEach   = 15 * time.Minute
	moveBurst     = 32 // addresses to which nodes of one SPIFFE ID have moved and are dialled back
	moveEach      = time.Minute
)

// maxBuckets bounds the buckets that are kept: full ones are as good as none.
const maxBuckets = 16 << 10

// ErrTooFast reports a node that asks for more commands, or larger ones, than it may.
var ErrTooFast = errors.New("too many requests of this node")

// Rates hold what has been taken lately, by rate and subject. Safe for concurrent use.
type Rates struct {
	now func() time.Time

	mu    sync.Mutex
	taken bucket.Set[string]
}

// NewRates returns rates of which nothing is taken, by a clock.
func NewRates(now func() time.Time) *Rates { return &Rates{now: now} }

// take takes n tokens of a subject's, or tells when they are there.
func (r *Rates) take(subject string, of bucket.Rate, n int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	wait, known := r.taken.Take(r.now(), maxBuckets, subject, of, n)
	switch {
	case !known:
		return fmt.Errorf("%w: this SN has too many to count", ErrTooFast)
	case wait > 0:
		return fmt.Errorf("%w: it may go on in %s", ErrTooFast, wait.Round(time.Millisecond))
	}
	return nil
}

// TakeRegistration counts a registration that was proven. A key that is registered with that SPIFFE ID already uses up nothing of
// the others with it: nodes register again whenever their SVIDs are renewed.
func (r *Rates) TakeRegistration(id identity.ID, peerID string, known bool) error {
	if err := r.take("key "+peerID, bucket.Rate{Burst: registerBurst, Each: registerEach}, 1); err != nil || known {
		return err
	}
	return r.take("id "+id.String(), bucket.Rate{Burst: entryBurst, Each: entryEach}, 1)
}

// TakeDialBack counts a dial to a node of a SPIFFE ID that has registered.
func (r *Rates) TakeDialBack(id string) error {
	return r.take("dial "+id, bucket.Rate{Burst: dialBurst, Each: dialEach}, 1)
}

// TakeAddress counts an address at which a node key was not dialled back before.
func (r *Rates) TakeAddress(peerID string) error {
	return r.take("address "+peerID, bucket.Rate{Burst: addressBurst, Each: addressEach}, 1)
}

// TakeMove counts such an address of a node key that had another one before, for all keys of a SPIFFE ID together: a shared one has many.
func (r *Rates) TakeMove(id string) error {
	return r.take("move "+id, bucket.Rate{Burst: moveBurst, Each: moveEach}, 1)
}

// TakeProposal counts a proposal for a node.
func (r *Rates) TakeProposal(node string) error {
	return r.take("node "+node, bucket.Rate{Burst: proposalBurst, Each: proposalEach}, 1)
}

// TakeLayout counts the bytes of a layout that a node brings.
func (r *Rates) TakeLayout(node string, bytes int) error {
	return r.take("layout "+node, bucket.Rate{Burst: layoutBurst, Each: layoutEach}, bytes)
}
