package nodetest

import (
	"slices"
	"syscall"
	"time"
)

// Cut stops all bytes between two nodes, in silence.
func (n *Network) Cut(a, b string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.breakLocked(n.cuts, between(a, b))
}

// HangUp forgets the connection over which two nodes open streams, as hosts do when keep-alives find that it is dead. Streams that are open stay.
func (n *Network) HangUp(a, b string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.linked, between(a, b))
	n.changeLocked()
}

// Deafen stops the bytes that a node gets from another, in silence, not those that it sends there.
func (n *Network) Deafen(name, from string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.breakLocked(n.deaf, pair{name, from})
}

// breakLocked notes a break between two hosts; streams end when it has lasted.
func (n *Network) breakLocked(breaks map[pair]int, p pair) {
	if breaks[p] != 0 || p[0] == p[1] {
		return
	}
	n.count++
	mine := n.count
	breaks[p] = mine
	n.changeLocked()
	link := between(p[0], p[1])
	time.AfterFunc(keepalive, func() {
		n.mu.Lock()
		still := breaks[p] == mine
		n.mu.Unlock()
		if still {
			n.snap(syscall.ETIMEDOUT, func(w *stream) bool { return between(w.ends[0].name, w.ends[1].name) == link })
		}
	})
}

// Stop freezes a node, as SIGSTOP does: what it sends and what is sent to it stops on the way.
func (n *Network) Stop(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.count++
	mine := n.count
	n.stopped[name] = mine
	n.changeLocked()
	time.AfterFunc(keepalive, func() {
		n.mu.Lock()
		still := n.stopped[name] == mine
		n.mu.Unlock()
		if still {
			n.snap(syscall.ETIMEDOUT, func(w *stream) bool { return w.ends[0].name == name || w.ends[1].name == name })
		}
	})
}

// Continue ends a Stop.
func (n *Network) Continue(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.stopped, name)
	n.changeLocked()
}

// Heal ends a Cut and a Deafen.
func (n *Network) Heal(a, b string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.cuts, between(a, b))
	delete(n.deaf, pair{a, b})
	delete(n.deaf, pair{b, a})
	n.changeLocked()
}

// Slow gives the link between two nodes a delay in each direction.
func (n *Network) Slow(a, b string, d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delays[between(a, b)] = d
	n.changeLocked()
}

// Isolate cuts a node off from all others.
func (n *Network) Isolate(name string) {
	for other := range n.nodes {
		n.Cut(name, other)
	}
}

// Join ends all cuts of a node.
func (n *Network) Join(name string) {
	for other := range n.nodes {
		n.Heal(name, other)
	}
}

// Split cuts these nodes off from all others, not from one another.
func (n *Network) Split(side ...string) { n.across(side, n.Cut) }

// Unite ends a Split of the same nodes.
func (n *Network) Unite(side ...string) { n.across(side, n.Heal) }

func (n *Network) across(side []string, do func(a, b string)) {
	for a := range n.nodes {
		for _, b := range side {
			if !slices.Contains(side, a) {
				do(a, b)
			}
		}
	}
}

// Expire ends a node's identity, as when a side has not shown a new SVID in time: its streams break, and it is refused until Renew.
func (n *Network) Expire(name string) {
	n.mu.Lock()
	h := n.hosts[name]
	h.expired = true
	n.mu.Unlock()
	n.snap(errExpired, func(w *stream) bool { return w.ends[0] == h || w.ends[1] == h })
}

// Renew ends an Expire.
func (n *Network) Renew(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if h := n.hosts[name]; h != nil {
		h.expired = false
	}
}
