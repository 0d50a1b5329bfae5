// Package roster is the raft leader's memory of the other servers.
package roster

import (
	"maps"
	"sync"
	"time"
)

// Roster remembers when the leader last heard from each server. It is safe for concurrent use.
type Roster struct {
	mu    sync.Mutex
	since time.Time // when this server became the leader: nobody can have been silent for longer
	last  map[string]time.Time
	// behind are the servers that lack records of the ledger.
	behind map[string]bool
}

// New returns a roster on which nobody stands.
func New() *Roster { return &Roster{last: map[string]time.Time{}, behind: map[string]bool{}} }

// SetBehind notes whether a server lacks records of the ledger.
func (r *Roster) SetBehind(name string, behind bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if behind {
		r.behind[name] = true
		return
	}
	delete(r.behind, name)
}

// IsBehind reports whether a server lacks records of the ledger.
func (r *Roster) IsBehind(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.behind[name]
}

// Reset begins anew: this server has become the leader.
func (r *Roster) Reset(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since = now
	clear(r.last)
}

// Touch notes that a server was heard of.
func (r *Roster) Touch(name string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last[name] = now
}

// Silence returns for how long a server has not been heard.
func (r *Roster) Silence(name string, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, ok := r.last[name]
	if !ok {
		last = r.since
	}
	return now.Sub(last)
}

// All returns when each server was last heard of.
func (r *Roster) All() map[string]time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.last)
}
