package rpc

import (
	"crypto/rand"
	"slices"
	"sync"
	"time"

	"github.com/swarmd/swarmd/consensus/ledger"
)

const (
	nonceBytes = 32
	nonceLife  = time.Minute
	// Registrations are rare: these bounds hold thousands of nodes that start at once, and one hostile peer that asks
	// without end only pushes out its own nonces.
	noncesPerCaller = 512
	noncesInAll     = 8192
)

// nonces is the bounded table of challenges that this server has given out: each is valid once, for a minute, for the
// certificate that asked: peers that share a SPIFFE ID can not push out each other's.
type nonces struct {
	now func() time.Time

	// mu guards what follows.
	mu    sync.Mutex
	live  map[[nonceBytes]byte]nonce
	count map[string]int
	order [][nonceBytes]byte // oldest first; may name nonces that are used up
}

type nonce struct {
	caller string
	born   time.Time
	head   ledger.Head // of the ledger when it was given to an operator
}

func newNonces(now func() time.Time) *nonces {
	return &nonces{now: now, live: map[[nonceBytes]byte]nonce{}, count: map[string]int{}}
}

// issue makes a nonce for the caller, pushing out the caller's oldest one when it has too many.
func (n *nonces) issue(caller string) []byte { return n.issueAt(caller, ledger.Head{}) }

// issueAt is issue for an operator, who signs the ledger's end together with the nonce.
func (n *nonces) issueAt(caller string, head ledger.Head) []byte {
	var b [nonceBytes]byte
	_, _ = rand.Read(b[:]) // never fails, by its contract
	n.mu.Lock()
	defer n.mu.Unlock()
	n.expireLocked()
	if n.count[caller] >= noncesPerCaller {
		n.dropOldestLocked(caller)
	}
	if len(n.live) >= noncesInAll {
		n.dropOldestLocked("")
	}
	n.live[b] = nonce{caller: caller, born: n.now(), head: head}
	n.count[caller]++
	n.order = append(n.order, b)
	n.compactLocked()
	return b[:]
}

// redeem uses the nonce up and reports whether it was valid for the caller. A nonce that was shown by the wrong caller
// is used up too.
func (n *nonces) redeem(caller string, value []byte) bool {
	got, ok := n.take(value)
	return ok && got.caller == caller
}

// take uses a nonce up, whoever shows it, and reports whether it was valid.
func (n *nonces) take(value []byte) (nonce, bool) {
	if len(value) != nonceBytes {
		return nonce{}, false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.expireLocked()
	got, ok := n.live[[nonceBytes]byte(value)]
	n.dropLocked([nonceBytes]byte(value))
	return got, ok
}

func (n *nonces) expireLocked() {
	cut := n.now().Add(-nonceLife)
	for len(n.order) > 0 {
		if got, ok := n.live[n.order[0]]; ok && got.born.After(cut) {
			return
		}
		n.dropLocked(n.order[0])
		n.order = n.order[1:]
	}
}

// compactLocked forgets the order of nonces that are used up, so that redeeming without end costs no memory.
func (n *nonces) compactLocked() {
	if len(n.order) <= 2*len(n.live)+64 {
		return
	}
	n.order = slices.DeleteFunc(n.order, func(b [nonceBytes]byte) bool {
		_, ok := n.live[b]
		return !ok
	})
}

func (n *nonces) dropOldestLocked(caller string) {
	for i, b := range n.order {
		if got, ok := n.live[b]; ok && (caller == "" || got.caller == caller) {
			n.dropLocked(b)
			n.order = append(n.order[:i:i], n.order[i+1:]...)
			return
		}
	}
}

func (n *nonces) dropLocked(b [nonceBytes]byte) {
	got, ok := n.live[b]
	if !ok {
		return
	}
	delete(n.live, b)
	if n.count[got.caller]--; n.count[got.caller] <= 0 {
		delete(n.count, got.caller)
	}
}
