// Package nonce keeps the challenges that a server has given out: what is signed over one was signed since.
package nonce

import (
	"crypto/rand"
	"crypto/sha256"
	"slices"
	"sync"
	"time"

	"github.com/swarmd/swarmd/consensus/ledger"
)

const (
	size = 32
	life = time.Minute
)

// PerCaller and InAll bound the nonces that are good. Registrations and joins are rare: these bounds hold thousands of nodes
// that start at once, and one hostile peer that asks without end only pushes out its own nonces.
const (
	PerCaller = 512
	InAll     = 8192
)

// Table is the bounded table of challenges that a server has given out: each is valid once, for a minute, for the caller
// that asked. It is safe for concurrent use.
type Table struct {
	now func() time.Time

	// mu guards what follows.
	mu    sync.Mutex
	live  map[[size]byte]Nonce
	count map[string]int
	asked map[asker]int
	order [][size]byte // oldest first; may name nonces that are used up
}

// Nonce is what is known of one.
type Nonce struct {
	Head ledger.Head // of the ledger when it was given to an operator

	asker
	born time.Time
}

// asker is who wants a nonce, and the caller that passes it on.
type asker struct {
	caller string
	who    [sha256.Size]byte // a hash: what is hashed may be long
}

// New returns an empty table with a clock.
func New(now func() time.Time) *Table {
	return &Table{now: now, live: map[[size]byte]Nonce{}, count: map[string]int{}, asked: map[asker]int{}}
}

// Issue makes a nonce for the caller, pushing out the caller's oldest one when it has too many.
func (n *Table) Issue(caller string) []byte { return n.IssueFor(caller, "") }

// IssueFor is Issue for who asks through the caller. When the caller has too many, the oldest one of the asker gives way that has
// most of them.
func (n *Table) IssueFor(caller, who string) []byte { return n.IssueAt(caller, who, ledger.Head{}) }

// IssueAt is IssueFor for an operator, who signs the ledger's end together with the nonce.
func (n *Table) IssueAt(caller, who string, head ledger.Head) []byte {
	by := asker{caller, sha256.Sum256([]byte(who))}
	var b [size]byte
	_, _ = rand.Read(b[:]) // never fails, by its contract
	n.mu.Lock()
	defer n.mu.Unlock()
	n.expireLocked()
	if n.count[caller] >= PerCaller {
		n.dropOldestLocked(func(x asker) int {
			if x.caller != caller {
				return 0
			}
			return n.asked[x]
		})
	}
	if len(n.live) >= InAll {
		n.dropOldestLocked(func(asker) int { return 1 })
	}
	n.live[b] = Nonce{asker: by, born: n.now(), Head: head}
	n.count[caller]++
	n.asked[by]++
	n.order = append(n.order, b)
	n.compactLocked()
	return b[:]
}

// Redeem uses the nonce up and reports whether it was valid for the caller. A nonce that was shown by the wrong caller
// is used up too.
func (n *Table) Redeem(caller string, value []byte) bool {
	got, ok := n.Take(value)
	return ok && got.caller == caller
}

// Take uses a nonce up, whoever shows it, and reports whether it was valid.
func (n *Table) Take(value []byte) (Nonce, bool) {
	if len(value) != size {
		return Nonce{}, false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.expireLocked()
	got, ok := n.live[[size]byte(value)]
	n.dropLocked([size]byte(value))
	return got, ok
}

func (n *Table) expireLocked() {
	cut := n.now().Add(-life)
	for len(n.order) > 0 {
		if got, ok := n.live[n.order[0]]; ok && got.born.After(cut) {
			return
		}
		n.dropLocked(n.order[0])
		n.order = n.order[1:]
	}
}

// compactLocked forgets the order of nonces that are used up, so that redeeming without end costs no memory.
func (n *Table) compactLocked() {
	if len(n.order) <= 2*len(n.live)+64 {
		return
	}
	n.order = slices.DeleteFunc(n.order, func(b [size]byte) bool {
		_, ok := n.live[b]
		return !ok
	})
}

// dropOldestLocked drops the oldest nonce of those askers that have the most, more than none.
func (n *Table) dropOldestLocked(has func(asker) int) {
	oldest, most := -1, 0
	for i, b := range n.order {
		if got, ok := n.live[b]; ok && has(got.asker) > most {
			oldest, most = i, has(got.asker)
		}
	}
	if oldest >= 0 {
		n.dropLocked(n.order[oldest])
		n.order = slices.Delete(n.order, oldest, oldest+1)
	}
}

func (n *Table) dropLocked(b [size]byte) {
	got, ok := n.live[b]
	if !ok {
		return
	}
	delete(n.live, b)
	if n.count[got.caller]--; n.count[got.caller] <= 0 {
		delete(n.count, got.caller)
	}
	if n.asked[got.asker]--; n.asked[got.asker] <= 0 {
		delete(n.asked, got.asker)
	}
}
