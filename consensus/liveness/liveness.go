// Package liveness finds which nodes a leader has heard too long ago.
package liveness

import (
	"sync"
	"time"

	"github.com/swarmd/swarmd/consensus/state"
)

const (
	// many is the number of nodes from which on silence of most of them says that the host or the link is busy, rather than that they
	// are all gone; who is silent then counts as dead after busyTimes timeouts.
	many      = 16
	busyTimes = 3
)

// Tracker knows when each node was last heard. It is safe for concurrent use.
type Tracker struct {
	timeout time.Duration
	self    string

	mu    sync.Mutex
	begin time.Time            // when this leader's term began
	last  map[string]time.Time // by node name
	since map[string]int64     // LiveSinceMS of nodes last seen alive in the state
}

// New returns a tracker that takes self for alive always, and others after a silence of timeout for dead.
func New(timeout time.Duration, self string) *Tracker {
	return &Tracker{timeout: timeout, self: self, last: map[string]time.Time{}, since: map[string]int64{}}
}

// Begin forgets all that was heard: a new term of leadership begins now.
func (l *Tracker) Begin(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begin = now
	clear(l.last)
	clear(l.since)
}

// Touch records a heartbeat of a node.
func (l *Tracker) Touch(node string, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last[node] = at
}

// Changes returns the changes of liveness to commit. Nobody is found dead in the first two timeouts of a term, as silence
// then may only mean that nodes have not found the new leader yet.
func (l *Tracker) Changes(view *state.State, now time.Time) []state.SetLive {
	l.mu.Lock()
	defer l.mu.Unlock()
	var changes []state.SetLive
	timeout := l.timeout
	if l.busy(view, now) {
		timeout *= busyTimes
	}
	for _, n := range view.NodesByRole("") {
		if view.Banned(n.PeerID) != nil || n.Left() {
			continue // dead by decision or by its own word, whatever is heard of it
		}
		if n.Live && l.since[n.Name] != n.LiveSinceMS {
			// It registered, or this leader sees it for the first time: that is a sign of life too.
			l.since[n.Name] = n.LiveSinceMS
			if l.last[n.Name].IsZero() || now.Sub(l.last[n.Name]) > l.timeout {
				l.last[n.Name] = now
			}
		}
		heard, known := l.last[n.Name]
		alive := n.Name == l.self || known && now.Sub(heard) <= timeout
		if n.Live && !alive && now.Sub(l.begin) >= 2*l.timeout || !n.Live && alive {
			changes = append(changes, state.SetLive{Node: n.Name, Live: alive, AtMS: now.UnixMilli()})
		}
	}
	for name := range l.last {
		if view.Nodes[name] == nil && now.Sub(l.last[name]) > l.timeout {
			delete(l.last, name)
			delete(l.since, name)
		}
	}
	return changes
}

// busy reports whether more than half of many nodes that live were heard too long ago for one that is well: more than half of the
// timeout. The caller holds mu.
func (l *Tracker) busy(view *state.State, now time.Time) bool {
	live, late := 0, 0
	for _, n := range view.NodesByRole("") {
		if n.Name == l.self || !n.Live {
			continue
		}
		live++
		if heard, known := l.last[n.Name]; known && now.Sub(heard) > l.timeout/2 {
			late++
		}
	}
	return live >= many && 2*late > live
}
