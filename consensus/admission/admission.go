// Package admission is the raft leader's memory of the SNs that ask to join and that no operator has admitted.
package admission

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// Who asks without a place in the list is refused as the others are, and can be admitted by its node key.
const (
	// MaxCandidates bounds how many SNs are remembered.
	MaxCandidates = 64
	// MaxOfID bounds how many of them have one SPIFFE ID.
	MaxOfID = 16
	// Pause is how long a candidate waits before it asks again.
	Pause = 3 * time.Second
	// Keep is how long one is remembered that asks no more.
	Keep = 30 * time.Second

	checks    = 64                    // of candidates' signatures at once
	checkEach = 50 * time.Millisecond // one more each so often
)

// Candidate is an SN that waits, as it has proven to be.
type Candidate struct {
	Name     string `json:"name"`
	PeerID   string `json:"peer_id"` // libp2p peer ID of its node key
	SPIFFEID string `json:"spiffe_id"`
	Host     string `json:"host"`
	SinceMS  int64  `json:"since_ms"` // when it began to ask; Unix milliseconds
}

// Candidates are the SNs that wait. They are safe for concurrent use.
type Candidates struct {
	now func() time.Time

	mu   sync.Mutex
	by   map[string]waiting // by peer ID
	full time.Time          // when all checks may be made again
}

type waiting struct {
	Candidate
	last time.Time
}

// New returns an empty memory with a clock.
func New(now func() time.Time) *Candidates {
	return &Candidates{now: now, by: map[string]waiting{}}
}

// Command is what an operator types to admit a node key as the SN of a name.
func Command(name, peerID string) string {
	return "swarmctl admit node " + name + " --peer-id " + peerID
}

// TellsBan reports whether an SN refuses even the connection because a node key is banned. It is the text of state's own error: who
// is banned is told on the connection, which knows no reasons. An SN that lies gains no more than by refusing the join.
func TellsBan(err error, peerID string) bool {
	return strings.Contains(err.Error(), "node key "+peerID+" (") && strings.Contains(err.Error(), " is banned")
}

// MayCheck counts a check of a candidate's signatures; false: there were too many of late.
func (c *Candidates) MayCheck() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if c.full.Before(now) {
		c.full = now
	}
	if c.full.Sub(now) > (checks-1)*checkEach {
		return false
	}
	c.full = c.full.Add(checkEach)
	return true
}

// Note remembers that a candidate asks now. It returns true if it did not ask before.
func (c *Candidates) Note(x Candidate) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	c.sweep(now)
	old, known := c.by[x.PeerID]
	x.SinceMS = now.UnixMilli()
	if known {
		x.SinceMS = old.SinceMS
	} else if len(c.by) >= MaxCandidates || c.ofID(x.SPIFFEID) >= MaxOfID {
		return false
	}
	c.by[x.PeerID] = waiting{x, now}
	return !known
}

// List returns who waits, by name and key.
func (c *Candidates) List() []Candidate {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweep(c.now())
	out := make([]Candidate, 0, len(c.by))
	for _, w := range c.by {
		out = append(out, w.Candidate)
	}
	slices.SortFunc(out, func(a, b Candidate) int {
		if n := strings.Compare(a.Name, b.Name); n != 0 {
			return n
		}
		return strings.Compare(a.PeerID, b.PeerID)
	})
	return out
}

// Forget drops a candidate that waits no more.
func (c *Candidates) Forget(peerID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.by, peerID)
}

func (c *Candidates) sweep(now time.Time) {
	for id, w := range c.by {
		if now.Sub(w.last) > Keep {
			delete(c.by, id)
		}
	}
}

func (c *Candidates) ofID(spiffeID string) int {
	n := 0
	for _, w := range c.by {
		if w.SPIFFEID == spiffeID {
			n++
		}
	}
	return n
}
