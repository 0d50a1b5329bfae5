package raftnet

import "sync"

// maxNamed is how many servers an SN may name, and how many SNs may do so.
const maxNamed = 256

// Named holds the servers that SNs have named to one that joins, whose configuration lacks them. The zero value holds none. It
// is safe for concurrent use.
type Named struct {
	mu sync.Mutex
	by map[string]map[string]bool // peer IDs, by the address of who said so
}

// Set takes the servers at the addresses in place of what the same SN has named before.
func (n *Named) Set(by string, addresses []string) {
	named := map[string]bool{}
	for _, a := range addresses[:min(len(addresses), maxNamed)] {
		if id, _, err := ParseAddress(a); err == nil {
			named[id] = true
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.by == nil || len(n.by) >= maxNamed {
		n.by = map[string]map[string]bool{}
	}
	n.by[by] = named
}

// Clear forgets all.
func (n *Named) Clear() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.by = nil
}

// Has reports whether anybody has named a peer.
func (n *Named) Has(peerID string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, named := range n.by {
		if named[peerID] {
			return true
		}
	}
	return false
}
